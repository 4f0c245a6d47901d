"""Plays incidents against the alarms of template.yaml by CloudWatch's documented rules, for full syncs every 1, 2 and 5
minutes, and keeps the table in docs/runbook.md of which alarm fires after how long.

Without arguments it fails where an alarm fires that should not, or does not fire that should, and where the table is out
of date; with --write it writes the table. The rules are those of "Alarm evaluation" and "Configuring how CloudWatch
alarms treat missing data": every minute the newest EvaluationPeriods periods are compared, in windows that move with that
minute. CloudWatch reads some periods more, how many is not documented: enough values among all of them decide alone, and
else the missing ones are filled in, as few as possible.
"""

import re
import sys
from bisect import bisect_left
from itertools import product

from iam_check import ROOT
from pages import is_up_to_date
from stacks import stack

PAGE = ROOT / "docs" / "runbook.md"
BEGIN, END = "<!-- alarm plays -->\n", "<!-- end -->"
# The metrics of a kind, by the page.
TABLES = (ROOT / "docs" / "reference" / "metrics.md").read_text().split("<!-- of a")[1:]
KNOWN = {(name, kind) for kind, table in zip(("invocation", "cluster"), TABLES) for name in re.findall(r"^\| `(\w+)` \|", table, re.M)}
MINUTE, HOUR = 60, 3600
# Of a play, around its incident at 0.
BEFORE, AFTER = -4 * HOUR, 2 * HOUR
# Periods that are read beyond EvaluationPeriods.
BEYOND = (0, 2, 5)
# Between the schedule's moment and the run's end, in seconds, run by run.
DURATIONS = ((3,), (50, 3, 20), (58, 59))
# By which the run of one cluster ends after that of another, in seconds.
APART = 70
TOPICS = {name: f"arn:aws:sns:eu-central-1:111122223333:{name}" for name in ("page", "notice")}
GOOD = {
    "GoodFullSync": 1, "OutOfStep": 0, "GuardHeldAgain": 0, "HeldBack": 0, "Conflicts": 0, "PlannedChanges": 0,
    "StaleClusters": 0, "Orphans": 0, "DroppedMessages": 0,
}  # fmt: skip
OF_CLUSTERS = {("GoodFullSync", "blue"): 1, ("GoodFullSync", "green"): 1}
FAN_OUT = {("FullSyncEnded", "blue"): 1, ("FullSyncEnded", "green"): 1}
# A cleanup every 15 minutes, where FanOut has no other run over all clusters.
CLEANUP = {"GoodCleanup": 1, "Orphans": 0}
CLEANUP_MINUTES = 15


class Play:
    """What each run writes: before the incident at 0, and from then on; `at` is the time since, `index` counts the runs since.
    With `cleanup` the changes are those of the cleanups. With `fan_out` each cluster has a run of its own. `may` are alarms
    that depend on which runs end in the same minute."""

    def __init__(self, words, fires=(), fan_out=False, cleanup=False, may=(), **changes):
        self.words, self.fires, self.may, self.fan_out, self.cleanup = words, set(fires), set(may), fan_out or cleanup, cleanup
        self.changes = {name.replace("__", "/"): value for name, value in changes.items()}

    def written(self, at, index):
        values = {**GOOD, **OF_CLUSTERS, **(FAN_OUT if self.fan_out else {})}
        if self.cleanup:
            return {key: value for key, value in values.items() if key != "Orphans"}
        return self.changed(values, at, index)

    def runs(self, at, index):
        """The values of each run of a moment of the schedule."""
        values = self.written(at, index)
        if not self.fan_out:
            return [values]
        # The incidents are blue's, and green is well.
        of_green = {key: value for key, value in values.items() if key[1:] == ("green",)}
        rest = {key: value for key, value in values.items() if key not in of_green}
        return [rest, {**of_green, "GoodFullSync": 1}]

    def changed(self, values, at, index):
        """The values with the changes since the incident."""
        values = dict(values)
        if at < 0:
            return values
        for name, change in self.changes.items():
            key = tuple(name.split("/")) if "/" in name else name
            values[key] = change(at, index) if callable(change) else change
        return {key: value for key, value in values.items() if value is not None}


NOTHING = {name.replace("/", "__"): None for name in (*GOOD, "GoodFullSync/blue", "GoodFullSync/green")}
INCIDENTS = [
    Play("A cluster cannot be read", ("NoGoodFullSync", "ClusterNotSynced"), GoodFullSync=0, GoodFullSync__blue=0),
    Play("A cluster with `page: false` cannot be read", ("ClusterNotSynced",), GoodFullSync__green=0),
    Play("The function does not run at all", ("NoGoodFullSync",), **NOTHING),
    Play("With `FanOut`, one cluster cannot be read", ("NoGoodSyncOfCluster", "ClusterNotSynced"), True, may=["NoGoodFullSync"], GoodFullSync=0, GoodFullSync__blue=0, FullSyncEnded__blue=0),
    Play("With `FanOut`, each run of one cluster dies", ("NoGoodSyncOfCluster",), True, GoodFullSync=None, GoodFullSync__blue=None, FullSyncEnded__blue=None),
    Play("One registration fails in each run", ("NoGoodFullSync", "OutOfStep", "ClusterNotSynced"), GoodFullSync=0, OutOfStep=1, GoodFullSync__blue=0),
    Play("Most of a cluster's instances would go; it passes after ten minutes", ("GuardHeldAgain",), GuardHeldAgain=lambda at, index: int(index > 0 and at < 10 * MINUTE), HeldBack=lambda at, _: 20 * (at < 10 * MINUTE)),
    Play("A forwarder with a wrong `CLUSTER` sends one message", ("DroppedMessages",), DroppedMessages=lambda _, index: int(index == 0)),
    Play("A cluster is removed from `CLUSTERS`, and its instances are still there", ("Orphans",), Orphans=5, GoodFullSync__blue=None),
    Play("The same with `FanOut`, and a cleanup every 15 minutes", ("Orphans",), cleanup=True, Orphans=5),
    Play("No cleanup of one every 15 minutes is good, or ends", ("NoGoodCleanup",), cleanup=True, GoodCleanup=lambda _, index: None if index % 2 else 0, Orphans=None),
]  # fmt: skip
# No alarm fires.
QUIET = [
    Play("nothing happens"),
    Play("nothing happens, with FanOut", fan_out=True),
    Play("nothing happens, with cleanups", cleanup=True),
    Play("one cleanup fails and sees an orphan", cleanup=True, GoodCleanup=lambda _, index: int(index != 0), Orphans=lambda _, index: int(index == 0)),
    Play("a cleanup in two dies", cleanup=True, GoodCleanup=lambda _, index: index % 2 or None),
    Play("one full sync fails", GoodFullSync=lambda _, index: int(index != 0), GoodFullSync__blue=lambda _, index: int(index != 0)),
    Play("one full sync fails and leaves an endpoint", OutOfStep=lambda _, index: int(index == 0), GoodFullSync=lambda _, index: int(index != 0)),
    Play("a run in two cannot read a cluster that does not page", GoodFullSync__green=lambda _, index: index % 2),
    Play("a cluster leaves CLUSTERS with FanOut", fan_out=True, GoodFullSync__blue=None, FullSyncEnded__blue=None),
    Play("the runs of a cluster take as long as the longest Timeout", fan_out=True, FullSyncEnded__blue=lambda at, _: 1 if at % (15 * MINUTE) < 5 * MINUTE else None, GoodFullSync__blue=lambda at, _: 1 if at % (15 * MINUTE) < 5 * MINUTE else None),
]  # fmt: skip


def series(play, minutes, phase, durations):
    """The values of each metric by minute, as CloudWatch keeps them, and what the clusters are queued with."""
    found = {}

    def write(at, key, value):
        found.setdefault(key, {}).setdefault(at // MINUTE, []).append(value)

    if play.cleanup:
        since = 0
        for number, at in enumerate(range(BEFORE + phase, AFTER, CLEANUP_MINUTES * MINUTE)):
            for key, value in play.changed(CLEANUP, at, since).items():
                write(at + durations[number % len(durations)], key, value)
            since += at >= 0
    since = 0
    for number, at in enumerate(range(BEFORE + phase % (minutes * MINUTE), AFTER, minutes * MINUTE)):
        queued = [key for key in FAN_OUT if play.fan_out and (key[1] != "blue" or "leaves" not in play.words or at < 0)]
        # Where the function does not run there is nobody who queues.
        for key in queued:
            write(at, key, 0)
        for order, values in enumerate(play.runs(at, since)):
            for key, value in values.items():
                write(at + durations[(number + order) % len(durations)] + order * APART, key, value)
        since += at >= 0
    return {key: sorted(values.items()) for key, values in found.items()}


class Alarm:
    """An alarm of the template, with what it needs to be evaluated."""

    STATISTICS = {"Minimum": min, "Maximum": max, "Sum": sum, "MIN": min, "MAX": max}

    def __init__(self, name, properties):
        self.name, self.properties = name.removesuffix("Alarm"), properties
        self.section = properties["AlarmDescription"].rsplit("#", 1)[1]
        self.missing_breaches = {"breaching": True, "notBreaching": False}[properties["TreatMissingData"]]
        self.periods, self.threshold = int(properties["EvaluationPeriods"]), float(properties["Threshold"])
        self.needed = int(properties.get("DatapointsToAlarm", self.periods))
        self.pages = properties["AlarmActions"] == [TOPICS["page"]]
        if "Metrics" in properties:
            (query,) = properties["Metrics"]
            pattern = r'SELECT (MIN|MAX)\((\w+)\) FROM SCHEMA\("cloud-map-sync", function_name, cluster\) WHERE function_name = \'SyncFunction\' GROUP BY cluster'
            statistic, self.metric = re.fullmatch(pattern, query["Expression"]).groups()
            self.period, self.by_cluster = int(query["Period"]), True
            assert self.period * self.periods <= 3 * HOUR, f"{name}: Metrics Insights takes three hours"
        else:
            self.metric, statistic = properties["MetricName"], properties["Statistic"]
            self.period, self.by_cluster = int(properties["Period"]), False
        self.statistic = self.STATISTICS[statistic]
        if properties.get("Namespace", "cloud-map-sync") == "cloud-map-sync":
            kind = "cluster" if self.by_cluster else "invocation"
            assert (self.metric, kind) in KNOWN, f"{name}: no metric {self.metric} of a {kind}"

    def breaches(self, value):
        return value >= self.threshold if self.properties["ComparisonOperator"].startswith("GreaterThanOrEqual") else (
            value > self.threshold if self.properties["ComparisonOperator"].startswith("Greater") else value < self.threshold
        )

    def is_alarm(self, points):
        """The state that follows from the values of the range that is read, the newest first; None where one is missing."""
        known = [self.breaches(point) for point in points if point is not None]
        used = known[: self.periods]
        used += [self.missing_breaches] * (self.periods - len(used))
        return sum(used) >= self.needed

    def fires(self, values, beyond):
        """The minutes after the incident until this is ALARM, or nothing."""
        if not self.missing_breaches and not any(self.breaches(value) for _, given in values for value in given):
            return None
        minutes = [minute for minute, _ in values]
        length = self.period // MINUTE

        def point(end):
            first, last = bisect_left(minutes, end - length), bisect_left(minutes, end)
            inside = [value for _, given in values[first:last] for value in given]
            return self.statistic(inside) if inside else None

        for end in range(-HOUR // MINUTE, AFTER // MINUTE):
            if self.is_alarm([point(end - index * length) for index in range(self.periods + beyond)]):
                return end
        return None


def alarms(minutes, cleanup):
    given = {"DeleteEmptyServices": "true", "CleanupMinutes": CLEANUP_MINUTES} if cleanup else {}
    found = stack(
        **given,
        ScheduleMinutes=minutes, Schedule=f"rate({minutes} minute{'s' * (minutes > 1)})", FanOut="true",
        NoGoodSyncMinutes=max(5, 2 * minutes + 1), AlarmTopicArn=TOPICS["page"], NoticeTopicArn=TOPICS["notice"],
    )  # fmt: skip
    return [Alarm(*it) for it in found.resources("AWS::CloudWatch::Alarm").items()]


def played(play, minutes, of_template):
    """The alarms that fire, each with the least and the most minutes that it takes; the most is None if it may not fire."""
    times = {}
    phases = range(0, CLEANUP_MINUTES * MINUTE, 70) if play.cleanup else range(0, minutes * MINUTE, 30 if minutes == 1 else 50)
    variants = list(product(phases, DURATIONS))
    for phase, durations in variants:
        written = series(play, minutes, phase, durations)
        for alarm, beyond in product(of_template, BEYOND):
            keys = [key for key in written if isinstance(key, tuple) == alarm.by_cluster]
            keys = [key for key in keys if (key[0] if alarm.by_cluster else key) == alarm.metric]
            fired = [at for at in (alarm.fires(written[key], beyond) for key in keys) if at is not None]
            times.setdefault(alarm.name, []).append(min(fired, default=None))
    fired = {name: found for name, found in times.items() if any(it is not None for it in found)}
    return {name: (min(it for it in found if it is not None), None if None in found else max(found)) for name, found in fired.items()}


def mistakes_of(play, minutes, found):
    """What is not as the play says."""
    where = f"{play.words}, every {minutes} minutes"
    for name in play.fires - set(found):
        yield f"{where}: {name} does not fire"
    for name in set(found) - play.fires - play.may:
        yield f"{where}: {name} fires after {found[name]}"
    for name in play.fires & set(found):
        least, most = found[name]
        if most is None or least <= 0:
            yield f"{where}: {name} fires after {least} to {most}"


def main():
    schedules = (1, 2, 5)
    of_template = {key: alarms(*key) for key in product(schedules, (False, True))}
    paging = {alarm.name for alarm in of_template[1, True] if alarm.pages}
    sections = {alarm.name: alarm.section for alarm in of_template[1, True]}
    mistakes, rows = [], []
    for play in INCIDENTS + QUIET:
        results = {minutes: played(play, minutes, of_template[minutes, play.cleanup]) for minutes in schedules}
        for minutes, found in results.items():
            mistakes += mistakes_of(play, minutes, found)
        if play in INCIDENTS:
            for place, name in enumerate(sorted(play.fires, key=lambda name: (name not in paging, name))):
                words = "" if place else play.words
                link = f"[{sections[name].replace('-', ' ')}](#{sections[name]})"
                cells = [f"{least} to {most}" if least != most else str(least) for least, most in (results[it].get(name, (0, 0)) for it in schedules)]
                rows.append(f"| {words} | {link} | {' | '.join(cells)} |")
    head = ["| Incident | Alarm | every minute | every 2 minutes | every 5 minutes |", "|---|---|---|---|---|"]
    table = "\n".join([*head, *rows]) + "\n"
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    if not is_up_to_date(PAGE, (BEGIN, END), table, "alarms.py"):
        return 1
    print(f"{len(INCIDENTS)} incidents and {len(QUIET)} quiet times, {len(mistakes)} mistakes")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
