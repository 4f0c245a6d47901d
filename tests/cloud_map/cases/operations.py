"""Operations: their course, their members, and changes that meet one under way."""

from collections.abc import Callable
from functools import partial
from typing import Any

from case import API, EXTERNAL_DNS, Trial, case

COURSE = ("SUBMITTED", "PENDING", "SUCCESS")
# So often two calls are tried until the second meets the first: an operation may end in between.
TRIES = 30


@case("An operation is SUBMITTED, then PENDING, then SUCCESS or FAIL, and never goes back.", API + "API_Operation.html")
def course_of_an_operation(trial: Trial) -> None:
    service = trial.scratch.service()
    accepted = trial.cloud_map.register_instance(ServiceId=service, InstanceId="a", Attributes={"k": "v"})
    seen: list[str] = []
    for _ in trial.scratch.polls():
        seen.append(trial.cloud_map.get_operation(OperationId=accepted["OperationId"])["Operation"]["Status"])
        if seen[-1] not in COURSE[:2]:
            break
    trial.expect("the last status", "SUCCESS", seen[-1])
    trial.expect("the order", sorted(seen, key=lambda status: COURSE.index(status) if status in COURSE else 9), seen)


@case("An operation names its type, its owner and its targets, and was updated after it was created.", API + "API_Operation.html")
def members_of_an_operation(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    account = trial.cloud_map.get_service(Id=service)["Service"]["Arn"].split(":")[4]
    for kind, operation in (
        ("REGISTER_INSTANCE", scratch.register(service, "a", {"k": "v"})),
        ("DEREGISTER_INSTANCE", scratch.deregister(service, "a")),
    ):
        trial.expect("Type", kind, operation["Type"])
        trial.expect("OwnerAccount", account, operation.get("OwnerAccount"))
        trial.expect("Targets", {"NAMESPACE": scratch.namespace(), "SERVICE": service, "INSTANCE": "a"}, operation["Targets"])
        trial.expect("UpdateDate is not before CreateDate", True, operation["UpdateDate"] >= operation["CreateDate"])
        trial.expect("no error", (None, None), (operation.get("ErrorCode"), operation.get("ErrorMessage")))


@case("An operation that is not there is OperationNotFound.", API + "API_GetOperation.html")
def unknown_operation(trial: Trial) -> None:
    unknown = "a" * 32 + "-" + "b" * 8
    trial.expect("GetOperation", "400 OperationNotFound", trial.answer("get_operation", OperationId=unknown))


@case("While an instance is registered, the same registration is refused with the id of the operation.", API + "API_RegisterInstance.html")
def duplicate_registration(trial: Trial) -> None:
    service = trial.scratch.service()
    again = partial(trial.error, "register_instance", ServiceId=service, InstanceId="a", Attributes={"k": "other"})
    meets(trial, "RegisterInstance", partial(registration, trial, service), again)


@case("A deregistration meets a registration under way as another registration does.", EXTERNAL_DNS.format(5134))
def deregistration_during_registration(trial: Trial) -> None:
    service = trial.scratch.service()
    trial.scratch.register(service, "a", {"k": "v"})
    remove = partial(trial.error, "deregister_instance", ServiceId=service, InstanceId="a")
    meets(trial, "RegisterInstance", partial(registration, trial, service), remove)


@case("A registration meets a deregistration under way.", EXTERNAL_DNS.format(5134))
def registration_during_deregistration(trial: Trial) -> None:
    service = trial.scratch.service()

    def deregistration() -> str:
        trial.scratch.register(service, "a", {"k": "v"})
        return trial.cloud_map.deregister_instance(ServiceId=service, InstanceId="a")["OperationId"]

    again = partial(trial.error, "register_instance", ServiceId=service, InstanceId="a", Attributes={"k": "other"})
    meets(trial, "DeregisterInstance", deregistration, again)


@case("A service is in use as long as an operation on an instance of it is under way.", None)
def service_is_busy(trial: Trial) -> None:
    service = trial.scratch.service()
    accepted = trial.cloud_map.register_instance(ServiceId=service, InstanceId="a", Attributes={"k": "v"})
    trial.expect("DeleteService", "400 ResourceInUse", trial.answer("delete_service", Id=service))
    trial.scratch.ended(accepted["OperationId"])


@case("Registrations under different ids run at the same time.", API + "API_RegisterInstance.html")
def registrations_side_by_side(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    accepted = [trial.cloud_map.register_instance(ServiceId=service, InstanceId=f"a{number}", Attributes={"k": "v"}) for number in range(5)]
    trial.expect("how they end", {"SUCCESS"}, {scratch.ended(it["OperationId"])["Status"] for it in accepted})
    trial.eventually("ListInstances", {f"a{number}" for number in range(5)}, lambda: set(scratch.attributes(service)))


def registration(trial: Trial, service: str) -> str:
    """Begins a registration; its operation."""
    return trial.cloud_map.register_instance(ServiceId=service, InstanceId="a", Attributes={"k": "v"})["OperationId"]


def meets(trial: Trial, kind: str, begin: Callable[[], str], meet: Callable[[], tuple[str, dict[str, Any]]]) -> None:
    """Begins an operation, and at once calls `meet`, until the second call comes before the end of the operation."""
    answered = "accepted"
    for _ in range(TRIES):
        operation = begin()
        answered, error = meet()
        trial.scratch.ended(operation)
        if answered != "accepted":
            trial.expect("DuplicateOperationId", operation, error.get("DuplicateOperationId"))
            words = f"Another operation of type {kind} and id {operation} is in progress"
            trial.expect("the words", words, error["Error"]["Message"])
            break
    trial.expect("the second call", "400 DuplicateRequest", answered)
