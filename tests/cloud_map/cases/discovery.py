"""Discovery: filters by attribute and health, the limit, the revision, and its lag behind the control plane."""

from functools import partial
from typing import Any

from case import API, EXAMPLES, EXAMPLES_OF_CLI, Trial, case

UNKNOWN_NAMESPACE = "https://github.com/kubernetes-sigs/external-dns/issues/5180"
DISCOVER = API + "API_DiscoverInstances.html"


def scene(trial: Trial, instances: dict[str, dict[str, str]], **settings: Any) -> tuple[str, dict[str, str]]:
    """A service with instances that discovery has: its id, and the two names."""
    scratch, service = trial.scratch, trial.scratch.service(**settings)
    names = {
        "NamespaceName": trial.cloud_map.get_namespace(Id=scratch.namespace())["Namespace"]["Properties"]["HttpProperties"]["HttpName"],
        "ServiceName": trial.cloud_map.get_service(Id=service)["Service"]["Name"],
    }
    accepted = [trial.cloud_map.register_instance(ServiceId=service, InstanceId=it, Attributes=attributes) for it, attributes in instances.items()]
    for it in accepted:
        scratch.done(it)
    trial.eventually("discovery has all instances", set(instances), lambda: found(trial, names, HealthStatus="ALL"))
    return service, names


def found(trial: Trial, names: dict[str, str], **parameters: Any) -> set[str]:
    return {it["InstanceId"] for it in trial.cloud_map.discover_instances(**names, **parameters)["Instances"]}


@case("Discovery has an instance with both names and its attributes.", API + "API_HttpInstanceSummary.html")
def members_in_discovery(trial: Trial) -> None:
    _, names = scene(trial, {"a": {"k": "v"}})
    (instance,) = trial.cloud_map.discover_instances(**names)["Instances"]
    wanted = {"InstanceId": "a", **names, "Attributes": {"k": "v"}}
    trial.expect("DiscoverInstances", wanted, {key: instance.get(key) for key in wanted})


@case("Without a health check the status in discovery is UNKNOWN.", EXAMPLES)
def status_without_a_check(trial: Trial) -> None:
    _, names = scene(trial, {"a": {"k": "v"}})
    (instance,) = trial.cloud_map.discover_instances(**names)["Instances"]
    trial.expect("HealthStatus", "UNKNOWN", instance.get("HealthStatus"))


@case("QueryParameters keep the instances that have all of them; OptionalParameters only if any has.", DISCOVER)
def parameters_of_discovery(trial: Trial) -> None:
    _, names = scene(trial, {"a": {"zone": "1", "color": "red"}, "b": {"zone": "1", "color": "blue"}, "c": {"zone": "2", "color": "red"}})
    rows: list[tuple[dict[str, dict[str, str]], set[str]]] = [
        ({"QueryParameters": {"zone": "1"}}, {"a", "b"}), ({"QueryParameters": {"zone": "1", "color": "red"}}, {"a"}),
        ({"QueryParameters": {"zone": "3"}}, set()), ({"OptionalParameters": {"zone": "2"}}, {"c"}),
        ({"OptionalParameters": {"zone": "3"}}, {"a", "b", "c"}), ({"QueryParameters": {"color": "red"}, "OptionalParameters": {"zone": "2"}}, {"c"}),
        ({"QueryParameters": {"color": "blue"}, "OptionalParameters": {"zone": "2"}}, {"b"}),
    ]  # fmt: skip
    for parameters, wanted in rows:
        trial.eventually(str(parameters), wanted, partial(found, trial, names, **parameters))


@case("MaxResults of discovery is 1 to 1,000, and cuts the answer.", DISCOVER)
def limit_of_discovery(trial: Trial) -> None:
    _, names = scene(trial, {"a": {"k": "v"}, "b": {"k": "v"}, "c": {"k": "v"}})
    for size, wanted in ((0, "400 InvalidInput"), (1000, "accepted"), (1001, "400 InvalidInput")):
        trial.expect(f"MaxResults {size}", wanted, trial.answer("discover_instances", **names, MaxResults=size))
    trial.expect("the number with MaxResults 2", 2, len(found(trial, names, MaxResults=2)))


@case("The filter by health keeps the instances of a status, and HEALTHY_OR_ELSE_ALL all if none is healthy.", DISCOVER)
def discovery_by_health(trial: Trial) -> None:
    instances = {"up": {"k": "v"}, "down": {"k": "w", "AWS_INIT_HEALTH_STATUS": "UNHEALTHY"}}
    _, names = scene(trial, instances, HealthCheckCustomConfig={"FailureThreshold": 1})
    rows: list[tuple[dict[str, Any], set[str]]] = [
        ({"HealthStatus": "HEALTHY"}, {"up"}), ({"HealthStatus": "UNHEALTHY"}, {"down"}), ({"HealthStatus": "ALL"}, {"up", "down"}),
        ({"HealthStatus": "HEALTHY_OR_ELSE_ALL"}, {"up"}), ({"HealthStatus": "HEALTHY_OR_ELSE_ALL", "QueryParameters": {"k": "w"}}, {"down"}),
    ]  # fmt: skip
    for parameters, wanted in rows:
        trial.eventually(str(parameters), wanted, partial(found, trial, names, **parameters))


@case("Without a health check the filter by health is ignored.", DISCOVER)
def filter_without_a_check(trial: Trial) -> None:
    _, names = scene(trial, {"a": {"k": "v"}})
    for status in ("HEALTHY", "UNHEALTHY", "ALL", "HEALTHY_OR_ELSE_ALL"):
        trial.expect(status, {"a"}, found(trial, names, HealthStatus=status))


@case("A call of discovery without a filter by health has the healthy instances alone.", None)
def default_filter_by_health(trial: Trial) -> None:
    instances = {"up": {"k": "v"}, "down": {"k": "w", "AWS_INIT_HEALTH_STATUS": "UNHEALTHY"}}
    _, names = scene(trial, instances, HealthCheckCustomConfig={"FailureThreshold": 1})
    trial.eventually("DiscoverInstances", {"up"}, lambda: found(trial, names))
    trial.eventually("if none is healthy", set(), lambda: found(trial, names, QueryParameters={"k": "w"}))


@case("The revision grows with each registration and deregistration; both calls of discovery have it.", DISCOVER)
def revision_grows(trial: Trial) -> None:
    service, names = scene(trial, {"a": {"k": "v"}})

    def revision() -> int:
        return trial.cloud_map.discover_instances_revision(**names)["InstancesRevision"]

    first = revision()
    trial.eventually("DiscoverInstances has it, too", first, lambda: trial.cloud_map.discover_instances(**names).get("InstancesRevision"))
    trial.scratch.register(service, "b", {"k": "v"})
    trial.eventually("it grows with a registration", True, lambda: revision() > first)
    second = revision()
    trial.scratch.deregister(service, "b")
    trial.eventually("it grows with a deregistration", True, lambda: revision() > second)


@case("A revision has more digits than a float keeps.", EXAMPLES_OF_CLI + "/discover-instances.rst")
def size_of_a_revision(trial: Trial) -> None:
    _, names = scene(trial, {"a": {"k": "v"}})
    revision = trial.cloud_map.discover_instances(**names)["InstancesRevision"]
    trial.expect("above 2 to the power of 53", True, revision > 2**53)


@case("A registration over an instance that exists leaves the revision.", None)
def revision_of_a_replacement(trial: Trial) -> None:
    service, names = scene(trial, {"a": {"k": "1"}})
    before = trial.cloud_map.discover_instances(**names)["InstancesRevision"]
    trial.scratch.register(service, "a", {"k": "2"})
    # The revision counts once discovery has the new attributes.
    trial.eventually("discovery has it", {"a"}, lambda: found(trial, names, QueryParameters={"k": "2"}))
    trial.expect("the revision", before, trial.cloud_map.discover_instances(**names)["InstancesRevision"])


@case("A namespace or a service that is not there is an error of discovery.", UNKNOWN_NAMESPACE)
def unknown_names_in_discovery(trial: Trial) -> None:
    _, names = scene(trial, {})
    for operation in ("discover_instances", "discover_instances_revision"):
        answered = trial.refusal(operation, **{**names, "NamespaceName": "nowhere"})
        trial.expect(operation, "400 NamespaceNotFound: Namespace not found", answered)
        trial.expect(operation, "400 ServiceNotFound", trial.answer(operation, **{**names, "ServiceName": "nobody"}))


@case("Discovery finds a service by its exact name, in capitals by none.", None)
def case_of_names_in_discovery(trial: Trial) -> None:
    _, names = scene(trial, {"a": {"k": "v"}})
    answered = trial.answer("discover_instances", **{**names, "ServiceName": names["ServiceName"].upper()})
    trial.expect("in capitals", "400 ServiceNotFound", answered)
