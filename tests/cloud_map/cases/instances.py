"""Instances: registration, replacement, limits and attributes."""

from case import API, PREFLIGHT, Trial, case


@case("A registration under an id that exists replaces all of its attributes.", API + "API_RegisterInstance.html")
def registration_replaces(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    scratch.register(service, "a", {"one": "1", "two": "2"})
    scratch.register(service, "a", {"two": "3"})
    trial.eventually("ListInstances", {"a": {"two": "3"}}, lambda: scratch.attributes(service))
    instance = trial.cloud_map.get_instance(ServiceId=service, InstanceId="a")["Instance"]
    trial.expect("GetInstance", {"two": "3"}, instance["Attributes"])


@case("An instance is listed at once when its registration has succeeded, and no longer when its deregistration has.", None)
def list_follows_success(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    for turn in range(3):
        scratch.register(service, "a", {"turn": str(turn)})
        trial.expect("the first ListInstances", {"a": {"turn": str(turn)}}, scratch.attributes(service))
    scratch.deregister(service, "a")
    trial.expect("ListInstances after the deregistration", {}, scratch.attributes(service))
    trial.expect("GetInstance", "400 InstanceNotFound", trial.answer("get_instance", ServiceId=service, InstanceId="a"))


@case("GetInstance has the request id of the registration and the accounts; a list has no request id.", API + "API_Instance.html")
def members_of_an_instance(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    asked = {"ServiceId": service, "InstanceId": "a"}
    scratch.done(trial.cloud_map.register_instance(**asked, Attributes={"k": "v"}, CreatorRequestId="suite-1"))
    trial.eventually("ListInstances", {"a": {"k": "v"}}, lambda: scratch.attributes(service))
    answer = trial.cloud_map.get_instance(**asked)
    account = trial.cloud_map.get_service(Id=service)["Service"]["Arn"].split(":")[4]
    wanted = {"Id": "a", "CreatorRequestId": "suite-1", "Attributes": {"k": "v"}, "CreatedByAccount": account}
    trial.expect("GetInstance", wanted, answer["Instance"])
    trial.expect("its ResourceOwner", account, answer.get("ResourceOwner"))
    (listed,) = trial.cloud_map.list_instances(ServiceId=service)["Instances"]
    trial.expect("the members in a list", ["Attributes", "CreatedByAccount", "Id"], sorted(listed))


@case("An instance that is not there cannot be deregistered or read.", API + "API_DeregisterInstance.html")
def unknown_instance(trial: Trial) -> None:
    service = trial.scratch.service()
    for operation in ("deregister_instance", "get_instance"):
        trial.expect(operation, "400 InstanceNotFound", trial.answer(operation, ServiceId=service, InstanceId="nobody"))


@case("A service that is not there is ServiceNotFound for each call on its instances.", API + "API_RegisterInstance.html")
def instance_of_unknown_service(trial: Trial) -> None:
    asked: dict[str, object] = {"ServiceId": "srv-aaaaaaaaaaaaaaaa", "InstanceId": "a"}
    calls: list[tuple[str, dict[str, object]]] = [
        ("register_instance", {**asked, "Attributes": {"k": "v"}}), ("deregister_instance", asked), ("get_instance", asked),
        ("list_instances", {"ServiceId": asked["ServiceId"]}),
    ]  # fmt: skip
    for operation, parameters in calls:
        trial.expect(operation, "400 ServiceNotFound", trial.answer(operation, **parameters))


@case("An id has 1 to 64 characters of [0-9a-zA-Z_/:.@-].", PREFLIGHT + "instance-id-pattern")
def instance_ids(trial: Trial) -> None:
    service = trial.scratch.service()
    rows = [
        ("a" * 64, "accepted"),
        ("A_/:.@-9", "accepted"),
        ("a" * 65, "400 InvalidInput"),
        ("a b", "400 InvalidInput"),
        ("a#", "400 InvalidInput"),
        ("", "400 InvalidInput"),
    ]
    for instance, wanted in rows:
        answered = trial.answer("register_instance", ServiceId=service, InstanceId=instance, Attributes={"k": "v"})
        trial.expect(f"the id {instance!r}", wanted, answered)


@case("In an HTTP namespace no attribute is required of an instance.", API + "API_RegisterInstance.html")
def nothing_is_required_of_http(trial: Trial) -> None:
    service = trial.scratch.service()
    trial.expect(
        "an instance without an address", "accepted", trial.answer("register_instance", ServiceId=service, InstanceId="a", Attributes={"k": "v"})
    )


@case("An instance needs the member Attributes, which may be empty.", None)
def no_attributes(trial: Trial) -> None:
    service = trial.scratch.service()
    trial.expect("without Attributes", "400 InvalidInput", trial.answer("register_instance", ServiceId=service, InstanceId="a"))
    trial.expect("with none", "accepted", trial.answer("register_instance", ServiceId=service, InstanceId="a", Attributes={}))


@case("An ARN names a service as its id does.", API + "API_RegisterInstance.html")
def arn_for_an_id(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    arn = trial.cloud_map.get_service(Id=service)["Service"]["Arn"]
    scratch.register(arn, "a", {"k": "v"})
    trial.eventually("ListInstances by ARN", {"a": {"k": "v"}}, lambda: scratch.attributes(arn))
    trial.eventually("and by id", {"a": {"k": "v"}}, lambda: scratch.attributes(service))


@case("A request id that was used before does not keep other attributes from replacing the instance.", None)
def used_request_id(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    for value in ("1", "2"):
        accepted = trial.cloud_map.register_instance(ServiceId=service, InstanceId="a", Attributes={"k": value}, CreatorRequestId="suite-same")
        scratch.done(accepted)
    trial.eventually("ListInstances", {"a": {"k": "2"}}, lambda: scratch.attributes(service))
