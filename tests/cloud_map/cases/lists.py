"""Lists: pages, tokens, filters and their conditions."""

from case import API, NotAsked, Trial, case

NAMESPACE_ID = "NAMESPACE_ID"
# In an account with more services than this, reading them one by one takes too long.
MOST_PAGES = 120


def walk(trial: Trial, operation: str, key: str, **parameters: object) -> list[list[str]]:
    """The ids on each page."""
    pages: list[list[str]] = []
    token: dict[str, str] = {}
    while len(pages) < MOST_PAGES:
        page = getattr(trial.cloud_map, operation)(**parameters, **token)
        pages.append([it["Id"] for it in page[key]])
        if "NextToken" not in page:
            return pages
        token = {"NextToken": page["NextToken"]}
    raise NotAsked(f"the account has more than {MOST_PAGES} services")


@case("The pages of a list have at most MaxResults items, and together each item once.", API + "API_ListInstances.html")
def pages_of_instances(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    ids = [f"a{number}" for number in range(5)]
    for accepted in [trial.cloud_map.register_instance(ServiceId=service, InstanceId=it, Attributes={"k": it}) for it in ids]:
        scratch.done(accepted)
    trial.eventually("ListInstances", set(ids), lambda: set(scratch.attributes(service)))
    pages = walk(trial, "list_instances", "Instances", ServiceId=service, MaxResults=2)
    trial.expect("the longest page", 2, max(map(len, pages)))
    trial.expect("all pages", ids, sorted(it for page in pages for it in page))


@case("ListServices takes a page and then filters it, so that a page may be empty and lead on.", API + "API_ListNamespaces.html")
def pages_are_filtered_later(trial: Trial) -> None:
    scratch = trial.scratch
    wanted = sorted(scratch.service(scratch.namespace("second")) for _ in range(2))
    others = [scratch.service() for _ in range(4)]
    filters = [{"Name": NAMESPACE_ID, "Values": [scratch.namespace("second")]}]
    pages = walk(trial, "list_services", "Services", Filters=filters, MaxResults=1)
    trial.expect("the services of the namespace", wanted, sorted(it for page in pages for it in page))
    trial.expect("at least a page for each service of others", True, len(pages) >= len(wanted) + len(others))
    trial.expect("an empty page that leads on", True, any(not page for page in pages[:-1]))


@case("A namespace that is not there has no services, and to ask for them is no error.", None)
def services_of_an_unknown_namespace(trial: Trial) -> None:
    filters = [{"Name": NAMESPACE_ID, "Values": ["ns-aaaaaaaaaaaaaaaa"]}]
    trial.expect("ListServices", [], [it["Id"] for it in trial.scratch.pages("list_services", Filters=filters)])


@case("ListServices takes the ARN of a namespace for its id.", API + "API_ServiceFilter.html")
def services_by_arn(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    arn = trial.cloud_map.get_namespace(Id=scratch.namespace())["Namespace"]["Arn"]
    listed = [it["Id"] for it in scratch.pages("list_services", Filters=[{"Name": NAMESPACE_ID, "Values": [arn]}])]
    trial.expect("the service is there", True, service in listed)


@case("MaxResults is 1 to 100.", API + "API_ListServices.html")
def size_of_a_page(trial: Trial) -> None:
    for size, wanted in ((0, "400 InvalidInput"), (1, "accepted"), (100, "accepted"), (101, "400 InvalidInput")):
        trial.expect(f"MaxResults {size}", wanted, trial.answer("list_services", MaxResults=size))


@case("A token that no list gave is InvalidInput.", None)
def invented_token(trial: Trial) -> None:
    service = trial.scratch.service()
    for operation, more in (("list_services", {}), ("list_namespaces", {}), ("list_instances", {"ServiceId": service})):
        trial.expect(operation, "400 InvalidInput", trial.answer(operation, NextToken="invented", **more))


@case("A token of another list is InvalidInput.", None)
def token_of_another_list(trial: Trial) -> None:
    first, second = trial.scratch.service(), trial.scratch.service()
    for instance in ("a", "b"):
        trial.scratch.register(first, instance, {"k": "v"})
    token = trial.cloud_map.list_instances(ServiceId=first, MaxResults=1)["NextToken"]
    trial.expect("of another service", "400 InvalidInput", trial.answer("list_instances", ServiceId=second, NextToken=token))
    trial.expect("of another operation", "400 InvalidInput", trial.answer("list_services", NextToken=token))


@case("A filter with EQ has one value, and a filter knows its conditions.", API + "API_ServiceFilter.html")
def filters_and_conditions(trial: Trial) -> None:
    namespace = trial.scratch.namespace()
    rows = [
        ({"Name": NAMESPACE_ID, "Condition": "EQ", "Values": [namespace]}, "accepted"),
        ({"Name": NAMESPACE_ID, "Values": [namespace, namespace]}, "400 InvalidInput"),
        ({"Name": NAMESPACE_ID, "Values": []}, "400 InvalidInput"),
        ({"Name": NAMESPACE_ID, "Condition": "BETWEEN", "Values": [namespace, namespace]}, "400 InvalidInput"),
        ({"Name": "NAME", "Values": ["web"]}, "400 InvalidInput"),
    ]  # fmt: skip
    for given, wanted in rows:
        trial.expect(f"{given['Name']} {given.get('Condition')} with {len(given['Values'])}", wanted, trial.answer("list_services", Filters=[given]))


@case("Namespaces are listed by name and HttpName, or the beginning of one, and by type.", API + "API_NamespaceFilter.html")
def namespaces_by_name(trial: Trial) -> None:
    scratch = trial.scratch
    namespace, name = scratch.make_namespace()
    by_type = {"Name": "TYPE", "Values": ["HTTP"]}
    rows = [
        [{"Name": "NAME", "Values": [name]}], [{"Name": "HTTP_NAME", "Values": [name]}], [{"Name": "NAME", "Values": [name]}, by_type],
        [{"Name": "NAME", "Condition": "BEGINS_WITH", "Values": [name[:-1]]}, {"Name": "HTTP_NAME", "Values": [name]}],
    ]  # fmt: skip
    for filters in rows:
        listed = [it["Id"] for it in scratch.pages("list_namespaces", Filters=filters)]
        trial.expect(f"{[it['Name'] for it in filters]}", [namespace], listed)
    another = [{"Name": "NAME", "Values": [name]}, {"Name": "TYPE", "Values": ["DNS_PRIVATE"]}]
    trial.expect("of another type", [], [it["Id"] for it in scratch.pages("list_namespaces", Filters=another)])


@case("InstanceCount of a service counts its instances.", API + "API_ServiceSummary.html")
def count_of_instances(trial: Trial) -> None:
    scratch, service = trial.scratch, trial.scratch.service()
    for instance in ("a", "b"):
        scratch.register(service, instance, {"k": "v"})
    trial.eventually("GetService", 2, lambda: trial.cloud_map.get_service(Id=service)["Service"].get("InstanceCount"))
