"""A case of the suite: a function with a name, a sentence and, if there is one, the public source of the behaviour.

A case compares by `Trial.expect`, which notes a difference and goes on, so that one run finds all of them. One that is
`assumed` has no source: the stand-in marks the same assumption by a comment with the name of the case.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from scratch import Scratch

API = "https://docs.aws.amazon.com/cloud-map/latest/api/"
# Answers that AWS publishes.
EXAMPLES = "https://github.com/boto/botocore/blob/develop/botocore/data/servicediscovery/2017-03-14/examples-1.json"
# Rules that were each deployed against AWS, in September 2026, with the text of each refusal.
PREFLIGHT = "https://github.com/badmintoncryer/cdk-preflight/tree/main/rules/servicediscovery/pf-servicediscovery-"
EXAMPLES_OF_CLI = "https://github.com/aws/aws-cli/tree/develop/awscli/examples/servicediscovery"
# What others' live runs recorded of AWS: issues and pull requests, and files of live tests. Each rule of CDK_PREFLIGHT was
# deployed in September 2026; `{}` is the rule's name.
ALCHEMY = "https://github.com/alchemy-run/alchemy: packages/alchemy/src/AWS/CloudMap/internal.ts"
APP_MESH = "https://github.com/aws/aws-app-mesh-controller-for-k8s/pull/119"
CDK = "https://github.com/aws/aws-cdk/issues/{}"
CDK_PREFLIGHT = "https://github.com/badmintoncryer/cdk-preflight: rules/servicediscovery/pf-servicediscovery-{}/meta.yaml"
CDK_PREFLIGHT_BENCH = "https://github.com/badmintoncryer/cdk-preflight: bench/verify-rule.test.sh"
EXTERNAL_DNS = "https://github.com/kubernetes-sigs/external-dns/issues/{}"
MOTO = "https://github.com/getmoto/moto: comments in tests/test_servicediscovery"
REAL_DRIFT = "https://github.com/go-to-k/cdk-real-drift/issues/261"
TERRAFORM = "https://github.com/hashicorp/terraform-provider-aws/issues/{}"


class NotAsked(Exception):
    """Why a case cannot be asked in this account."""


@dataclass(frozen=True)
class Case:
    """One behaviour."""

    run: Callable[["Trial"], None]
    sentence: str
    source: str | None
    needs_vpc: bool

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def is_assumed(self) -> bool:
        return self.source is None


CASES: dict[str, Case] = {}


def case(sentence: str, source: str | None, *, needs_vpc: bool = False) -> Callable[[Callable[["Trial"], None]], Callable[["Trial"], None]]:
    """Adds a function to the suite; without a source the behaviour is assumed."""

    def add(run: Callable[["Trial"], None]) -> Callable[["Trial"], None]:
        found = Case(run, sentence, source, needs_vpc)
        assert found.name not in CASES, f"two cases are called {found.name}"
        CASES[found.name] = found
        return run

    return add


@dataclass
class Trial:
    """One case in progress: calls of the client, and the differences so far."""

    scratch: Scratch
    differences: list[str] = field(default_factory=list)

    @property
    def cloud_map(self) -> Any:
        return self.scratch.cloud_map

    def expect(self, subject: str, expected: object, answered: object) -> None:
        """Notes a difference between the stand-in's behaviour and the answer."""
        if expected != answered:
            self.differences.append(f"{subject}\n    stand-in: {expected!r}\n    answered: {answered!r}")

    def eventually(self, subject: str, expected: object, read: Callable[[], object]) -> None:
        """The same for an answer that may be late: reads again until it is as expected, or the patience ends.

        An error is an answer, too: discovery may not know a new service yet.
        """
        answered: object = None
        for _ in self.scratch.polls():
            try:
                answered = read()
            except ClientError as error:
                answered = error_name(error)
            if answered == expected:
                break
        self.expect(subject, expected, answered)

    def answer(self, operation: str, **parameters: Any) -> str:
        """How a call is answered: `accepted`, or the status and the name of the error.

        The client does not check the parameters, so that the service does. An operation that was accepted is awaited.
        """
        return self.error(operation, **parameters)[0]

    def refusal(self, operation: str, **parameters: Any) -> str:
        """How a call is answered, and in which words it is refused."""
        answered, error = self.error(operation, **parameters)
        return f"{answered}: {error['Error']['Message']}" if error else answered

    def error(self, operation: str, **parameters: Any) -> tuple[str, dict[str, Any]]:
        """The same, with the whole answer of an error."""
        try:
            accepted = getattr(self.scratch.unchecked, operation)(**parameters)
        except ClientError as error:
            return error_name(error), dict(error.response)
        if "OperationId" in accepted:
            self.scratch.ended(accepted["OperationId"])
        return "accepted", {}


def error_name(error: ClientError) -> str:
    """Status and code. An error of the model has a class of its own; of another the class is ClientError."""
    code = error.response["Error"]["Code"]
    kind = type(error).__name__
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    return f"{status} {code}" if kind == code else f"{status} {code}, a {kind}"
