"""Services with DNS records, in a private DNS namespace: asked only with --vpc."""

from typing import Any

from case import API, TERRAFORM, Trial, case

CREATE = API + "API_CreateService.html"
UPDATE = API + "API_UpdateService.html"
RECORD = API + "API_DnsRecord.html"


def records(*kinds: str, ttl: int = 60, policy: str = "MULTIVALUE") -> dict[str, Any]:
    return {"RoutingPolicy": policy, "DnsRecords": [{"Type": kind, "TTL": ttl} for kind in kinds]}


def dns_service(trial: Trial, *kinds: str, **settings: Any) -> str:
    return trial.scratch.service(trial.scratch.private_namespace(), DnsConfig=records(*kinds), **settings)


def read(trial: Trial, service: str) -> dict[str, Any]:
    return trial.cloud_map.get_service(Id=service)["Service"]


def properties_of_dns(trial: Trial) -> dict[str, Any]:
    namespace = trial.cloud_map.get_namespace(Id=trial.scratch.private_namespace())["Namespace"]
    return namespace["Properties"].get("DnsProperties", {})


@case("A private DNS namespace has a hosted zone.", API + "API_DnsProperties.html", needs_vpc=True)
def members_of_a_private_namespace(trial: Trial) -> None:
    namespace = trial.cloud_map.get_namespace(Id=trial.scratch.private_namespace())["Namespace"]
    trial.expect("Type", "DNS_PRIVATE", namespace["Type"])
    properties = namespace["Properties"]
    trial.expect("a hosted zone", True, properties.get("DnsProperties", {}).get("HostedZoneId", "").startswith("Z"))
    trial.expect("HttpName", namespace["Name"], properties["HttpProperties"]["HttpName"])


@case("The SOA record of a private DNS namespace has 15 s if nothing else was asked for.", None, needs_vpc=True)
def soa_of_a_private_namespace(trial: Trial) -> None:
    trial.expect("SOA", {"TTL": 15}, properties_of_dns(trial).get("SOA"))


@case("In a DNS namespace a service has records or the type HTTP.", None, needs_vpc=True)
def service_without_records(trial: Trial) -> None:
    namespace = trial.scratch.private_namespace()
    rows: list[tuple[dict[str, Any], str]] = [
        ({}, "400 InvalidInput"),
        ({"Type": "HTTP", "DnsConfig": records("A")}, "400 InvalidInput"),
        ({"Type": "HTTP"}, "accepted"),
    ]
    for settings, wanted in rows:
        answered = trial.answer("create_service", Name=trial.scratch.new_name()[-40:], NamespaceId=namespace, **settings)
        trial.expect(str(sorted(settings)), wanted, answered)


@case("A service with records is of the type DNS_HTTP and has its namespace in DnsConfig.", API + "API_Service.html", needs_vpc=True)
def members_of_a_dns_service(trial: Trial) -> None:
    service = read(trial, dns_service(trial, "A", "AAAA"))
    trial.expect("Type", "DNS_HTTP", service["Type"])
    trial.expect("DnsConfig", {**records("A", "AAAA"), "NamespaceId": trial.scratch.private_namespace()}, service["DnsConfig"])


@case("Records are A, AAAA, both, SRV or CNAME; CNAME is WEIGHTED.", RECORD, needs_vpc=True)
def sets_of_records(trial: Trial) -> None:
    namespace = trial.scratch.private_namespace()
    rows = [
        (records("SRV"), "accepted"), (records("CNAME", policy="WEIGHTED"), "accepted"), (records("CNAME"), "400 InvalidInput"),
        (records("A", "CNAME", policy="WEIGHTED"), "400 InvalidInput"), (records("TXT"), "400 InvalidInput"),
        (records("A", ttl=-1), "400 InvalidInput"), (records("A", ttl=2147483648), "400 InvalidInput"), (records("A", ttl=0), "accepted"),
    ]  # fmt: skip
    for config, wanted in rows:
        answered = trial.answer("create_service", Name=trial.scratch.new_name()[-40:], NamespaceId=namespace, DnsConfig=config)
        trial.expect(str(config), wanted, answered)


@case("In a DNS namespace names that differ by case alone are the same.", CREATE, needs_vpc=True)
def dns_names_by_case(trial: Trial) -> None:
    service = read(trial, dns_service(trial, "A"))
    answered, error = trial.error(
        "create_service", Name=service["Name"].upper(), NamespaceId=trial.scratch.private_namespace(), DnsConfig=records("A")
    )
    trial.expect("in capitals", ("400 ServiceAlreadyExists", service["Id"]), (answered, error.get("ServiceId")))


@case("An update changes the TTL of records and keeps the custom health check.", UPDATE, needs_vpc=True)
def update_of_a_ttl(trial: Trial) -> None:
    service = dns_service(trial, "A", HealthCheckCustomConfig={"FailureThreshold": 1})
    change = {"DnsConfig": {"DnsRecords": [{"Type": "A", "TTL": 30}]}}
    operation = trial.scratch.done(trial.cloud_map.update_service(Id=service, Service=change))
    trial.expect("Type of the operation", "UPDATE_SERVICE", operation["Type"])
    trial.eventually("DnsRecords", [{"Type": "A", "TTL": 30}], lambda: read(trial, service)["DnsConfig"]["DnsRecords"])
    trial.expect("HealthCheckCustomConfig", {"FailureThreshold": 1}, read(trial, service).get("HealthCheckCustomConfig"))


@case("An update cannot bring a record of another type.", TERRAFORM.format(2613), needs_vpc=True)
def update_of_a_type(trial: Trial) -> None:
    change = {"DnsConfig": {"DnsRecords": [{"Type": "AAAA", "TTL": 30}]}}
    answered, error = trial.error("update_service", Id=dns_service(trial, "A"), Service=change)
    trial.expect("AAAA in the place of A", "400 InvalidInput", answered)
    text = "Records in the existing service are [A], but the records in the request are [AAAA]. The record types of a service cannot be changed."
    trial.expect("the end of the text", True, error.get("Error", {}).get("Message", "").endswith(text))


@case("An update without a description removes it.", None, needs_vpc=True)
def update_without_a_description(trial: Trial) -> None:
    service = dns_service(trial, "A", Description="first")
    change = {"DnsConfig": {"DnsRecords": [{"Type": "A", "TTL": 30}]}}
    trial.scratch.done(trial.cloud_map.update_service(Id=service, Service=change))
    trial.eventually("the TTL", 30, lambda: read(trial, service)["DnsConfig"]["DnsRecords"][0]["TTL"])
    trial.expect("Description", None, read(trial, service).get("Description"))


@case("An update without records removes them.", UPDATE, needs_vpc=True)
def update_without_records(trial: Trial) -> None:
    service = dns_service(trial, "A", "AAAA")
    change = {"DnsConfig": {"DnsRecords": [{"Type": "A", "TTL": 30}]}}
    trial.scratch.done(trial.cloud_map.update_service(Id=service, Service=change))
    trial.eventually("DnsRecords", [{"Type": "A", "TTL": 30}], lambda: read(trial, service)["DnsConfig"]["DnsRecords"])


@case("An id that is too long for the label of an SRV record is accepted, and the operation fails.", None, needs_vpc=True)
def long_id_with_srv(trial: Trial) -> None:
    service = dns_service(trial, "SRV")
    attributes = {"AWS_INSTANCE_IPV4": "192.0.2.1", "AWS_INSTANCE_PORT": "80"}
    accepted = trial.cloud_map.register_instance(ServiceId=service, InstanceId="a" * 64, Attributes=attributes)
    operation = trial.scratch.ended(accepted["OperationId"])
    trial.expect("how it ends", ("FAIL", "INVALID_CHANGE_BATCH"), (operation["Status"], operation.get("ErrorCode")))
    trial.expect("ListInstances", {}, trial.scratch.attributes(service))


@case("A DNS namespace may have the name of an HTTP namespace, and has another HttpName then.", None, needs_vpc=True)
def dns_namespace_beside_http(trial: Trial) -> None:
    _, name = trial.scratch.make_namespace()
    operation = trial.scratch.create(trial.cloud_map.create_private_dns_namespace, Name=name, Vpc=trial.scratch.vpc)
    namespace = operation["Targets"]["NAMESPACE"]
    shown = trial.cloud_map.get_namespace(Id=namespace)["Namespace"]
    trial.expect("Name", name, shown["Name"])
    http_name = shown["Properties"]["HttpProperties"]["HttpName"]
    trial.expect("HttpName: the name, - and 16 characters", (f"{name}-", 16), (http_name[:-16], len(http_name) - len(name) - 1))
