"""Health: custom checks and their first status."""

from typing import Any

from case import API, Trial, case
from cases.discovery import scene

CUSTOM: dict[str, Any] = {"HealthCheckCustomConfig": {"FailureThreshold": 1}}


def statuses(trial: Trial, names: dict[str, str]) -> dict[str, str]:
    return {it["InstanceId"]: it["HealthStatus"] for it in trial.cloud_map.discover_instances(**names, HealthStatus="ALL")["Instances"]}


@case("An instance begins as AWS_INIT_HEALTH_STATUS says, and HEALTHY without it.", API + "API_RegisterInstance.html")
def first_status(trial: Trial) -> None:
    instances = {"down": {"AWS_INIT_HEALTH_STATUS": "UNHEALTHY"}, "up": {"AWS_INIT_HEALTH_STATUS": "HEALTHY"}, "plain": {"k": "v"}}
    _, names = scene(trial, instances, **CUSTOM)
    trial.eventually("DiscoverInstances", {"down": "UNHEALTHY", "up": "HEALTHY", "plain": "HEALTHY"}, lambda: statuses(trial, names))


@case("A registration sets the status anew.", None)
def registration_sets_the_status(trial: Trial) -> None:
    service, names = scene(trial, {"a": {"AWS_INIT_HEALTH_STATUS": "UNHEALTHY"}}, **CUSTOM)
    trial.eventually("the first status", {"a": "UNHEALTHY"}, lambda: statuses(trial, names))
    trial.scratch.register(service, "a", {"k": "w"})
    trial.eventually("after another registration", {"a": "HEALTHY"}, lambda: statuses(trial, names))


@case("Without a health check the status of an instance is UNKNOWN.", None)
def health_without_a_check(trial: Trial) -> None:
    _, names = scene(trial, {"a": {"k": "v"}})
    trial.eventually("DiscoverInstances", {"a": "UNKNOWN"}, lambda: statuses(trial, names))


@case("A first status that is neither HEALTHY nor UNHEALTHY is refused.", API + "API_RegisterInstance.html")
def malformed_first_status(trial: Trial) -> None:
    service = trial.scratch.service(**CUSTOM)
    answered = trial.answer("register_instance", ServiceId=service, InstanceId="a", Attributes={"AWS_INIT_HEALTH_STATUS": "UNKNOWN"})
    trial.expect("RegisterInstance", "400 InvalidInput", answered)
