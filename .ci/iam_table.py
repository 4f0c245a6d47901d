"""The function's rights as a table in docs/security.md, made from template.yaml.

Without arguments it fails where the table is out of date; with --write it writes it.
"""

import re
import sys

import yaml

from iam_check import ROOT, Template, actions, resolved
from pages import is_up_to_date

PAGE = ROOT / "docs" / "security.md"
# Of an ARN what stands before the resource.
PLACE = r"^arn:.*?:(servicediscovery|ssm|route53):[^/]*?:(?=service/|namespace/|parameter|hostedzone/|healthcheck/)"
BEGIN, END = "<!-- rights -->\n", "<!-- end -->"
ALWAYS = "always"
# Parameters that make rights narrower; the page says so below the table.
NARROWER = {"AsksForServiceTag", "HasHostedZones"}
WHEN = {
    ALWAYS: ALWAYS,
    "HasKey": "with `KmsKeyArn`",
    "InVpc": "with `SubnetIds`",
    "ReadsParameters": "with `ClustersParameter` or `NamePolicyParameter`",
    "MayWrite": "`DryRun` is `false`",
    "MayWriteDns": "`DryRun` is `false`, `DnsNamespaces` is `yes`",
    "MayWriteNamespaces": "`DryRun` is `false`, `CreateNamespaces` is `true`",
    "MayWriteDeletions": "`DryRun` is `false`, `DeleteEmptyServices` is `true`",
    "PurgesDeadClusters": "with `PurgeDeadClustersAfter`",
    "AssumesRoles": "with `AssumableRoleArns`",
    "FansOut": "`FanOut` is `true`",
    "Sends": "`FanOut` is `true`, or `MultiCluster` is not `off`",
    "SendsWithKey": "`FanOut` is `true`, or `MultiCluster` is not `off`, with `KmsKeyArn`",
}


def resource(statement):
    """What a statement's resource is, in a word or two."""
    listed = statement["Resource"]
    listed = listed if isinstance(listed, list) else [listed]
    words = []
    for text in listed:
        if isinstance(text, dict):
            text = text["!Sub"][0]
        text = text.removeprefix("!Sub ").removeprefix("!GetAtt ").removeprefix("!Ref ")
        words.append("any" if text == "*" else f"`{re.sub(PLACE, '', text)}`")
    return ", ".join(dict.fromkeys(words))


def rows(template):
    """Each statement of the role with the condition under which it is there."""
    for policy in template["Resources"]["FunctionRole"]["Properties"]["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            when = statement["!If"][0] if "!If" in statement else ALWAYS
            statement = resolved(statement, lambda name: name not in NARROWER)
            limits = [key for keys in statement.get("Condition", {}).values() for key in keys]
            limits = "".join(f", by `{key}`" for key in dict.fromkeys(limits))
            names = ", ".join(f"`{action}`" for action in actions(statement))
            yield f"| {names} | {resource(statement)}{limits} | {WHEN.get(when, when)} |"


def main():
    template = yaml.load((ROOT / "template.yaml").read_text(), Template)
    head = ["| Actions | On | When |", "|---|---|---|"]
    table = "\n".join([*head, *rows(template)]) + "\n"
    return 0 if is_up_to_date(PAGE, (BEGIN, END), table, "iam_table.py") else 1


if __name__ == "__main__":
    sys.exit(main())
