"""Tags of namespaces and services."""

from case import API, Trial, case


def tags(trial: Trial, arn: str) -> dict[str, str]:
    return {it["Key"]: it["Value"] for it in trial.cloud_map.list_tags_for_resource(ResourceARN=arn)["Tags"]}


def tagged(pairs: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in pairs.items()]


@case("Tags come with a creation, and are merged by TagResource.", API + "API_TagResource.html")
def tags_of_a_service(trial: Trial) -> None:
    service = trial.scratch.service(Tags=tagged({"one": "1", "two": ""}))
    arn = trial.cloud_map.get_service(Id=service)["Service"]["Arn"]
    trial.eventually("of a new service", {"one": "1", "two": ""}, lambda: tags(trial, arn))
    trial.cloud_map.tag_resource(ResourceARN=arn, Tags=tagged({"two": "2", "three": "3"}))
    trial.eventually("after TagResource", {"one": "1", "two": "2", "three": "3"}, lambda: tags(trial, arn))


@case("A namespace has the tags of its creation.", API + "API_CreateHttpNamespace.html")
def tags_of_a_namespace(trial: Trial) -> None:
    namespace, _ = trial.scratch.make_namespace(Tags=tagged({"one": "1"}))
    arn = trial.cloud_map.get_namespace(Id=namespace)["Namespace"]["Arn"]
    trial.eventually("ListTagsForResource", {"one": "1"}, lambda: tags(trial, arn))


@case("A resource has at most 50 tags.", API + "API_TagResource.html")
def number_of_tags(trial: Trial) -> None:
    service = trial.scratch.service()
    arn = trial.cloud_map.get_service(Id=service)["Service"]["Arn"]
    for first, number, wanted in ((0, 51, "400 TooManyTagsException"), (0, 50, "accepted"), (50, 1, "400 TooManyTagsException")):
        given = tagged({f"k{index}": "v" for index in range(first, first + number)})
        trial.expect(f"{number} tags from k{first}", wanted, trial.answer("tag_resource", ResourceARN=arn, Tags=given))


@case("A key has 1 to 128 characters and a value up to 256.", API + "API_Tag.html")
def sizes_of_tags(trial: Trial) -> None:
    service = trial.scratch.service()
    arn = trial.cloud_map.get_service(Id=service)["Service"]["Arn"]
    for key, value, wanted in (
        ("k" * 128, "v" * 256, "accepted"),
        ("k" * 129, "v", "400 InvalidInput"),
        ("k", "v" * 257, "400 InvalidInput"),
        ("", "v", "400 InvalidInput"),
    ):
        answered = trial.answer("tag_resource", ResourceARN=arn, Tags=tagged({key: value}))
        trial.expect(f"a key of {len(key)} and a value of {len(value)}", wanted, answered)


@case("A key that begins with aws: is refused, and so is one that is given twice.", None)
def reserved_tags(trial: Trial) -> None:
    service = trial.scratch.service()
    arn = trial.cloud_map.get_service(Id=service)["Service"]["Arn"]
    trial.expect("aws:", "400 InvalidInput", trial.answer("tag_resource", ResourceARN=arn, Tags=tagged({"aws:k": "v"})))
    trial.expect("twice", "400 InvalidInput", trial.answer("tag_resource", ResourceARN=arn, Tags=tagged({"k": "v"}) * 2))


@case("A resource that is not there is ResourceNotFoundException.", API + "API_ListTagsForResource.html")
def tags_of_an_unknown_resource(trial: Trial) -> None:
    arn = trial.cloud_map.get_namespace(Id=trial.scratch.namespace())["Namespace"]["Arn"]
    unknown = arn.rsplit("/", 1)[0] + "/ns-aaaaaaaaaaaaaaaa"
    calls: list[tuple[str, dict[str, object]]] = [
        ("list_tags_for_resource", {}),
        ("tag_resource", {"Tags": tagged({"k": "v"})}),
    ]
    for operation, more in calls:
        trial.expect(operation, "400 ResourceNotFoundException", trial.answer(operation, ResourceARN=unknown, **more))


@case("A tag needs an ARN: an id is InvalidInput.", None)
def tags_by_id(trial: Trial) -> None:
    trial.expect("ListTagsForResource", "400 InvalidInput", trial.answer("list_tags_for_resource", ResourceARN=trial.scratch.namespace()))
