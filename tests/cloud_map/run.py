"""Asks Cloud Map for each behaviour that the stand-in in crates/testbed/src/cloud_map has, and prints each difference.

Without an option it asks a stand-in, at the AWS_ENDPOINT_URL of the environment, which must be on this machine. With
--aws it asks AWS with your credentials and Region: in namespaces with random names, which it removes at the end, after
an error and after Ctrl-C, too. It needs boto3 as in requirements.txt.

It exits with 0 if everything is as in the stand-in and nothing is left, with 1 if not, with 2 if it was started wrongly,
with 3 without boto3, and with 130 after Ctrl-C.
"""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

try:
    import boto3
    import botocore
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as missing:
    print(f"{missing}: pip install -r {Path(__file__).with_name('requirements.txt')}", file=sys.stderr)
    sys.exit(3)

import cases  # noqa: F401, adds the cases
from assumptions import assumptions, mistakes
from case import CASES, Case, NotAsked, Trial
from scratch import PREFIX, Scratch, TooLate

INTERRUPTED = 130
AS_IN_THE_STAND_IN, DIFFERS, NOT_ASKED = "ok", "DIFFERS", "not asked"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aws", action="store_true", help="ask AWS, with the credentials and the Region of the environment")
    parser.add_argument("--vpc", metavar="ID", help="also ask the cases of DNS, in private namespaces of this VPC, with hosted zones of Route 53")
    parser.add_argument("--case", metavar="NAME", action="append", choices=sorted(CASES), help="ask this case alone; may come again")
    parser.add_argument(
        "--patience", metavar="SECONDS", type=float, default=180.0, help="the longest wait for an operation, or for an answer that may be late"
    )
    parser.add_argument("--list", action="store_true", help="print the cases with their sources, and ask nothing")
    return parser.parse_args()


def introduce(scratch: Scratch, chosen: list[Case]) -> None:
    """Prints all that a reader should know before it happens."""
    print(f"Cloud Map at {scratch.endpoint}, boto3 {boto3.__version__}, botocore {botocore.__version__}")
    print(f"{len(chosen)} cases, in about a dozen HTTP namespaces {PREFIX}* with services and instances, for some minutes. All of it is removed")
    print("at the end. AWS bills instances by the time and discovery by the call: a few cents at most. Nothing else in the account is changed.")
    if scratch.vpc:
        print(f"There are two private DNS namespaces in {scratch.vpc} meanwhile, and a public one of the domain .test, each with a hosted zone of")
        print("Route 53. AWS does not bill a zone that is deleted within twelve hours.")


def ask(case: Case, scratch: Scratch) -> tuple[str, list[str]]:
    """The verdict on one case, and what there is to say of it."""
    if case.needs_vpc and not scratch.vpc:
        return NOT_ASKED, ["it needs --vpc"]
    trial = Trial(scratch)
    try:
        case.run(trial)
    except NotAsked as reason:
        return NOT_ASKED, [str(reason)]
    except (BotoCoreError, ClientError, TooLate, RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:
        trial.differences.append(f"the case ended early\n    answered: {type(error).__name__}: {error}")
    return (DIFFERS if trial.differences else AS_IN_THE_STAND_IN), trial.differences


def ask_all(chosen: list[Case], scratch: Scratch) -> dict[str, str]:
    """The verdict on each case; prints it at once."""
    verdicts = {}
    for case in chosen:
        verdicts[case.name], lines = ask(case, scratch)
        print(f"{verdicts[case.name]:9}  {case.name}", flush=True)
        if verdicts[case.name] == DIFFERS:
            print(f"  {case.sentence}\n  {case.source or 'assumed, without a source'}")
        for line in lines:
            print(f"  {line}", flush=True)
    return verdicts


def print_assumptions(verdicts: dict[str, str]) -> None:
    """The assumptions of the stand-in, and what became of each; of a run with some of the cases only theirs."""
    words = {AS_IN_THE_STAND_IN: "holds", DIFFERS: "DIFFERS"}
    is_whole = len(verdicts) == len(CASES)
    chosen = [mark for mark in assumptions() if is_whole or mark[0] in verdicts]
    if chosen:
        print("\nThe stand-in assumes, without a source:")
    for name, sentence in chosen:
        print(f"{words.get(verdicts.get(name, NOT_ASKED), NOT_ASKED):9}  {name}: {sentence}")


def clean(scratch: Scratch) -> list[str]:
    """Removes everything. A second Ctrl-C does not end it halfway."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(f"\nNamespaces to remove: {len(scratch.names)}", flush=True)
    left = scratch.clean()
    for line in left:
        print(f"LEFT  {line}")
    return left


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    given = arguments()
    chosen = [CASES[name] for name in given.case or CASES]
    wrong = mistakes()
    for line in wrong:
        print(f"DIFFERS   {line}")
    if given.list:
        for case in chosen:
            print(f"{case.name}: {case.sentence}\n  {case.source or 'assumed, without a source'}")
        return int(bool(wrong))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        scratch = Scratch(given.patience, given.vpc)
        if not scratch.is_local and not given.aws:
            print(f"{scratch.endpoint} is no stand-in: export what `cargo run --example sandbox -- --serve` prints, or give --aws", file=sys.stderr)
            return 2
        scratch.cloud_map.list_namespaces(MaxResults=1)
    except (BotoCoreError, ClientError) as error:
        print(error, file=sys.stderr)
        return 2
    introduce(scratch, chosen)
    verdicts: dict[str, str] = {}
    try:
        verdicts = ask_all(chosen, scratch)
    except KeyboardInterrupt:
        print("\ninterrupted")
    finally:
        left = clean(scratch)
    if not verdicts:
        return INTERRUPTED
    print_assumptions(verdicts)
    counts = {word: list(verdicts.values()).count(word) for word in (AS_IN_THE_STAND_IN, DIFFERS, NOT_ASKED)}
    print(f"\n{counts[AS_IN_THE_STAND_IN]} as in the stand-in, {counts[DIFFERS]} differ, {counts[NOT_ASKED]} not asked")
    return int(bool(wrong or left or counts[DIFFERS]))


if __name__ == "__main__":
    sys.exit(main())
