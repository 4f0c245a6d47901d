"""The attributes of an instance: limits, the reserved prefix, and those that a service requires or excludes.

Each refusal is compared with its recorded words, as far as these were recorded.
"""

from case import API, PREFLIGHT, Trial, case
from cases.dns import dns_service, records

REGISTER = API + "API_RegisterInstance.html"
INVALID = "400 InvalidInput"
CHECK = {"Type": "TCP", "FailureThreshold": 1}


def register(trial: Trial, service: str, attributes: dict[str, str]) -> str:
    return trial.answer("register_instance", ServiceId=service, InstanceId="a", Attributes=attributes)


def words(trial: Trial, service: str, attributes: dict[str, str]) -> str:
    return trial.refusal("register_instance", ServiceId=service, InstanceId="a", Attributes=attributes)


@case("Keys end at 255 characters and values at 1,024; a value may be empty and does not begin with a space.", PREFLIGHT + "instance-attribute-key-pattern")
def attribute_sizes(trial: Trial) -> None:
    service = trial.scratch.service()
    rows = [
        ({"k" * 255: "v" * 1024}, "accepted"), ({"k": ""}, "accepted"), ({"k": "a\tb c"}, "accepted"),
        ({"k" * 256: "v"}, "400 InvalidInput"), ({"k": "v" * 1025}, "400 InvalidInput"), ({"k k": "v"}, "400 InvalidInput"),
        ({"k": " v"}, "400 InvalidInput"), ({"k": "\u00e9"}, "400 InvalidInput"), ({"k": "a\nb"}, "400 InvalidInput"),
    ]  # fmt: skip
    for attributes, wanted in rows:
        answered = register(trial, service, attributes)
        shown = {key[:9]: value[:9] for key, value in attributes.items()}
        trial.expect(f"{shown!r} with lengths {[(len(key), len(value)) for key, value in attributes.items()]}", wanted, answered)


@case("A key or a value against its constraint is refused as an error of the whole member.", PREFLIGHT + "instance-attribute-value-pattern")
def words_of_a_constraint(trial: Trial) -> None:
    service = trial.scratch.service()
    for attributes in ({"k" * 256: "v"}, {"k k": "v"}, {"k": "v" * 1025}):
        answered = words(trial, service, attributes)
        begins = answered.startswith(f"{INVALID}: 1 validation error detected: Value '")
        trial.expect(f"{answered[:200]}: its form", (True, True), (begins, "' at 'attributes' failed to satisfy constraint: " in answered))


@case("All keys and values together end at 5,000 characters.", PREFLIGHT + "instance-attributes-total-size")
def total_of_attributes(trial: Trial) -> None:
    service = trial.scratch.service()
    full = {f"k{number}": "v" * 998 for number in range(5)}
    refused = f"{INVALID}: Instance attributes too large. Maximum allowed size of all attributes is 5000 characters."
    for attributes, wanted in ((full, "accepted"), ({**full, "k": ""}, refused)):
        answered = words(trial, service, attributes)
        trial.expect(f"{sum(len(key) + len(value) for key, value in attributes.items())} characters", wanted, answered)


@case("An instance has at most 30 attributes of its own.", PREFLIGHT + "instance-custom-attributes-max")
def number_of_attributes(trial: Trial) -> None:
    service = trial.scratch.service()
    trial.expect("30 attributes", "accepted", register(trial, service, {f"k{index}": "v" for index in range(30)}))
    answered = words(trial, service, {f"k{index}": "v" for index in range(31)})
    before, _, after = answered.partition("k30")
    trial.expect("31: before the keys", f"{INVALID}: Too many attributes provided: [", before.rstrip("k0123456789, "))
    trial.expect("31: after them", "]. The current limit is 30", after.lstrip("k0123456789, "))


@case("A reserved attribute is not one of the 30.", None)
def reserved_attributes_are_not_counted(trial: Trial) -> None:
    service = trial.scratch.service()
    attributes = {f"k{index}": "v" for index in range(30)} | {"AWS_INSTANCE_IPV4": "192.0.2.1", "AWS_INSTANCE_PORT": "80"}
    trial.expect("30 and two reserved ones", "accepted", register(trial, service, attributes))


@case("An attribute that begins with aws_ in any letter case and is not known is refused.", PREFLIGHT + "instance-unknown-aws-attribute")
def unknown_reserved_attribute(trial: Trial) -> None:
    service = trial.scratch.service()
    for key in ("AWS_MY_ATTR", "aws_my_attr", "Aws_My_Attr"):
        refused = f"{INVALID}: Invalid attribute: [{key}]. [aws_] prefix is reserved for AWS attributes."
        trial.expect(key, refused, words(trial, service, {key: "v"}))


@case("A known attribute is accepted in other letters.", PREFLIGHT + "instance-unknown-aws-attribute")
def known_attribute_in_other_letters(trial: Trial) -> None:
    trial.expect("aws_instance_ipv4", "accepted", register(trial, trial.scratch.service(), {"aws_instance_ipv4": "192.0.2.1"}))


@case("A known attribute in other letters is one like any other, also beside the known one.", None)
def known_key_in_other_case(trial: Trial) -> None:
    service = trial.scratch.service()
    rows: list[dict[str, str]] = [
        {"aws_instance_ipv4": "192.0.2.1"},
        {"aws_instance_ipv4": "192.0.2.1", "AWS_INSTANCE_IPV4": "192.0.2.2"},
        {"aws_instance_port": "http"},
    ]
    for attributes in rows:
        trial.expect(f"{sorted(attributes)}", "accepted", register(trial, service, attributes))
        trial.eventually(f"{sorted(attributes)} in ListInstances", {"a": attributes}, lambda: trial.scratch.attributes(service))


@case("In an HTTP namespace, too, a reserved attribute must have an address or a port as its value.", None)
def malformed_reserved_attributes(trial: Trial) -> None:
    service = trial.scratch.service()
    rows = [
        ("AWS_INSTANCE_IPV4", "300.0.0.1"), ("AWS_INSTANCE_IPV4", "2001:db8::1"), ("AWS_INSTANCE_IPV6", "192.0.2.1"),
        ("AWS_INSTANCE_PORT", "0"), ("AWS_INSTANCE_PORT", "65536"), ("AWS_INSTANCE_PORT", "http"),
    ]  # fmt: skip
    for key, value in rows:
        trial.expect(f"{key}={value}", "400 InvalidInput", register(trial, service, {key: value}))


@case("A first status is accepted without a custom check, and is HEALTHY or UNHEALTHY.", PREFLIGHT + "instance-init-health-status-enum")
def first_status_without_a_check(trial: Trial) -> None:
    service = trial.scratch.service()
    trial.expect("HEALTHY", "accepted", register(trial, service, {"AWS_INIT_HEALTH_STATUS": "HEALTHY"}))
    refused = f"{INVALID}: No enum constant com.amazon.route53.autonaming.model.InitHealthStatus.UNKNOWN"
    trial.expect("UNKNOWN", refused, words(trial, service, {"AWS_INIT_HEALTH_STATUS": "UNKNOWN"}))


@case("AWS_EC2_INSTANCE_ID stands beside no port.", PREFLIGHT + "instance-ec2-id-exclusive")
def ec2_instance_with_a_port(trial: Trial) -> None:
    refused = "Invalid combination of attributes received. AWS_EC2_INSTANCE_ID is not supported with [AWS_INSTANCE_PORT]."
    attributes = {"AWS_EC2_INSTANCE_ID": "i-0123456789abcdef0", "AWS_INSTANCE_PORT": "80"}
    trial.expect("with a port", f"{INVALID}: {refused}", words(trial, trial.scratch.service(), attributes))


@case("AWS_EC2_INSTANCE_ID is for HTTP namespaces.", PREFLIGHT + "instance-ec2-id-http-only", needs_vpc=True)
def ec2_instance_in_dns(trial: Trial) -> None:
    answered = words(trial, dns_service(trial, "A"), {"AWS_EC2_INSTANCE_ID": "i-0123456789abcdef0"})
    trial.expect("the error", INVALID, answered.split(":")[0])
    trial.expect("the end of its words", True, answered.endswith("It is only supported in HTTP namespace"))


@case("An alias is for services with the policy WEIGHTED.", "https://github.com/kubernetes-sigs/external-dns/issues/1174", needs_vpc=True)
def alias_in_a_multivalue_service(trial: Trial) -> None:
    refused = f"{INVALID}: ALIAS instance can be registered only in services with WEIGHTED routing policy"
    attributes = {"AWS_ALIAS_DNS_NAME": "lb-1234567890.us-east-2.elb.amazonaws.com"}
    trial.expect("MULTIVALUE", refused, words(trial, dns_service(trial, "A"), attributes))


@case("Each record requires its attribute; SRV requires a port and an address.", PREFLIGHT + "instance-a-requires-ipv4", needs_vpc=True)
def required_attributes(trial: Trial) -> None:
    v4, v6, port = {"AWS_INSTANCE_IPV4": "192.0.2.1"}, {"AWS_INSTANCE_IPV6": "2001:db8::1"}, {"AWS_INSTANCE_PORT": "80"}

    def missing(key: str) -> str:
        return f"{INVALID}: Required attribute(s) {key} are missing."

    rows: list[tuple[tuple[str, ...], dict[str, str], str]] = [
        (("A",), v4, "accepted"), (("A",), port, missing("AWS_INSTANCE_IPV4")), (("AAAA",), v4, missing("AWS_INSTANCE_IPV6")),
        (("A",), v4 | v6, "accepted"), (("A", "AAAA"), v4, missing("AWS_INSTANCE_IPV6")), (("SRV",), v4, missing("AWS_INSTANCE_PORT")),
        (("SRV",), port, f"{INVALID}: At least one of AWS_INSTANCE_IPV4 AWS_INSTANCE_IPV6 is required."), (("SRV",), v4 | port, "accepted"),
    ]  # fmt: skip
    services = {kinds: dns_service(trial, *kinds) for kinds in dict.fromkeys(row[0] for row in rows)}
    for kinds, attributes, wanted in rows:
        trial.expect(f"{kinds} with {sorted(attributes)}", wanted, words(trial, services[kinds], attributes))


def checked_service(trial: Trial) -> str:
    """A service whose instances Route 53 would call. The cases register none in it, so that none is called."""
    return trial.scratch.service(trial.scratch.public_namespace(), DnsConfig=records("A"), HealthCheckConfig=CHECK)


def forbidden(address: str) -> str:
    return f"{INVALID}: IPv4 address {address} is forbidden for healthChecks"


def at(address: str) -> dict[str, str]:
    return {"AWS_INSTANCE_IPV4": address, "AWS_INSTANCE_PORT": "80"}


@case("A health check of Route 53 requires a port.", PREFLIGHT + "instance-healthcheck-requires-port", needs_vpc=True)
def port_for_a_check(trial: Trial) -> None:
    refused = f"{INVALID}: A port must be supplied in order to register this instance."
    trial.expect("without a port", refused, words(trial, checked_service(trial), {"AWS_INSTANCE_IPV4": "192.0.2.1"}))


@case("A health check of Route 53 refuses addresses that it cannot call.", PREFLIGHT + "instance-healthcheck-forbids-nonroutable-ipv4", needs_vpc=True)
def addresses_of_a_check(trial: Trial) -> None:
    service = checked_service(trial)
    for address in ("10.0.0.1", "192.0.2.1"):
        trial.expect(address, forbidden(address), words(trial, service, at(address)))


@case("A health check of Route 53 refuses all private IPv4 addresses.", None, needs_vpc=True)
def private_addresses_of_a_check(trial: Trial) -> None:
    service = checked_service(trial)
    for address in ("172.16.0.1", "172.31.255.254", "192.168.0.1"):
        trial.expect(address, forbidden(address), words(trial, service, at(address)))


@case("A health check of Route 53 refuses the same addresses in an HTTP namespace.", None)
def private_addresses_of_a_check_in_http(trial: Trial) -> None:
    service = trial.scratch.service(HealthCheckConfig=CHECK)
    trial.expect("10.0.0.1", forbidden("10.0.0.1"), words(trial, service, at("10.0.0.1")))
