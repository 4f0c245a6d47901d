"""HTTP namespaces: creation, names, changes and deletion."""

from case import ALCHEMY, API, CDK, CDK_PREFLIGHT_BENCH, EXAMPLES, MOTO, Trial, case

UNKNOWN = "ns-aaaaaaaaaaaaaaaa"
# So often two calls are tried until the second meets the first: an operation may end in between.
TRIES = 20


@case("A new HTTP namespace has its name as HttpName, its description and the request id.", API + "API_Namespace.html")
def members_of_a_namespace(trial: Trial) -> None:
    name = trial.scratch.new_name()
    operation = trial.scratch.create(trial.cloud_map.create_http_namespace, Name=name, Description="Of a suite", CreatorRequestId=name)
    trial.expect("Type of the operation", "CREATE_NAMESPACE", operation["Type"])
    trial.expect("Targets of the operation", ["NAMESPACE"], sorted(operation["Targets"]))
    namespace = trial.cloud_map.get_namespace(Id=operation["Targets"]["NAMESPACE"])["Namespace"]
    account = namespace["Arn"].split(":")[4]
    wanted = {"Name": name, "Type": "HTTP", "Description": "Of a suite", "CreatorRequestId": name, "ResourceOwner": account}
    trial.expect("GetNamespace", wanted, {key: namespace.get(key) for key in wanted})
    trial.expect("HttpProperties", {"HttpName": name}, namespace["Properties"].get("HttpProperties"))


@case("The properties of an HTTP namespace have the member DnsProperties, which has no zone.", EXAMPLES)
def dns_properties_of_http(trial: Trial) -> None:
    properties = trial.cloud_map.get_namespace(Id=trial.scratch.namespace())["Namespace"]["Properties"]
    trial.expect("the members of Properties", ["DnsProperties", "HttpProperties"], sorted(properties))
    trial.expect("HostedZoneId", None, properties.get("DnsProperties", {}).get("HostedZoneId"))


@case("A second HTTP namespace of the same name is refused with the id of the first.", API + "API_CreateHttpNamespace.html")
def namespace_of_the_same_name(trial: Trial) -> None:
    first, name = trial.scratch.make_namespace(CreatorRequestId="suite-first-" + trial.scratch.new_name()[-20:])
    answered, error = trial.error("create_http_namespace", Name=name)
    trial.expect("CreateHttpNamespace", "400 NamespaceAlreadyExists", answered)
    trial.expect("NamespaceId", first, error.get("NamespaceId"))


@case("A namespace that exists is NamespaceAlreadyExists to the request that made it, too.", None)
def namespace_by_the_same_request(trial: Trial) -> None:
    request = trial.scratch.new_name()
    first, name = trial.scratch.make_namespace(CreatorRequestId=request)
    answered, error = trial.error("create_http_namespace", Name=name, CreatorRequestId=request)
    trial.expect("CreateHttpNamespace", ("400 NamespaceAlreadyExists", first), (answered, error.get("NamespaceId")))


@case("The name of an HTTP namespace is printable ASCII without a space, and no ARN.", API + "API_CreateHttpNamespace.html")
def namespace_names(trial: Trial) -> None:
    for name in ("with space", "arn:aws:x", "x" * 1025, "\u00e9", ""):
        answered = trial.answer("create_http_namespace", Name=name)
        trial.expect(name[:20], "400 InvalidInput", answered)
        if answered == "accepted":
            trial.scratch.names.append(name)


@case("A namespace with a service cannot be deleted; without, it goes.", API + "API_DeleteNamespace.html")
def deletion_of_a_namespace(trial: Trial) -> None:
    namespace, _ = trial.scratch.make_namespace()
    service = trial.scratch.service(namespace)
    trial.expect("with a service", "400 ResourceInUse", trial.answer("delete_namespace", Id=namespace))
    trial.cloud_map.delete_service(Id=service)
    trial.eventually("without", "accepted", lambda: trial.answer("delete_namespace", Id=namespace))
    trial.eventually("GetNamespace", "400 NamespaceNotFound", lambda: trial.answer("get_namespace", Id=namespace))


@case("A namespace that is not there is NamespaceNotFound.", API + "API_GetNamespace.html")
def unknown_namespace(trial: Trial) -> None:
    for operation, more in (("get_namespace", {}), ("delete_namespace", {})):
        trial.expect(operation, "400 NamespaceNotFound", trial.answer(operation, Id=UNKNOWN, **more))


@case("ServiceCount of a namespace counts its services.", API + "API_Namespace.html")
def count_of_services(trial: Trial) -> None:
    namespace, _ = trial.scratch.make_namespace()
    for _ in range(2):
        trial.scratch.service(namespace)
    trial.eventually("ServiceCount", 2, lambda: trial.cloud_map.get_namespace(Id=namespace)["Namespace"].get("ServiceCount"))


@case("Two namespaces of one name cannot be on their way at once, whatever their types.", CDK.format(25554), needs_vpc=True)
def creations_of_one_name(trial: Trial) -> None:
    for _ in range(TRIES):
        name = trial.scratch.new_name()
        first = trial.scratch.begin(trial.cloud_map.create_private_dns_namespace, Name=name, Vpc=trial.scratch.vpc)
        answered, error = trial.error("create_http_namespace", Name=name)
        trial.scratch.ended(first)
        if answered != "accepted":
            break
    trial.expect("CreateHttpNamespace", "400 DuplicateRequest", answered)
    trial.expect("DuplicateOperationId", first, error.get("DuplicateOperationId"))
    text = f"Another operation of type CreatePrivateDnsNamespace and id {first} is in progress"
    trial.expect("the text", text, error.get("Error", {}).get("Message"))


@case("A name that is taken may be refused by the operation that created it: the text says that this has completed.", CDK_PREFLIGHT_BENCH)
def completed_creation(trial: Trial) -> None:
    namespace, name = trial.scratch.make_namespace()
    answered, error = trial.error("create_http_namespace", Name=name)
    operation = error.get("DuplicateOperationId")
    if operation is None:
        trial.expect("CreateHttpNamespace", ("400 NamespaceAlreadyExists", namespace), (answered, error.get("NamespaceId")))
        return
    trial.expect("CreateHttpNamespace", "400 DuplicateRequest", answered)
    text = f"Another operation of type CreateHttpNamespace and id {operation} has completed"
    trial.expect("the text", text, error["Error"]["Message"])
    ended = trial.scratch.ended(operation)
    trial.expect("the operation", ("SUCCESS", namespace), (ended["Status"], ended["Targets"]["NAMESPACE"]))


@case("A namespace in deletion is shown by no read, and its name is taken until the deletion has ended.", ALCHEMY)
def namespace_in_deletion(trial: Trial) -> None:
    answers: list[str] = []
    for _ in range(TRIES):
        namespace, name = trial.scratch.make_namespace()
        accepted = trial.cloud_map.delete_namespace(Id=namespace)
        answers = [trial.answer("get_namespace", Id=namespace), trial.answer("create_http_namespace", Name=name)]
        trial.scratch.ended(accepted["OperationId"])
        if answers[1] != "accepted":
            break
    trial.expect("GetNamespace and CreateHttpNamespace", ["400 NamespaceNotFound", "400 NamespaceAlreadyExists"], answers)
    trial.eventually("CreateHttpNamespace after that", "accepted", lambda: trial.answer("create_http_namespace", Name=name))


@case("A second deletion meanwhile is refused with the id of the first.", MOTO)
def deletion_during_deletion(trial: Trial) -> None:
    for _ in range(TRIES):
        namespace, _ = trial.scratch.make_namespace()
        first = trial.cloud_map.delete_namespace(Id=namespace)["OperationId"]
        answered, error = trial.error("delete_namespace", Id=namespace)
        trial.scratch.ended(first)
        if error.get("DuplicateOperationId"):
            break
    trial.expect("DeleteNamespace", ("400 DuplicateRequest", first), (answered, error.get("DuplicateOperationId")))


@case("The id of a new namespace is in its operation; a list may show it later.", ALCHEMY)
def list_of_namespaces_follows(trial: Trial) -> None:
    namespace, name = trial.scratch.make_namespace()
    trial.expect("GetNamespace", name, trial.cloud_map.get_namespace(Id=namespace)["Namespace"]["Name"])
    filters = [{"Name": "NAME", "Values": [name]}]
    trial.eventually("ListNamespaces", [namespace], lambda: [it["Id"] for it in trial.scratch.pages("list_namespaces", Filters=filters)])
