"""The namespaces that the suite makes for itself, and all that it does to remove them.

Every namespace has a random name, which is noted before the namespace is asked for: one whose creation was interrupted
is found by its name. Nothing else is changed in the account. Changes are operations; `ended` waits for one, at most as
long as the patience, and `polls` has the waits in between.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

PREFIX = "cloud-map-sync-suite-"
# The waits between two reads, in seconds: at once in the stand-in, and gentle to an account's rates.
FIRST_WAIT, LONGEST_WAIT, GROWTH = 0.01, 2.0, 1.5
# An account's rates are low, and other programs use them, too.
RETRIES: Any = {"mode": "standard", "max_attempts": 8}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# A namespace is listed at the latest so many seconds after its creation was asked for, if the answer was lost.
GRACE = 20.0
# The errors of a removal that another try may not meet.
PASSING = ("DuplicateRequest", "ResourceInUse", "InstanceNotFound", "ServiceNotFound", "NamespaceNotFound")
ENDED = ("SUCCESS", "FAIL")


class TooLate(Exception):
    """The patience ended before an operation did."""


class Scratch:
    """Clients, and what is to be removed."""

    def __init__(self, patience: float, vpc: str | None) -> None:
        session = boto3.Session()
        self.endpoint = session.client("servicediscovery").meta.endpoint_url
        self.is_local = urlsplit(self.endpoint).hostname in LOOPBACK
        # The stand-in has one host; AWS has one with the prefix `data-` for discovery.
        prefix: Any = {"inject_host_prefix": False} if self.is_local else {}
        self.cloud_map = session.client("servicediscovery", config=Config(retries=RETRIES, **prefix))
        self.unchecked = session.client("servicediscovery", config=Config(retries=RETRIES, parameter_validation=False, **prefix))
        self.patience, self.vpc = patience, vpc
        self.names: list[str] = []
        self.creations: list[str] = []
        self.unanswered: set[str] = set()
        self.removed = 0
        self.known: dict[str, str] = {}
        self.serial = 0

    def polls(self) -> Iterator[None]:
        """Once, and again after each wait until the patience ends, which begins anew when something was removed."""
        removed, end, wait = self.removed, time.monotonic() + self.patience, FIRST_WAIT
        while True:
            yield
            if self.removed != removed:
                removed, end, wait = self.removed, time.monotonic() + self.patience, FIRST_WAIT
            if time.monotonic() >= end:
                return
            time.sleep(wait)
            wait = min(LONGEST_WAIT, wait * GROWTH)

    def new_name(self) -> str:
        """A name that nothing in the account has."""
        self.serial += 1
        return f"{PREFIX}{secrets.token_hex(6)}-{self.serial}"

    def ended(self, operation_id: str) -> dict[str, Any]:
        """An operation after its end."""
        for _ in self.polls():
            operation = self.cloud_map.get_operation(OperationId=operation_id)["Operation"]
            if operation["Status"] in ENDED:
                return operation
        raise TooLate(f"the operation {operation_id} has not ended after {self.patience:g} s")

    def done(self, accepted: dict[str, Any]) -> dict[str, Any]:
        """The operation that a call was answered with, which must succeed."""
        operation = self.ended(accepted["OperationId"])
        if operation["Status"] != "SUCCESS":
            raise RuntimeError(f"{operation['Type']} failed: {operation.get('ErrorCode')}: {operation.get('ErrorMessage')}")
        return operation

    def make_namespace(self, **settings: Any) -> tuple[str, str]:
        """A new HTTP namespace: its id and name."""
        name = self.new_name()
        operation = self.create(self.cloud_map.create_http_namespace, Name=name, **settings)
        return operation["Targets"]["NAMESPACE"], name

    def create(self, create: Callable[..., dict[str, Any]], **settings: Any) -> dict[str, Any]:
        """Creates a namespace by a call of the client, to be removed at the end in any case; the operation."""
        return self.done({"OperationId": self.begin(create, **settings)})

    def begin(self, create: Callable[..., dict[str, Any]], **settings: Any) -> str:
        """Begins to create one in the same way; the id of the operation."""
        name = settings["Name"]
        self.names.append(name)
        self.unanswered.add(name)
        accepted = create(**settings)
        self.creations.append(accepted["OperationId"])
        self.unanswered.discard(name)
        return str(accepted["OperationId"])

    def namespace(self, label: str = "first") -> str:
        """The HTTP namespace of this label, made when it is first asked for."""
        if label not in self.known:
            self.known[label], _ = self.make_namespace(Description="Of a test suite; safe to delete")
        return self.known[label]

    def private_namespace(self) -> str:
        """The private DNS namespace, in the VPC that was given."""
        if "private" not in self.known:
            operation = self.create(self.cloud_map.create_private_dns_namespace, Name=self.new_name(), Vpc=self.vpc)
            self.known["private"] = operation["Targets"]["NAMESPACE"]
        return self.known["private"]

    def public_namespace(self) -> str:
        """A public DNS namespace, of a domain that nobody can register."""
        if "public" not in self.known:
            operation = self.create(self.cloud_map.create_public_dns_namespace, Name=f"{self.new_name()}.test")
            self.known["public"] = operation["Targets"]["NAMESPACE"]
        return self.known["public"]

    def service(self, namespace: str | None = None, **settings: Any) -> str:
        """A new service: its id."""
        namespace = namespace or self.namespace()
        return self.cloud_map.create_service(Name=self.new_name()[-40:], NamespaceId=namespace, **settings)["Service"]["Id"]

    def register(self, service: str, instance: str, attributes: dict[str, str]) -> dict[str, Any]:
        """Registers and waits; the operation."""
        return self.done(self.cloud_map.register_instance(ServiceId=service, InstanceId=instance, Attributes=attributes))

    def deregister(self, service: str, instance: str) -> dict[str, Any]:
        """Deregisters and waits; the operation."""
        return self.done(self.cloud_map.deregister_instance(ServiceId=service, InstanceId=instance))

    def attributes(self, service: str) -> dict[str, dict[str, str]]:
        """The attributes of all instances of a service as ListInstances has them."""
        return {it["Id"]: it["Attributes"] for it in self.pages("list_instances", ServiceId=service)}

    def pages(self, operation: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """The items of all pages of a list."""
        (key,) = self.cloud_map.get_paginator(operation).result_keys
        for page in self.cloud_map.get_paginator(operation).paginate(**parameters):
            yield from page[key.expression]

    def clean(self) -> list[str]:
        """Removes every namespace that was noted with all that is in it; a line for each that is left."""
        left = []
        steps = [(self.ended, it) for it in self.creations] + [(self.remove, it) for it in dict.fromkeys(self.names)]
        for step, subject in steps:
            try:
                step(subject)
            except (BotoCoreError, ClientError, TooLate, RuntimeError) as error:
                left.append(f"{subject}: {error}")
        return left

    def remove(self, name: str) -> None:
        """Removes the namespaces of a name. A removal that is refused because of work under way is tried again."""
        grace = time.monotonic() + GRACE
        for _ in self.polls():
            found = [it["Id"] for it in self.pages("list_namespaces", Filters=[{"Name": "NAME", "Values": [name]}])]
            if not found and (name not in self.unanswered or time.monotonic() > grace):
                return
            if found:
                self.unanswered.discard(name)
            try:
                for namespace in found:
                    self.empty(namespace)
                    self.done(self.cloud_map.delete_namespace(Id=namespace))
                    self.removed += 1
            except ClientError as error:
                if error.response["Error"]["Code"] not in PASSING:
                    raise
        raise TooLate(f"it is still there after {self.patience:g} s")

    def empty(self, namespace: str) -> None:
        """Removes the services of a namespace with their instances."""
        services = [it["Id"] for it in self.pages("list_services", Filters=[{"Name": "NAMESPACE_ID", "Values": [namespace]}])]
        going = [
            self.cloud_map.deregister_instance(ServiceId=service, InstanceId=instance)["OperationId"]
            for service in services
            for instance in self.attributes(service)
        ]
        for operation in going:
            self.ended(operation)
        for service in services:
            self.cloud_map.delete_service(Id=service)
            self.removed += 1
