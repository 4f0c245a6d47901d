"""Health: custom checks, their first status and reports of another."""

from typing import Any

from case import API, Trial, case

CUSTOM: dict[str, Any] = {"HealthCheckCustomConfig": {"FailureThreshold": 1}}
REPORT = API + "API_UpdateInstanceCustomHealthStatus.html"


def statuses(trial: Trial, service: str) -> dict[str, str]:
    return trial.cloud_map.get_instances_health_status(ServiceId=service)["Status"]


@case("An instance begins as AWS_INIT_HEALTH_STATUS says, and HEALTHY without it.", API + "API_RegisterInstance.html")
def first_status(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service(**CUSTOM)
    scratch.register(service, "down", {"AWS_INIT_HEALTH_STATUS": "UNHEALTHY"})
    scratch.register(service, "up", {"AWS_INIT_HEALTH_STATUS": "HEALTHY"})
    scratch.register(service, "plain", {"k": "v"})
    trial.eventually("GetInstancesHealthStatus", {"down": "UNHEALTHY", "up": "HEALTHY", "plain": "HEALTHY"}, lambda: statuses(trial, service))


@case("A reported status takes effect, and the attributes of the instance stay.", REPORT)
def reported_status(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service(**CUSTOM)
    attributes = {"AWS_INIT_HEALTH_STATUS": "UNHEALTHY", "k": "v"}
    scratch.register(service, "a", attributes)
    report = {"ServiceId": service, "InstanceId": "a", "Status": "HEALTHY"}
    trial.eventually("a report is accepted", "accepted", lambda: trial.answer("update_instance_custom_health_status", **report))
    trial.eventually("the status", {"a": "HEALTHY"}, lambda: statuses(trial, service))
    trial.expect("the attributes", {"a": attributes}, scratch.attributes(service))


@case("A registration sets the status anew.", None)
def registration_sets_the_status(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service(**CUSTOM)
    scratch.register(service, "a", {"k": "v"})
    report = {"ServiceId": service, "InstanceId": "a", "Status": "UNHEALTHY"}
    trial.eventually("a report is accepted", "accepted", lambda: trial.answer("update_instance_custom_health_status", **report))
    trial.eventually("the reported status", {"a": "UNHEALTHY"}, lambda: statuses(trial, service))
    scratch.register(service, "a", {"k": "w"})
    trial.eventually("after another registration", {"a": "HEALTHY"}, lambda: statuses(trial, service))


@case("A report to a service without a custom check is CustomHealthNotFound.", REPORT)
def report_without_a_check(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    scratch.register(service, "a", {"k": "v"})
    answered = trial.answer("update_instance_custom_health_status", ServiceId=service, InstanceId="a", Status="HEALTHY")
    trial.expect("UpdateInstanceCustomHealthStatus", "400 CustomHealthNotFound", answered)


@case("A report of an instance that is not there is InstanceNotFound, and a status is HEALTHY or UNHEALTHY.", REPORT)
def report_of_an_unknown_instance(trial: Trial) -> None:
    service = trial.scratch.service(**CUSTOM)
    for status, wanted in (("HEALTHY", "400 InstanceNotFound"), ("UNKNOWN", "400 InvalidInput")):
        answered = trial.answer("update_instance_custom_health_status", ServiceId=service, InstanceId="nobody", Status=status)
        trial.expect(status, wanted, answered)


@case("The health of an instance that is not there is InstanceNotFound.", API + "API_GetInstancesHealthStatus.html")
def health_of_an_unknown_instance(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service(**CUSTOM)
    scratch.register(service, "a", {"k": "v"})
    answered = trial.answer("get_instances_health_status", ServiceId=service, Instances=["a", "nobody"])
    trial.expect("GetInstancesHealthStatus", "400 InstanceNotFound", answered)


@case("Without a health check the status of an instance is UNKNOWN.", None)
def health_without_a_check(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    scratch.register(service, "a", {"k": "v"})
    trial.eventually("GetInstancesHealthStatus", {"a": "UNKNOWN"}, lambda: statuses(trial, service))


@case("A first status that is neither HEALTHY nor UNHEALTHY is refused.", API + "API_RegisterInstance.html")
def malformed_first_status(trial: Trial) -> None:
    service = trial.scratch.service(**CUSTOM)
    answered = trial.answer("register_instance", ServiceId=service, InstanceId="a", Attributes={"AWS_INIT_HEALTH_STATUS": "UNKNOWN"})
    trial.expect("RegisterInstance", "400 InvalidInput", answered)
