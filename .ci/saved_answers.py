"""Saved answers for `sam deploy`: samconfig.example.toml, made from template.yaml with each parameter and its description.

Without arguments it fails where the file is out of date, and where SAM's own code reads something else from it than
CloudFormation takes; with --write it writes it.
"""

import sys
import textwrap
import tomllib

from iam_check import ROOT
from stack import parameters, read, refusals

from samcli.cli.types import CfnParameterOverridesType

FILE = ROOT / "samconfig.example.toml"
TABLE = "[default.deploy.parameters.parameter_overrides]\n"
WIDTH = 118
HEAD = """\
# Saved answers for `sam deploy`. Copy this file to samconfig.toml, which git does not track, and change it there:
# `sam deploy` then asks nothing about them. `sam deploy --guided` offers them, and saves yours in their place, without
# these comments.
version = 0.1

[default.global.parameters]
# Function, queue and log group have the stack's name: at most 64 characters.
stack_name = "cloud-map-sync"
# The Region; without this line that of your AWS configuration.
# region = "eu-central-1"

[default.validate.parameters]
lint = true

[default.deploy.parameters]
# The stack has IAM roles, with a name of yours if RoleName is given.
capabilities = "CAPABILITY_NAMED_IAM"
# Shows the changes and asks before they are made. In a pipeline: sam deploy --no-confirm-changeset
confirm_changeset = true
# The package goes into an S3 bucket that SAM creates for this.
resolve_s3 = true

# The template's parameters. A line without # before it is an answer of yours. A line with # is the default, or an
# example if the parameter is empty without it.
"""
ACCOUNT = "111122223333"
# What one has to answer oneself.
ANSWERED = {"Clusters": [f"arn:aws:eks:eu-central-1:{ACCOUNT}:cluster/blue"], "DryRun": "true", "DnsNamespaces": "no"}
# For parameters that are empty by default.
EXAMPLES = {
    "ClusterSettings": f'[{{"cluster": "blue", "defaultNamespace": "shop.local"}}, {{"cluster": "arn:aws:eks:eu-west-1:{ACCOUNT}:cluster/green"}}]',
    "ClustersParameter": "/cloud-map-sync/clusters/",
    "CloudMapNamespaces": "shop.local,payments.local",
    "ExpireClustersAfter": "1d",
    "NamePolicy": '[{"clusters": ["blue"], "kubernetesNamespaces": ["shop", "shop-*"], "cloudMapNamespaces": ["shop.local"], "names": ["shop-*"]}]',
    "NamePolicyParameter": "/cloud-map-sync/name-policy",
    "PurgeDeadClustersAfter": "7d",
    "HostedZoneIds": ["Z0123456789ABCDEFGHIJ"],
    "AssumableRoleArns": [f"arn:aws:iam::{ACCOUNT}:role/cloud-map-sync-*"],
    "AccessEntryCluster": "blue",
    "ForwarderPrincipals": [f"arn:aws:iam::{ACCOUNT}:role/cloud-map-forwarder"],
    "SenderArns": [f"arn:aws:sns:eu-central-1:{ACCOUNT}:changes", f"arn:aws:events:eu-central-1:{ACCOUNT}:rule/changes"],
    "ReservedConcurrency": "4",
    "LiveVersion": "7",
    "SubnetIds": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    "SecurityGroupIds": ["sg-0123456789abcdef0"],
    "AlarmTopicArn": f"arn:aws:sns:eu-central-1:{ACCOUNT}:pages",
    "NoticeTopicArn": f"arn:aws:sns:eu-central-1:{ACCOUNT}:notices",
    "RoleName": "cloud-map-sync",
    "AdminAlias": "admin",
    "PermissionsBoundaryArn": f"arn:aws:iam::{ACCOUNT}:policy/boundary",
    "KmsKeyArn": f"arn:aws:kms:eu-central-1:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555",
    "CodeSigningConfigArn": f"arn:aws:lambda:eu-central-1:{ACCOUNT}:code-signing-config:csc-0123456789abcdef0",
}  # fmt: skip


def written(value):
    """A value in TOML. Texts with quotes in them, such as JSON, stand in single ones."""
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    text = str(value)
    return f"'{text}'" if '"' in text else f'"{text}"'


def lines(name, parameter):
    """A parameter with its description."""
    description = " ".join(parameter["Description"].split()).rstrip(".")
    allowed = parameter.get("AllowedValues", [])
    if len(allowed) > 1:
        description += ". One of: " + ", ".join(map(str, allowed))
    yield from textwrap.wrap(description, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    if name in ANSWERED:
        yield f"{name} = {written(ANSWERED[name])}"
    else:
        yield f"# {name} = {written(parameter['Default'] if parameter['Default'] != '' else EXAMPLES[name])}"
    yield ""


def made(template):
    """The whole file."""
    text = [HEAD + TABLE]
    for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        text.append(f"## {group['Label']['default']}\n")
        for name in group["Parameters"]:
            text += lines(name, template["Parameters"][name])
    return "\n".join(text).rstrip() + "\n"


def as_sam_reads(text):
    """The parameters of a file of saved answers, by SAM's own code."""
    given = tomllib.loads(text)["default"]["deploy"]["parameters"]["parameter_overrides"]
    return CfnParameterOverridesType().convert(given, None, None)


def uncommented(text, name):
    """The file with one more answer."""
    return text.replace(f"\n# {name} = ", f"\n{name} = ", 1)


def mistakes(template, text):
    """What CloudFormation would not take, or SAM reads in another way: of the file, and of each line that has a #."""
    for name, parameter in template["Parameters"].items():
        is_answered = name in ANSWERED
        read_by_sam = as_sam_reads(text if is_answered else uncommented(text, name))
        expected = ANSWERED.get(name, parameter.get("Default", "") if parameter.get("Default", "") != "" else EXAMPLES.get(name))
        expected = ",".join(expected) if isinstance(expected, list) else str(expected)
        if read_by_sam.get(name) != expected:
            yield f"{name} is read as {read_by_sam.get(name)!r} and not as {expected!r}"
        for refusal in refusals(template, parameters(template, read_by_sam)):
            yield f"with {name}: {refusal}"
    grouped = [it for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"] for it in group["Parameters"]]
    if sorted(grouped) != sorted(template["Parameters"]):
        yield f"not in one group each: {set(grouped) ^ set(template['Parameters'])}"


def main():
    template = read(ROOT / "template.yaml")
    text = made(template)
    if "--write" in sys.argv:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        print(f"{FILE.name} is out of date; run .ci/saved_answers.py --write", file=sys.stderr)
        return 1
    found = list(mistakes(template, text))
    for mistake in found:
        print(mistake, file=sys.stderr)
    print(f"{len(template['Parameters'])} parameters with their saved answers, {len(found)} mistakes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
