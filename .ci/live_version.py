"""Plays deployments of a stack whose schedule runs a published version of the function (LiveVersion).

A parameter that is changed reaches the schedule with the next version and not before; another version takes over in steps
of which a bad one does not see the end; and a stack without LiveVersion has nothing of this. CloudFormation's part is
that of stack.py, Lambda's is a copy of code and configuration, SAM's translator is SAM's.
"""

import copy
import os
import random
import re
import sys

from samtranslator.translator.transform import transform

from alarms import HOUR, MINUTE, Alarm, alarms
from iam_check import ROOT
from stack import Stack, parameters, read, refusals
from stacks import CLUSTER, TEMPLATE, is_refused, run, stack

# What SAM made of the function's queue before this was here: the same resource, or the stack would get another one.
MAPPING = {
    "EventSourceArn": "arn:of:Queue", "FunctionName": "SyncFunction", "BatchSize": 1000, "MaximumBatchingWindowInSeconds": 1,
    "FunctionResponseTypes": ["ReportBatchItemFailures"], "ScalingConfig": {"MaximumConcurrency": 2},
}  # fmt: skip
OF_VERSIONS = ("AWS::Lambda::EventInvokeConfig", "AWS::CodeDeploy::Application", "AWS::CodeDeploy::DeploymentGroup")
# Of a version whose every full sync fails: so many times it is played, and so often an alarm must take it back in time.
SHIFTS, TAKEN_BACK = 300, 0.99


class Function:
    """Lambda's part: what was deployed last, and the versions that were published of it."""

    def __init__(self):
        self.latest, self.versions, self.found = None, {}, None

    def deploy(self, **given):
        self.found = stack(**given)
        (self.latest,) = self.found.resources("AWS::Serverless::Function").values()

    def publish(self):
        """Publishes code and configuration, as `aws lambda publish-version` does."""
        self.versions[str(len(self.versions) + 1)] = copy.deepcopy(self.latest)
        return str(len(self.versions))

    def runs(self, variable):
        """A variable as the schedules and the queue find it."""
        schedules = self.found.resources("AWS::Scheduler::Schedule").values()
        (target,) = {schedule["Target"]["Arn"] for schedule in schedules}
        queues = self.found.resources("AWS::Lambda::EventSourceMapping").values()
        (queue,) = {mapping["FunctionName"] for mapping in queues}
        alias = self.found.resources("AWS::Lambda::Alias").get("LiveAlias")
        expected = ("LiveAlias", "LiveAlias") if alias else ("arn:of:SyncFunction", "SyncFunction")
        assert (target, queue) == expected, (target, queue)
        role = self.found.resources("AWS::IAM::Role")["ScheduleRole"]["Policies"][0]["PolicyDocument"]["Statement"][0]
        assert role["Resource"] == target, "the schedule may invoke what it invokes"
        configuration = self.versions[alias["FunctionVersion"]] if alias else self.latest
        return configuration["Environment"]["Variables"][variable]


def check_parameters():
    """A changed parameter reaches the schedule with its version, and the way back brings the former one."""
    function = Function()
    function.deploy(GuardShare=50)
    assert function.runs("GUARD_SHARE") == "50"
    function.publish()
    function.deploy(GuardShare=50, LiveVersion=1)
    alias = function.found.resources("AWS::Lambda::Alias")["LiveAlias"]
    function.deploy(GuardShare=30, LiveVersion=1)
    assert function.runs("GUARD_SHARE") == "50", "a deployment without a version reaches the schedule"
    function.deploy(GuardShare=30, LiveVersion=1, FanOut="true", DeleteEmptyServices="true")
    assert len(function.found.resources("AWS::Scheduler::Schedule")) == 2 and function.runs("GUARD_SHARE") == "50"
    assert function.latest["Environment"]["Variables"]["GUARD_SHARE"] == "30", "what a plan by hand runs"
    assert function.publish() == "2"
    function.deploy(GuardShare=30, LiveVersion=2)
    assert function.runs("GUARD_SHARE") == "30", "the changed parameter does not reach the alias"
    changed = function.found.resources("AWS::Lambda::Alias")["LiveAlias"]
    # CodeDeploy takes over if the version changes; whatever else changes, CloudFormation does at once.
    assert {**alias, "FunctionVersion": "2"} == changed, changed
    assert function.found.outputs()["LiveVersionNumber"] == "2"
    function.deploy(GuardShare=30, LiveVersion=1)
    assert function.runs("GUARD_SHARE") == "50"
    function.deploy(GuardShare=30)
    assert function.runs("GUARD_SHARE") == "30"


def check_without():
    """Without LiveVersion a stack has what it had, by the same names."""
    found = stack()
    for kind in OF_VERSIONS:
        assert not found.resources(kind), kind
    assert found.resources("AWS::Lambda::EventSourceMapping") == {"SyncFunctionTargetedSync": MAPPING}
    assert not any("Version" in name or "Live" in name for name in [*found.outputs(), *found.resources("AWS::IAM::Role")])
    assert not found.resources("AWS::Lambda::Alias")


def check_aliases():
    """The alias of administrators leads to the version that the schedule runs, and has another name."""
    found = stack(LiveVersion=7, AdminAlias="admin")
    aliases = found.resources("AWS::Lambda::Alias")
    assert [it["FunctionVersion"] for it in aliases.values()] == ["7", "7"], aliases
    (settings,) = found.resources("AWS::Lambda::EventInvokeConfig").values()
    (function,) = found.resources("AWS::Serverless::Function").values()
    of_alias = {name: settings[name] for name in function["EventInvokeConfig"]}
    assert of_alias == function["EventInvokeConfig"] and settings["Qualifier"] == aliases["LiveAlias"]["Name"], settings
    assert is_refused(LiveVersion=7, AdminAlias="live") and not is_refused(AdminAlias="live")
    for wrong in ("0", "$LATEST", "v1", "1.0"):
        assert is_refused(LiveVersion=wrong), wrong


def deployments(**given):
    (group,) = stack(LiveVersion=2, **given).resources("AWS::CodeDeploy::DeploymentGroup").values()
    return group


def check_shift():
    """Gradually, a version takes over in more than an hour and under the alarms that page; at once, under none."""
    group = deployments()
    share, every = map(int, re.fullmatch(r"CodeDeployDefault\.LambdaLinear(\d+)PercentEvery(\d+)Minutes", group["DeploymentConfigName"]).groups())
    assert (100 / share - 1) * every >= 60, "under an hour"
    watched = {it["Name"] for it in group["AlarmConfiguration"]["Alarms"]}
    of_template = alarms(1, cleanup=False)
    assert group["AlarmConfiguration"]["Enabled"] and "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
    assert "NoGoodFullSyncAlarm" in watched and watched <= {f"{it.name}Alarm" for it in of_template if it.pages}, watched
    at_once = deployments(VersionShift="at-once")
    assert at_once["DeploymentConfigName"] == "CodeDeployDefault.LambdaAllAtOnce" and not at_once["AlarmConfiguration"]["Enabled"]
    for minutes in (1, 2, 5):
        (alarm,) = [it for it in alarms(minutes, cleanup=False) if it.name == "NoGoodFullSync"]
        ends = [taken_back(alarm, minutes, share, every, random.Random(seed)) for seed in range(SHIFTS)]
        in_time = [it for it in ends if it is not None and it < (100 / share - 1) * every]
        assert len(in_time) >= TAKEN_BACK * SHIFTS, f"every {minutes} minutes: taken back {len(in_time)} times of {SHIFTS}"
        print(f"a version that fails every sync, every {minutes} minutes: taken back after {min(in_time)} to {max(in_time)} minutes")


def taken_back(alarm, minutes, share, every, draw):
    """The minutes until the alarm fires, if each full sync of the version that takes over fails."""
    written = {minute: [1] for minute in range(-HOUR // MINUTE - 60, 0, minutes)}
    for minute in range(0, 120, minutes):
        weight = min(100, share * (minute // every + 1))
        written[minute] = [0 if draw.randrange(100) < weight else 1]
    return Alarm.fires(alarm, sorted(written.items()), 0)


def check_forwarders():
    """Forwarders that invoke the function take it with an alias, and may invoke what they are given."""
    function = "arn:aws:lambda:eu-central-1:111122223333:function:cloud-map-sync"
    for name in ("queue-access", "audit-log"):
        template = read(ROOT / "deploy" / "forwarders" / f"{name}.yaml")
        for arn, is_taken in ((function, True), (f"{function}:live", True), (f"{function}:", False), (f"{function}:$LATEST", False), (f"{function}:a:b", False)):
            values = parameters(template, {"ClusterName": "blue", "FunctionArn": arn})
            assert (not list(refusals(template, values))) == is_taken, (name, arn)
            found = Stack(template, values)
            if is_taken and name == "queue-access":
                (policy,) = found.resources("AWS::IAM::Role")["SenderRole"]["Policies"]
                assert [it["Resource"] for it in policy["PolicyDocument"]["Statement"]] == [arn]
            elif is_taken:
                (permission,), (subscription,) = (found.resources(it).values() for it in ("AWS::Lambda::Permission", "AWS::Logs::SubscriptionFilter"))
                assert permission["FunctionName"] == subscription["DestinationArn"] == arn


def check_the_way_of_sam():
    """Why the alias is not SAM's own: to SAM a changed parameter is no new version."""
    def versions(**given):
        template = copy.deepcopy(TEMPLATE)
        function = template["Resources"]["SyncFunction"]["Properties"]
        function.update(CodeUri="s3://bucket/key", AutoPublishAlias="live", AutoPublishAliasAllProperties=True)
        made = transform(template, {"Clusters": CLUSTER, **given}, NoPolicies())["Resources"]
        return [name for name, it in made.items() if it["Type"] == "AWS::Lambda::Version"]

    assert versions(GuardShare="50") == versions(GuardShare="30") != [], "SAM publishes a version: use its alias"


class NoPolicies:
    """SAM asks AWS for its managed policies; the template uses none by name."""

    def load(self):
        return {}


def main():
    # SAM's translator asks for one, and for nothing there.
    os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")
    return run((check_parameters, check_without, check_aliases, check_shift, check_forwarders, check_the_way_of_sam))


if __name__ == "__main__":
    sys.exit(main())
