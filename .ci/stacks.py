"""What template.yaml makes of the parameters: alarms that follow the schedule, roles of any number of clusters, rights
that end where a parameter says so. Each is a stack as CloudFormation would resolve it.
"""

import json
import re
import shlex
import sys
from fnmatch import fnmatchcase
from itertools import product

from iam_check import ROOT, actions
from stack import Stack, parameters, read, refusals

TEMPLATE = read(ROOT / "template.yaml")
ACCOUNT = "111122223333"
CLUSTER = f"arn:aws:eks:eu-central-1:{ACCOUNT}:cluster/blue"
EVERY_CLUSTER = f"arn:aws:eks:*:{ACCOUNT}:cluster/*"
# IAM's, for all inline policies of a role, white space apart.
ROLE_LIMIT = 10_240
# CloudWatch's, in seconds, for all periods of an alarm together; a week with periods of an hour or more.
DAY, WEEK = 86_400, 604_800
ALL_ON = {
    "DryRun": "false", "DnsNamespaces": "yes", "CreateNamespaces": "true", "DeleteEmptyServices": "true",
    "FanOut": "true", "RequiredServiceTag": "yes", "PurgeDeadClustersAfter": "7d", "SubnetIds": "subnet-0",
    "SecurityGroupIds": "sg-0", "ClustersParameter": "/cloud-map-sync/clusters/",
    "NamePolicyParameter": "/cloud-map-sync/name-policy",
    "KmsKeyArn": f"arn:aws:kms:eu-central-1:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555",
}  # fmt: skip


def stack(partition="aws", named="cloud-map-sync", **given):
    """The stack of these parameters, which CloudFormation must take."""
    values = parameters(TEMPLATE, {"Clusters": CLUSTER, **given})
    refused = list(refusals(TEMPLATE, values))
    if refused:
        raise AssertionError(f"{given} is refused: {refused}")
    return Stack(TEMPLATE, values, partition, named)


def is_refused(**given):
    return any(refusals(TEMPLATE, parameters(TEMPLATE, {"Clusters": CLUSTER, **given})))


def policy(found):
    """The statements of the function's role, by their Sid."""
    (document,) = found.resources("AWS::IAM::Role")["FunctionRole"]["Policies"]
    return {statement["Sid"]: statement for statement in document["PolicyDocument"]["Statement"]}


def check_alarms():
    """Each alarm on a metric of a run sees at least one run in a period, and no time is beyond what CloudWatch takes."""
    for minutes in map(int, TEMPLATE["Parameters"]["ScheduleMinutes"]["AllowedValues"]):
        enough = 2 * minutes + 1 if minutes > 1 else 2
        found = stack(ScheduleMinutes=minutes, NoGoodSyncMinutes=max(enough, 5))
        for name, alarm in found.resources("AWS::CloudWatch::Alarm").items():
            by_cluster = "Metrics" in alarm
            period, periods = int((alarm["Metrics"][0] if by_cluster else alarm)["Period"]), int(alarm["EvaluationPeriods"])
            assert not by_cluster or period * periods <= 3 * 3600, f"{name}: Metrics Insights takes three hours"
            assert period % 60 == 0 and period * periods <= (WEEK if period >= 3600 else DAY), (minutes, name)
            # A message comes when it comes.
            if alarm.get("Namespace", "cloud-map-sync") != "cloud-map-sync" or name in ("DroppedMessagesAlarm", "NoGoodCleanupAlarm"):
                continue
            if alarm["TreatMissingData"] == "breaching":
                # Its periods are minutes, since what is missing is what it is about.
                assert period == 60 and periods > 2 * minutes - (minutes == 1), (minutes, name)
            else:
                assert period >= 60 * minutes, f"{name} cannot fire, or flaps, with a sync every {minutes} minutes"
            if name in ("HeldBackAlarm", "ConflictsAlarm", "DryRunAlarm", "OrphansAlarm", "ClusterNotSyncedAlarm"):
                assert period * periods == max(1800, 2 * 60 * minutes), (minutes, name)
        (function,) = found.resources("AWS::Serverless::Function").values()
        assert function["Environment"]["Variables"]["SCHEDULE_MINUTES"] == str(minutes)
        for given in range(2, 1441):
            is_wrong = is_refused(ScheduleMinutes=minutes, NoGoodSyncMinutes=given)
            assert is_wrong == (given < enough), f"{minutes} and {given}: refused is {is_wrong}"
    for minutes, rate in ((2, "2 minutes"), (5, "5 minutes"), (15, "15 minutes"), (60, "1 hour")):
        schedule = {"Schedule": f"rate({rate})", "NoGoodSyncMinutes": 200}
        assert is_refused(**schedule), f"every {rate} with alarms for every minute"
        stack(ScheduleMinutes=minutes, **schedule)


def check_cleanup():
    """A second schedule and its alarms where only a look at all clusters shows what goes, and nowhere else."""
    deletes, purges = {"DeleteEmptyServices": "true"}, {"PurgeDeadClustersAfter": "7d"}
    for given in ({}, {"FanOut": "true"}, deletes, {**deletes, **purges}):
        found = stack(**given)
        assert list(found.resources("AWS::Scheduler::Schedule")) == ["FullSync"], given
        assert found.resources("AWS::CloudWatch::Alarm")["NoGoodCleanupAlarm"]["TreatMissingData"] == "notBreaching", given
    for given, minutes in product((deletes, purges), TEMPLATE["Parameters"]["CleanupMinutes"]["AllowedValues"]):
        found = stack(FanOut="true", CleanupMinutes=minutes, **given)
        schedules = found.resources("AWS::Scheduler::Schedule")
        full, cleanup = schedules["FullSync"]["Target"], schedules["Cleanup"]["Target"]
        assert schedules["Cleanup"]["ScheduleExpression"] == f"rate({minutes} minutes)"
        assert json.loads(cleanup.pop("Input")) == {"action": "cleanup"} and cleanup == full, (cleanup, full)
        alarms = found.resources("AWS::CloudWatch::Alarm")
        for name in ("NoGoodCleanupAlarm", "OrphansAlarm"):
            period, periods = int(alarms[name]["Period"]), int(alarms[name]["EvaluationPeriods"])
            assert period == 60 * int(minutes) and period * periods <= (WEEK if period >= 3600 else DAY), (name, minutes)
    assert is_refused(CleanupMinutes=5)


def check_many_clusters():
    """More than 64 clusters can be deployed: with patterns the role stays within what IAM takes."""
    for clusters, roles in product(
        (EVERY_CLUSTER, f"arn:aws:eks:eu-central-1:{ACCOUNT}:cluster/prod-*", ",".join([CLUSTER] * 60)),
        ("", f"arn:aws:iam::{ACCOUNT}:role/cloud-map-sync-*", "arn:aws:iam::*:role/cloud-map-sync-*"),
    ):
        found = policy(stack(**{**ALL_ON, "Clusters": clusters, "AssumableRoleArns": roles}))
        size = len(json.dumps(list(found.values()), separators=(",", ":")))
        assert size < ROLE_LIMIT, f"{size} characters for {clusters[:80]} and {roles}"
        assert found["FindClusters"]["Resource"] == clusters.split(",")
    for wrong in ("*", "arn:aws:eks:eu-central-1:*:cluster/blue", f"arn:aws:eks:*:{ACCOUNT}:*"):
        assert is_refused(Clusters=wrong), wrong
    for wrong in ("*", "arn:aws:iam::*:role/*", f"arn:aws:iam::{ACCOUNT}:role/*"):
        assert is_refused(AssumableRoleArns=wrong), wrong


def check_hosted_zones():
    """Rights in Route 53 are those of the named hosted zones, in each partition."""
    writes = {"DryRun": "false", "DnsNamespaces": "yes"}
    assert policy(stack(**writes))["WriteAddressRecords"]["Resource"] == "arn:aws:route53:::hostedzone/*"
    for partition in ("aws", "aws-cn", "aws-us-gov"):
        found = policy(stack(partition, **writes, HostedZoneIds="Z0123456789ABCDEFGHIJ,Z9"))
        zones = [f"arn:{partition}:route53:::hostedzone/{it}" for it in ("Z0123456789ABCDEFGHIJ", "Z9")]
        assert found["WriteAddressRecords"]["Resource"] == zones, found["WriteAddressRecords"]
    assert is_refused(HostedZoneIds="shop.local")


def check_concurrency():
    """The function has no concurrency of its own unless asked for, and then enough for the queue, the schedule and a call."""
    (function,) = stack().resources("AWS::Serverless::Function").values()
    assert "ReservedConcurrentExecutions" not in function
    (function,) = stack(ReservedConcurrency=4).resources("AWS::Serverless::Function").values()
    assert function["ReservedConcurrentExecutions"] == "4"
    for wrong in (0, 1, 3, "x"):
        assert is_refused(ReservedConcurrency=wrong), wrong
    for runs in map(int, TEMPLATE["Parameters"]["FullSyncConcurrency"]["AllowedValues"]):
        for fan_out, least in (("true", runs + 4), ("false", 4)):
            given = {"FanOut": fan_out, "FullSyncConcurrency": runs}
            for reserved in range(4, 80):
                assert is_refused(**given, ReservedConcurrency=reserved) == (reserved < least), (given, reserved)
            assert not is_refused(**given, ReservedConcurrency=1000) and not is_refused(**given), given


def check_full_syncs():
    """With FanOut full syncs have a queue of their own, one to a run; everything else is as without."""
    def queues(found):
        return found.resources("AWS::SQS::Queue"), found.resources("AWS::Lambda::EventSourceMapping")

    (one, (mapping,)), found = queues(stack()), stack(FanOut="true", FullSyncConcurrency=4, Timeout=900)
    more, mappings = queues(found)
    assert "FullSyncQueue" not in one and mappings["SyncFunctionTargetedSync"] == queues(stack())[1][mapping]
    queue, served = more["FullSyncQueue"], mappings["SyncFunctionFullSyncs"]
    same = {key: queue[key] for key in ("VisibilityTimeout", "SqsManagedSseEnabled", "RedrivePolicy")}
    assert same == {key: more["Queue"][key] for key in same}, same
    assert queue["VisibilityTimeout"] == 6 * 900 and queue["QueueName"] == "cloud-map-sync-full-syncs"
    longest = max(map(int, TEMPLATE["Parameters"]["ScheduleMinutes"]["AllowedValues"]))
    assert queue["MessageRetentionPeriod"] >= 60 * longest, "a full sync would be lost before the next one is queued"
    assert served["EventSourceArn"] == "arn:of:FullSyncQueue" and served["BatchSize"] == 1, served
    assert served["ScalingConfig"] == {"MaximumConcurrency": "4"} and served["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    for fan_out, url in (("true", "FullSyncQueue"), ("false", "")):
        found = stack(FanOut=fan_out)
        (function,) = found.resources("AWS::Serverless::Function").values()
        variables = function["Environment"]["Variables"]
        assert (variables["FAN_OUT"], variables["QUEUE_URL"]) == (url, "Queue"), variables
        policies = found.resources("AWS::SQS::QueuePolicy")
        covered = {name for it in policies.values() for name in it["Queues"]}
        assert covered == set(found.resources("AWS::SQS::Queue")), covered
        for name, it in policies.items():
            only_tls = it["PolicyDocument"]["Statement"][0]
            assert only_tls["Sid"] == "OnlyTls" and only_tls["Effect"] == "Deny", name
    # The alarm and the dashboard have the name, since the queue is not always there.
    named = "other"
    found = stack(named=named, FanOut="true", Dashboard="yes")
    name = found.resources("AWS::SQS::Queue")["FullSyncQueue"]["QueueName"]
    alarm = found.resources("AWS::CloudWatch::Alarm")["OldFullSyncsAlarm"]
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": name}], alarm
    (dashboard,) = found.resources("AWS::CloudWatch::Dashboard").values()
    assert dashboard["DashboardBody"].count(f'"{name}"') == 2


def check_names():
    """Names are those of the stack and of RoleName, and no name is longer than Lambda, SQS and IAM take."""
    longest = "a" * 64
    found = stack(named=longest, RoleName="r" * 55)
    (function,) = found.resources("AWS::Serverless::Function").values()
    queue = found.resources("AWS::SQS::Queue")["Queue"]
    assert function["FunctionName"] == queue["QueueName"] == longest
    full_syncs = stack(named=longest, FanOut="true").resources("AWS::SQS::Queue")["FullSyncQueue"]
    assert len(full_syncs["QueueName"]) <= 80, full_syncs
    assert found.resources("AWS::Logs::LogGroup")["LogGroup"]["LogGroupName"] == f"/aws/lambda/{longest}"
    roles = found.resources("AWS::IAM::Role")
    names = [role["RoleName"] for role in roles.values()]
    assert len(set(names)) == len(roles) and all(len(name) <= 64 for name in names), names
    assert roles["FunctionRole"]["RoleName"] == "r" * 55
    assert not any("RoleName" in role for role in stack().resources("AWS::IAM::Role").values())
    for wrong in ("r" * 56, "two words", "path/role"):
        assert is_refused(RoleName=wrong), wrong
    # IAM takes 512 characters with both slashes.
    assert is_refused(RolePath=f"/{'p' * 511}/") and not is_refused(RolePath=f"/{'p' * 510}/")
    for name in ("RolePath", "RoleName"):
        assert "every cluster refuses the new one" in TEMPLATE["Parameters"][name]["Description"], name
    (allowed,) = re.findall(r'regex\("(.*)", var\.name\)', (ROOT / "deploy" / "terraform" / "variables.tf").read_text())
    assert re.fullmatch(allowed, longest) and not re.fullmatch(allowed, longest + "a"), allowed


def check_admin_alias():
    """The alias of administrators leads to what was deployed, and is there only if it has a name; with LiveVersion see live_version.py."""
    found = stack(AdminAlias="admin")
    (alias,) = found.resources("AWS::Lambda::Alias").values()
    assert (alias["Name"], alias["FunctionVersion"]) == ("admin", "$LATEST"), alias
    (function,) = found.resources("AWS::Serverless::Function").values()
    assert function["Environment"]["Variables"]["ADMIN_ALIAS"] == "admin"
    assert not stack().resources("AWS::Lambda::Alias")
    for wrong in ("7", "two words", "$LATEST"):
        assert is_refused(AdminAlias=wrong), wrong
    assert not is_refused(AdminAlias="7a")


def check_encryption():
    """A key encrypts the environment, the queues and the log group, and each role may use it for what it does there."""
    found = stack(**ALL_ON)
    (function,) = found.resources("AWS::Serverless::Function").values()
    encrypted = [function["KmsKeyArn"], found.resources("AWS::Logs::LogGroup")["LogGroup"]["KmsKeyId"]]
    encrypted += [queue["KmsMasterKeyId"] for queue in found.resources("AWS::SQS::Queue").values()]
    assert encrypted == [ALL_ON["KmsKeyArn"]] * 6, encrypted
    rights = policy(found)
    assert actions(rights["DecryptMessages"]) == ["kms:Decrypt"] and rights["DecryptMessages"]["Resource"] == ALL_ON["KmsKeyArn"]
    (function,) = stack().resources("AWS::Serverless::Function").values()
    assert "KmsKeyArn" not in function and "DecryptMessages" not in policy(stack())


def check_senders():
    """Topics and rules that are named may send to the queue, as SNS and EventBridge, and no others."""
    def senders(**given):
        document = stack(**given).resources("AWS::SQS::QueuePolicy")["QueuePolicy"]["PolicyDocument"]
        return [statement for statement in document["Statement"] if statement["Effect"] == "Allow"]

    assert senders() == []
    arns = [f"arn:aws:sns:eu-west-1:{ACCOUNT}:changes", f"arn:aws:events:eu-west-1:{ACCOUNT}:rule/bus/changes"]
    (statement,) = senders(SenderArns=",".join(arns))
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": arns}}, statement
    assert statement["Principal"] == {"Service": ["sns.amazonaws.com", "events.amazonaws.com"]}
    for wrong in ("*", "changes", f"arn:aws:sqs:eu-west-1:{ACCOUNT}:q", f"arn:aws:sns:eu-west-1:{ACCOUNT}:*", f"arn:aws:events:eu-west-1:{ACCOUNT}:rule/*"):
        assert is_refused(SenderArns=wrong), wrong


def check_links():
    """The link to the dashboard leads to the console of the stack's partition."""
    for partition, console in (("aws", "console.aws.amazon.com"), ("aws-cn", "console.amazonaws.cn"), ("aws-us-gov", "console.amazonaws-us-gov.com")):
        link = stack(partition).outputs()["DashboardUrl"]
        assert link.startswith(f"https://eu-central-1.{console}/cloudwatch/home?region=eu-central-1#dashboards/"), link
    assert "DashboardUrl" not in stack(Dashboard="no").outputs()
    # Whatever else stands in the template, of any partition.
    assert (ROOT / "template.yaml").read_text().count("console.aws.amazon.com") == 1


def simulations():
    """The commands by which doctor has IAM asked, as docs/cli.md shows them: actions, resource and context of each."""
    lines = re.findall(r"^    try: (aws iam simulate-principal-policy .*)$", (ROOT / "docs" / "cli.md").read_text(), re.M)
    for command in (part for line in lines for part in line.split(" && ")):
        options, name = {}, ""
        for word in shlex.split(command):
            name = word if word.startswith("--") else name
            options.setdefault(name, []).extend([] if word == name else [word])
        context = {}
        for entry in options.get("--context-entries", []):
            fields = dict(field.split("=", 1) for field in entry.split(","))
            context[fields["ContextKeyName"]] = fields["ContextKeyValues"]
        for action, resource in product(options["--action-names"], options.get("--resource-arns", ["*"])):
            yield action, resource, context


def is_allowed(statement, action, resource, context):
    """Whether a statement allows a call, as IAM decides for the operators that the role has."""
    listed = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
    if action not in actions(statement) or not any(fnmatchcase(resource, it) for it in listed):
        return False
    for operator, keys in statement.get("Condition", {}).items():
        for key, wanted in keys.items():
            wanted = wanted if isinstance(wanted, list) else [wanted]
            if operator == "StringEquals" and context.get(key) not in wanted:
                return False
            if operator == "ForAllValues:StringEquals" and context.get(key, wanted[0]) not in wanted:
                return False
    return True


def check_simulation():
    """The role of the template is shown as right by the commands of doctor, and that of a dry run as wrong."""
    asked = list(simulations())
    assert asked
    for given in ({}, {"RequiredServiceTag": "yes"}):
        for dry_run in ("false", "true"):
            role = policy(stack(DryRun=dry_run, **given)).values()
            for call in asked:
                allowed = any(is_allowed(statement, *call) for statement in role)
                assert allowed == (dry_run == "false"), f"{call[:2]} is {allowed} with DryRun={dry_run}, {given}"


def run(checks):
    """Makes all checks and prints the mistakes; returns the exit code."""
    failed = 0
    for check in checks:
        try:
            check()
        except (AssertionError, KeyError) as mistake:
            print(f"{check.__name__}: {mistake!r}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


def main():
    checks = (
        check_alarms, check_cleanup, check_many_clusters, check_hosted_zones, check_concurrency, check_full_syncs, check_names, check_admin_alias, check_encryption,
        check_senders, check_links, check_simulation,
    )  # fmt: skip
    return run(checks)


if __name__ == "__main__":
    sys.exit(main())
