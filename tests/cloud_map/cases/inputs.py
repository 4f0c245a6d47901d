"""Requests that break the model of the service: members that are missing, too long or of another type."""

from case import API, Trial, case


@case("A member that is required and missing is InvalidInput.", API + "API_CreateService.html")
def missing_members(trial: Trial) -> None:
    calls: list[tuple[str, dict[str, object]]] = [
        ("create_service", {"NamespaceId": trial.scratch.namespace()}), ("create_http_namespace", {}), ("get_service", {}),
        ("get_operation", {}), ("list_instances", {}), ("discover_instances", {"NamespaceName": "n"}), ("tag_resource", {"Tags": []}),
    ]  # fmt: skip
    for operation, parameters in calls:
        trial.expect(operation, "400 InvalidInput", trial.answer(operation, **parameters))


@case("A text that is too long is InvalidInput.", API + "API_CreateService.html")
def long_texts(trial: Trial) -> None:
    namespace, service = trial.scratch.namespace(), trial.scratch.service()
    calls: list[tuple[str, str, dict[str, object]]] = [
        ("create_service", "Description", {"Name": "web", "NamespaceId": namespace, "Description": "x" * 1025}),
        ("create_service", "CreatorRequestId", {"Name": "web", "NamespaceId": namespace, "CreatorRequestId": "x" * 65}),
        ("register_instance", "CreatorRequestId", {"ServiceId": service, "InstanceId": "a", "Attributes": {"k": "v"}, "CreatorRequestId": "x" * 65}),
        ("get_instance", "InstanceId", {"ServiceId": service, "InstanceId": "x" * 65}), ("get_service", "Id", {"Id": "x" * 256}),
    ]  # fmt: skip
    for operation, member, parameters in calls:
        trial.expect(f"{operation}: {member}", "400 InvalidInput", trial.answer(operation, **parameters))


@case("The longest description, 1,024 characters, is stored whole.", API + "API_CreateService.html")
def longest_description(trial: Trial) -> None:
    service = trial.scratch.service(Description="x" * 1024)
    trial.expect("its length", 1024, len(trial.cloud_map.get_service(Id=service)["Service"].get("Description", "")))


@case("A member of another JSON type is a SerializationException, which is not in the model.", None)
def members_of_another_type(trial: Trial) -> None:
    answered = trial.answer("list_services", MaxResults="many")
    trial.expect("MaxResults", "400 SerializationException, a ClientError", answered)


@case("A word that is none of an enumeration is InvalidInput.", API + "API_DiscoverInstances.html")
def unknown_words(trial: Trial) -> None:
    answered = trial.answer("list_services", Filters=[{"Name": "COLOR", "Values": ["red"]}])
    trial.expect("a filter", "400 InvalidInput", answered)


@case("A request is checked before anything that it names is looked up.", None)
def input_is_checked_first(trial: Trial) -> None:
    service: dict[str, object] = {"ServiceId": "srv-aaaaaaaaaaaaaaaa"}
    long = "x" * 1025
    calls: list[tuple[str, dict[str, object]]] = [
        ("discover_instances", {"NamespaceName": "n", "ServiceName": "s", "HealthStatus": "FINE"}),
        ("create_service", {"Name": "a", "NamespaceId": "ns-aaaaaaaaaaaaaaaa", "Description": long}),
        ("update_service", {"Id": service["ServiceId"], "Service": {"Description": long}}),
        ("register_instance", {**service, "InstanceId": long, "Attributes": {"k": "v"}}), ("deregister_instance", {**service, "InstanceId": long}),
        ("get_instance", {**service, "InstanceId": long}), ("list_instances", {**service, "MaxResults": 0}),
    ]  # fmt: skip
    for operation, parameters in calls:
        trial.expect(operation, "400 InvalidInput", trial.answer(operation, **parameters))
