"""Plays the long forms of the tests that look for lost endpoints, and makes RELIABILITY.md of what they printed.

    .ci/reliability.py --list                     the parts
    .ci/reliability.py faults worlds ...          plays these parts, and keeps their figures
    .ci/reliability.py all                        plays all parts: a night on two cores
    .ci/reliability.py --short faults ...         plays them as `cargo test` does, and keeps nothing
    .ci/reliability.py mutants                    reads what .ci/mutants.py has written

Without arguments it checks that the page is made of the kept figures, and that each break has its test. The figures are
kept in tests/reliability/played.json, the breaks in tests/reliability/found.json. A part that fails keeps nothing: its
break comes first.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "reliability"
PLAYED, FOUND, PAGE = FOLDER / "played.json", FOLDER / "found.json", ROOT / "RELIABILITY.md"
# The binary of the function of an older release, which a person puts there.
OLD_RELEASE = Path("target/old-release")
# Optimised they are many times faster.
SCENARIOS = ["--profile", "bench", "--test", "scenarios"]
LIBRARY = ["--profile", "bench", "--lib"]
# The tests of the plan that play random worlds, and no others: each plays as many as the command says.
WORLDS = ["plan::tests::convergence", "plan::tests::clusters", "plan::tests::guard::convergence", "plan::tests::promises"]
PRINTED = re.compile(r"^(?:test .*?\.\.\. )?(?P<name>[^\n:]+): (?P<count>\d+) (?P<unit>cases|orders|inputs|weeks)(?P<rest>.*)$", re.M)


class Part:
    """One kind of test: cargo's arguments, the variables of its long form, and what holds in each of its cases."""

    def __init__(self, heading, arguments, variables, unit, holds, where):
        self.heading, self.arguments, self.variables = heading, arguments, variables
        self.unit, self.holds, self.where = unit, holds, where

    def command(self, variables):
        words = [f"{key}={value}" for key, value in variables.items()]
        return " ".join([*words, "cargo", "test", *self.arguments])


PARTS = {
    "faults": Part(
        "Single faults", [*SCENARIOS, "faults::"], {"SINGLE_FAULTS": "all"}, "cases",
        "nothing foreign touched, no ready endpoint lost, no name empty, at each call; a run that reports no problem has "
        "none; no secret in a log or answer; at most twice the calls and 20 more; at most two runs to the wanted state, and "
        "the next writes nothing", "tests/scenarios/faults",
    ),
    "releases": Part(
        "Two releases, call by call", ["--workspace", "--test", "end_to_end", "two_releases"], {"OLD_RELEASE": str(OLD_RELEASE)}, "orders",
        "nothing foreign touched, no ready endpoint lost; one full sync of the newer release to the wanted state, and the "
        "older one takes nothing away after it", "crates/testbed/tests/end_to_end/two_releases.rs",
    ),
    "plans": Part(
        "Random worlds of the plan", [*LIBRARY, "--", *WORLDS], {"PROPTEST_CASES": "3000"}, "worlds",
        "plan and apply come to rest, one owner takes nothing from another, no name empties, the guard holds",
        "src/publish/plan/tests, src/import/plan/tests",
    ),
    "worlds": Part(
        "Random worlds of both flows", [*SCENARIOS, "worlds::play_"], {"WORLDS": "5000"}, "worlds",
        "everything that can change, by one table of moves, with invocations that overlap call by call: nothing foreign is touched, no ready endpoint lost, no name or "
        "import empty, but one of which a pod goes and comes back for a moment (docs/guarantees.md); two full syncs lead to the "
        "state that an oracle without the function's code wants, one for exports and imports, and the next writes nothing", "tests/scenarios/worlds",
    ),
    "weeks": Part(
        "Weeks in virtual time", [*SCENARIOS, "worlds::weeks_"], {"WEEKS": "1000"}, "weeks",
        "the same worlds with hours between the moves, a full sync every half an hour, expiring tokens and credentials, and "
        "outages; seven times all comes to rest", "tests/scenarios/worlds",
    ),
    "hostile": Part(
        "Hostile input", [*LIBRARY, "hostile::"], {"HOSTILE_INPUTS": "10000000"}, "inputs",
        "no panic, no answer that outgrows its input, refusals in one line, nothing accepted that Cloud Map refuses",
        "src/hostile",
    ),
    "rights": Part(
        "Rights that are denied", [*SCENARIOS, "rights::"], {}, "tests",
        "one line names the right, nothing is lost, one run with the right back does the rest", "tests/scenarios/rights",
    ),
}  # fmt: skip


def play(name, is_short):
    """Runs a part. Returns its figures, or None if a test failed."""
    part = PARTS[name]
    if name == "releases" and not is_short and not (ROOT / OLD_RELEASE).exists():
        print(f"{name}: {OLD_RELEASE} has to be the binary of the function of an older release")
        return None
    variables = {} if is_short else part.variables
    print(f"{name}: {part.command(variables)}", flush=True)
    separator = [] if "--" in part.arguments else ["--"]
    command = ["cargo", "test", *part.arguments, *separator, "--show-output"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stdout[-20_000:])
        return None
    # Without the time of the build.
    seconds = sum(float(time) for time in re.findall(r"finished in ([\d.]+)s$", done.stdout, re.M))
    return {**figures(part, variables, done.stdout), "seconds": round(seconds), "command": part.command(variables)}


def figures(part, variables, output):
    """The number of cases, and how many needed so many runs afterwards."""
    tests = sum(int(count) for count in re.findall(r"^test result: ok\. (\d+) passed", output, re.M))
    if not tests:
        sys.exit(f"no test ran: {part.heading}")
    lines = [line for line in PRINTED.finditer(output) if line["unit"] == part.unit]
    runs = [json.loads(found[1]) for line in lines if (found := re.search(r"afterwards: (\[[\d, ]+\])", line["rest"]))]
    if part.unit == "tests":
        count = tests
    elif part.unit == "worlds":
        count = int(variables.get("WORLDS", 0)) or tests * int(variables.get("PROPTEST_CASES", 0))
    else:
        count = sum(int(line["count"]) for line in lines)
    if not count and variables:
        sys.exit(f"{part.heading}: the tests printed no number of {part.unit}")
    return {"count": count, "runs": [sum(column) for column in zip(*runs, strict=True)]}


def mutants():
    """The outcomes of .ci/mutants.py, by source file, with the mutants that no test noticed."""
    outcomes = json.loads((ROOT / "target" / "mutants" / "outcomes.json").read_text())["outcomes"]
    files = {}
    for outcome in outcomes:
        mutant = outcome["scenario"]["Mutant"]
        of_file = files.setdefault(mutant["file"], {"caught": 0, "unviable": 0, "missed": []})
        match outcome["summary"]:
            case "CaughtMutant" | "Timeout":
                of_file["caught"] += 1
            case "Unviable":
                of_file["unviable"] += 1
            case _:
                of_file["missed"].append(re.sub(r"^[^:]+:\d+:\d+: ", "", mutant["name"]))
    return files


def page(played, found):
    """The whole of RELIABILITY.md."""
    return INTRODUCTION + played_table(played) + runs_table(played) + found_table(found) + rules_table() + mutants_table(played) + OTHERS


def played_table(played):
    rows = []
    for name, part in PARTS.items():
        if name in played:
            it = played[name]
            rows.append(f"| [{part.heading}]({part.where.split(',')[0]}) | {it['count']:,} {part.unit} | {minutes(it['seconds'])} | {part.holds} |")
    heading = "| Tests | Played | Time, two cores | What holds in each |\n|---|---|---|---|\n"
    missing = [f"| [{part.heading}]({part.where.split(',')[0]}) | {part.holds} |" for name, part in PARTS.items() if name not in played]
    lacking = "| No figure of the whole is kept yet | What holds in each |\n|---|---|\n" + "\n".join(missing) + "\n\n" if missing else ""
    if not rows:
        return lacking
    commands = "\n".join(f"{it['command']}" for name, it in played.items() if name in PARTS)
    return heading + "\n".join(rows) + f"\n\n{lacking}Each row is one command:\n\n```sh\n{commands}\n```\n\n"


def minutes(seconds):
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


def runs_table(played):
    runs = played.get("faults", {}).get("runs")
    if not runs:
        return ""
    rows = "".join(f"| {needed} | {count:,} |\n" for needed, count in enumerate(runs))
    return (
        "## Runs to the wanted state\n\nAfter a single fault, runs without faults that were needed. None: the disturbed run, "
        f"with its retries, did all of it.\n\n| Runs | Cases |\n|---|---|\n{rows}\n"
    )


def found_table(found):
    rows = "".join(f"| {it['break']} | {it['by']} | `{it['test']}` |\n" for it in found)
    return (
        "## Breaks that were found and mended\n\nEach is a test now. Random worlds that broke a property are kept by their "
        "seeds, too (`FOUND` in `src/publish/plan/tests/seeds.rs`).\n\n"
        f"| What was wrong | Found by | Test |\n|---|---|---|\n{rows}\n"
    )


def rules_table():
    rows = "".join(f"| {it['rule']} | {it['worlds']} | {it['broken']} |\n" for it in RULES)
    return (
        "## Worlds until a broken rule is found\n\nOne line of a rule at a time was changed as said, and random worlds were "
        "played from the first seed on: `FLOWS=annotated WORLDS=5000 CUTS=0 cargo test --test scenarios worlds::play_`, with "
        "`FLOWS=exported` for services across clusters.\n\n"
        f"| Rule | Worlds until it was found | What was changed |\n|---|---|---|\n{rows}\n"
    )


def mutants_table(played):
    files = played.get("mutants")
    if not files:
        return ""
    folders = {}
    for file, it in files.items():
        sums = folders.setdefault(file if file.count("/") < 3 else file.rsplit("/", 1)[0], [0, 0, 0])
        for place, count in enumerate((it["caught"], len(it["missed"]), it["unviable"])):
            sums[place] += count
    rows = [f"| `{folder}` | {' | '.join(f'{count:,}' for count in sums)} |\n" for folder, sums in sorted(folders.items())]
    sums = [f"{sum(column):,}" for column in zip(*folders.values(), strict=True)]
    rows.append(f"| all | {' | '.join(sums)} |\n")
    survivors = ""
    for file, it in sorted(files.items()):
        for name in it["missed"]:
            why = EXPLAINED.get(f"{file}: {name}", "not explained yet")
            survivors += f"| `{file}` | {name.replace('|', chr(92) + '|')} | {why} |\n"
    table = f"\n| File | Survivor | Why |\n|---|---|---|\n{survivors}" if survivors else ""
    return (
        "## Mutants\n\ncargo-mutants lists changes of one expression at a time in the rules: the plans of both flows, the "
        "guard, ownership, the classes of errors. `.ci/mutants.py` tries which of them the tests of the library notice. "
        "Scenarios and end-to-end tests are not run for them. Not viable: it does not compile.\n\n"
        f"| Sources | Noticed | Survived | Not viable |\n|---|---|---|---|\n{''.join(rows)}{table}\n"
    )


# The rules that were broken by hand.
RULES = json.loads((FOLDER / "rules.json").read_text())
# By file and the mutant's name: why no test notices it.
EXPLAINED = json.loads((FOLDER / "survivors.json").read_text()) if (FOLDER / "survivors.json").exists() else {}

INTRODUCTION = """# Reliability

The promise: after inputs and faults stop, one full sync reaches the desired state and the next one writes nothing, and at no moment is anything touched that is not ours. [Guarantees and limits](docs/guarantees.md) says it in full. This page has what was tried against it. `.ci/reliability.py` makes the page of the output of its tests; `cargo test` plays a short form of each.

The tests run the function's own handler, with its real clients, against stand-ins of Cloud Map, EKS, STS, SQS and of the API server of each cluster, which look at every call. End-to-end tests run it against real API servers.

"""

OTHERS = """## Beside others

| Work | What it does | What it reports |
|---|---|---|
| [Sieve](https://www.usenix.org/conference/osdi22/presentation/sun) (OSDI 2022) | disturbs the view that a controller has of its cluster: stale, unobserved and intermediate states | 46 bugs in 10 controllers |
| [Acto](https://dl.acm.org/doi/10.1145/3600006.3613161) (SOSP 2023) | drives an operator through states, and checks where each ends | 56 bugs in 11 operators |
| [Anvil](https://www.usenix.org/conference/osdi24/presentation/sun-xudong) (OSDI 2024) | proves that a controller reaches the desired state if that stops changing, and stays there | 3 controllers, verified |
| this page | each call of a situation fails in each way, orders of calls, random worlds, damaged input; nothing is proved | the tables above |

Their figures are of other programs and say nothing about this one. Sieve's stale and intermediate states are here the lagging lists and the kills before and after each write; Acto's end states are the wanted states of each case; Anvil's sentence is the promise, which is tested here and not proved.
"""


def is_in_sources(test):
    """Whether a test of this name, a path of modules and a function, is in the sources."""
    function = test.rsplit("::", 1)[-1]
    words = re.compile(rf"\bfn {re.escape(function)}\(|^\s*{re.escape(function)};$", re.M)
    files = [*(ROOT / "src").rglob("*.rs"), *(ROOT / "tests").rglob("*.rs")]
    return any(words.search(file.read_text()) for file in files)


def check(text, found):
    problems = [f"no test {it['test']}" for it in found if not is_in_sources(it["test"])]
    if not PAGE.exists() or PAGE.read_text() != text:
        problems.append(f"{PAGE.name} is not what the kept figures make; run .ci/reliability.py --write")
    if problems:
        sys.exit("\n".join(problems))


def main(arguments):
    played, found = json.loads(PLAYED.read_text()), json.loads(FOUND.read_text())
    if "--list" in arguments:
        for name, part in PARTS.items():
            print(f"{name:14} {part.command(part.variables)}")
        return
    is_short = "--short" in arguments
    names = [name for name in arguments if not name.startswith("--")]
    if unknown := [name for name in names if name not in {*PARTS, "all", "mutants"}]:
        sys.exit(f"unknown: {', '.join(unknown)}; the parts are {', '.join([*PARTS, 'mutants', 'all'])}")
    failed = []
    for name in PARTS if "all" in names else names:
        result = mutants() if name == "mutants" else play(name, is_short)
        if result is None:
            failed.append(name)
        elif not is_short:
            played[name] = result
            ordered = {key: played[key] for key in [*PARTS, "mutants"] if key in played}
            PLAYED.write_text(json.dumps(ordered, indent=1) + "\n")
    if (names and not is_short) or "--write" in arguments:
        ordered = {key: played[key] for key in [*PARTS, "mutants"] if key in played}
        PAGE.write_text(page(ordered, found))
    elif not names:
        check(page(played, found), found)
    if failed:
        sys.exit(f"failed, and kept nothing: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
