"""Services in an HTTP namespace: creation, names, deletion and their own attributes."""

from case import ALCHEMY, API, APP_MESH, CDK_PREFLIGHT, REAL_DRIFT, TERRAFORM, Trial, case

CREATE = API + "API_CreateService.html"
UNKNOWN = "srv-aaaaaaaaaaaaaaaa"


@case("A new service of an HTTP namespace is of the type HTTP and has what it was given.", API + "API_Service.html")
def members_of_a_service(trial: Trial) -> None:
    namespace, name = trial.scratch.namespace(), trial.scratch.new_name()[-40:]
    given = {"Name": name, "NamespaceId": namespace, "Description": "Of a suite", "CreatorRequestId": "suite-service"}
    service = trial.cloud_map.create_service(**given, HealthCheckCustomConfig={"FailureThreshold": 1})["Service"]
    account = service["Arn"].split(":")[4]
    wanted = {**given, "Type": "HTTP", "HealthCheckCustomConfig": {"FailureThreshold": 1}, "CreatedByAccount": account, "ResourceOwner": account}
    trial.expect("CreateService", wanted, {key: service.get(key) for key in wanted})
    trial.expect("no DnsConfig", False, "DnsConfig" in service)
    read = trial.cloud_map.get_service(Id=service["Id"])["Service"]
    trial.expect("GetService", wanted, {key: read.get(key) for key in wanted})
    summaries = trial.scratch.pages("list_services", Filters=[{"Name": "NAMESPACE_ID", "Values": [namespace]}])
    (listed,) = [it for it in summaries if it["Id"] == service["Id"]]
    trial.expect("a list has no namespace and no request id", [], [key for key in ("NamespaceId", "CreatorRequestId") if key in listed])


@case("A second service of the same name is refused with the id and the request id of the first.", CREATE)
def service_of_the_same_name(trial: Trial) -> None:
    namespace, name = trial.scratch.namespace(), trial.scratch.new_name()[-40:]
    first = trial.cloud_map.create_service(Name=name, NamespaceId=namespace, CreatorRequestId="suite-first")["Service"]
    answered, error = trial.error("create_service", Name=name, NamespaceId=namespace, CreatorRequestId="suite-second")
    trial.expect("CreateService", "400 ServiceAlreadyExists", answered)
    wanted = {"ServiceId": first["Id"], "ServiceArn": first["Arn"], "CreatorRequestId": "suite-first"}
    trial.expect("its members", wanted, {key: error.get(key) for key in wanted})


@case("A second service of the same name is refused with the same request id, too.", None)
def service_by_the_same_request(trial: Trial) -> None:
    asked = {"Name": trial.scratch.new_name()[-40:], "NamespaceId": trial.scratch.namespace(), "CreatorRequestId": "suite-same"}
    first = trial.cloud_map.create_service(**asked)["Service"]
    answered, error = trial.error("create_service", **asked)
    trial.expect("CreateService", ("400 ServiceAlreadyExists", first["Id"]), (answered, error.get("ServiceId")))


@case("In an HTTP namespace names that differ by case alone are two services.", CREATE)
def names_by_case(trial: Trial) -> None:
    namespace, name = trial.scratch.namespace(), trial.scratch.new_name()[-40:]
    for given in (name, name.upper()):
        trial.expect(given, "accepted", trial.answer("create_service", Name=given, NamespaceId=namespace))


@case("A name has labels of letters, digits, _ and -, which do not begin or end with -, and 127 characters.", CREATE)
def service_names(trial: Trial) -> None:
    namespace, serial = trial.scratch.namespace(), trial.scratch.new_name()[-20:]
    rows = [
        (f"_http._tcp.{serial}", "accepted"), (f"A_{serial}-c", "accepted"), (serial.ljust(63, "x"), "accepted"),
        ("-web", "400 InvalidInput"), ("web-", "400 InvalidInput"), ("a..b", "400 InvalidInput"), ("a b", "400 InvalidInput"),
        ("x" * 64, "400 InvalidInput"), ("ab." * 42 + "ab", "400 InvalidInput"),
    ]  # fmt: skip
    for name, wanted in rows:
        trial.expect(name, wanted, trial.answer("create_service", Name=name, NamespaceId=namespace))


@case("A service cannot be created in a namespace that is not there.", CREATE)
def service_of_unknown_namespace(trial: Trial) -> None:
    answered = trial.answer("create_service", Name="web", NamespaceId="ns-aaaaaaaaaaaaaaaa")
    trial.expect("CreateService", "400 NamespaceNotFound", answered)


@case("DnsConfig is refused in an HTTP namespace.", CDK_PREFLIGHT.format("service-dnsconfig-in-http-namespace"))
def records_in_an_http_namespace(trial: Trial) -> None:
    records = {"DnsRecords": [{"Type": "A", "TTL": 60}]}
    answered, error = trial.error("create_service", Name=trial.scratch.new_name()[-40:], NamespaceId=trial.scratch.namespace(), DnsConfig=records)
    trial.expect("CreateService", "400 InvalidInput", answered)
    text = "When you create a service using a namespace that has a type of HTTP, you can't include a DnsConfig element."
    trial.expect("the text", text, error.get("Error", {}).get("Message"))


@case("The two kinds of health check exclude each other.", CREATE)
def two_health_checks(trial: Trial) -> None:
    checks = {"HealthCheckConfig": {"Type": "TCP"}, "HealthCheckCustomConfig": {"FailureThreshold": 1}}
    answered = trial.answer("create_service", Name=trial.scratch.new_name()[-40:], NamespaceId=trial.scratch.namespace(), **checks)
    trial.expect("CreateService", "400 InvalidInput", answered)


@case("A service with an instance cannot be deleted; without, it is gone at once.", API + "API_DeleteService.html")
def deletion_of_a_service(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    scratch.register(service, "a", {"k": "v"})
    answered, error = trial.error("delete_service", Id=service)
    trial.expect("with an instance", "400 ResourceInUse", answered)
    text = "Service contains registered instances; delete the instances before deleting the service"
    trial.expect("the text", text, error.get("Error", {}).get("Message"))
    scratch.deregister(service, "a")
    trial.eventually("without", "accepted", lambda: trial.answer("delete_service", Id=service))
    for operation in ("get_service", "delete_service"):
        trial.expect(f"{operation} after that", "400 ServiceNotFound", trial.answer(operation, Id=service))


@case("Right after the last instance is deregistered its service may still be in use, for a while.", ALCHEMY)
def deletion_after_the_last_deregistration(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    scratch.register(service, "a", {"k": "v"})
    scratch.deregister(service, "a")
    trial.eventually("DeleteService", "accepted", lambda: trial.answer("delete_service", Id=service))


@case("A service that is created again under the name of one that was deleted has its id.", TERRAFORM.format(46930))
def name_of_a_deleted_service(trial: Trial) -> None:
    asked = {"Name": trial.scratch.new_name()[-40:], "NamespaceId": trial.scratch.namespace()}
    first = trial.cloud_map.create_service(**asked)["Service"]["Id"]
    trial.cloud_map.delete_service(Id=first)
    trial.expect("the id", first, trial.cloud_map.create_service(**asked)["Service"]["Id"])


@case("A registration in a service that was deleted is accepted, and its operation fails.", APP_MESH)
def registration_in_a_deleted_service(trial: Trial) -> None:
    service = trial.scratch.service()
    trial.cloud_map.delete_service(Id=service)
    accepted = trial.cloud_map.register_instance(ServiceId=service, InstanceId="a", Attributes={"k": "v"})
    trial.expect("the operation", "FAIL", trial.scratch.ended(accepted["OperationId"])["Status"])


@case("Its ErrorCode is INTERNAL_FAILURE.", None)
def code_of_a_registration_in_a_deleted_service(trial: Trial) -> None:
    service = trial.scratch.service()
    trial.cloud_map.delete_service(Id=service)
    accepted = trial.cloud_map.register_instance(ServiceId=service, InstanceId="a", Attributes={"k": "v"})
    trial.expect("ErrorCode", "INTERNAL_FAILURE", trial.scratch.ended(accepted["OperationId"]).get("ErrorCode"))


@case(
    "Of two creations of one name at once, one has the service; the other may get a 500 without a name first.",
    CDK_PREFLIGHT.format("service-name-duplicate-in-namespace"),
)
def creations_of_one_service(trial: Trial) -> None:
    asked = {"Name": trial.scratch.new_name()[-40:], "NamespaceId": trial.scratch.namespace()}
    first = trial.cloud_map.create_service(**asked)["Service"]["Id"]
    trial.eventually("the second", "400 ServiceAlreadyExists", lambda: trial.answer("create_service", **asked))
    trial.expect("GetService", first, trial.cloud_map.get_service(Id=first)["Service"]["Id"])


@case("A service of an HTTP namespace cannot be updated.", API + "API_UpdateService.html")
def update_in_an_http_namespace(trial: Trial) -> None:
    service = trial.scratch.service()
    answered = trial.answer("update_service", Id=service, Service={"Description": "another"})
    trial.expect("is refused", True, answered != "accepted")


@case("That refusal is InvalidInput.", REAL_DRIFT)
def error_of_an_update_in_http(trial: Trial) -> None:
    service = trial.scratch.service()
    answered = trial.answer("update_service", Id=service, Service={"Description": "another"})
    trial.expect("UpdateService", "400 InvalidInput", answered)


@case("A service that is not there is ServiceNotFound for each call.", API + "API_GetService.html")
def unknown_service(trial: Trial) -> None:
    calls: list[tuple[str, dict[str, object]]] = [
        ("get_service", {"Id": UNKNOWN}), ("delete_service", {"Id": UNKNOWN}), ("update_service", {"Id": UNKNOWN, "Service": {}}),
    ]  # fmt: skip
    for operation, parameters in calls:
        trial.expect(operation, "400 ServiceNotFound", trial.answer(operation, **parameters))
