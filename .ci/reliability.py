"""Plays the long forms of the tests that look for lost endpoints, and makes the tables of RELIABILITY.md of what they printed.

    .ci/reliability.py --list                     the parts, of tests/reliability/parts.json, with their commands
    .ci/reliability.py faults worlds ...          plays these parts, and keeps their figures
    .ci/reliability.py all                        plays all parts: a night on two cores

Without arguments it checks that the tables have the figures kept in tests/reliability, and that each test of the page
exists. A part that fails keeps nothing: its break comes first.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER, PAGE = ROOT / "tests" / "reliability", ROOT / "RELIABILITY.md"
PARTS, PLAYED = (json.loads((FOLDER / f"{name}.json").read_text()) for name in ("parts", "played"))
PRINTED = re.compile(r"^(?:test .*?\.\.\. )?[^\n:]+: (?P<count>\d+) (?P<unit>cases|orders|inputs|weeks)(?P<rest>.*)$", re.M)


def command(part):
    words = [f"{key}={value}" for key, value in part["variables"].items()]
    return " ".join([*words, "cargo", "test", part["arguments"]])


def play(name):
    """Runs a part. Returns its figures, or None if a test failed."""
    part = PARTS[name]
    print(f"{name}: {command(part)}", flush=True)
    words = part["arguments"].split()
    show = ["--show-output"] if "--" in words else ["--", "--show-output"]
    done = subprocess.run(
        ["cargo", "test", *words, *show], cwd=ROOT, env={**os.environ, **part["variables"]}, stdout=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        print(done.stdout[-20_000:])
        return None
    tests = sum(int(count) for count in re.findall(r"^test result: ok\. (\d+) passed", done.stdout, re.M))
    lines = [line for line in PRINTED.finditer(done.stdout) if line["unit"] == part["unit"]]
    runs = [json.loads(found[1]) for line in lines if (found := re.search(r"afterwards: (\[[\d, ]+\])", line["rest"]))]
    count = sum(int(line["count"]) for line in lines)
    if part["unit"] == "tests":
        count = tests
    elif part["unit"] == "worlds":
        count = int(part["variables"].get("WORLDS", 0)) or tests * int(part["variables"]["PROPTEST_CASES"])
    if not count:
        sys.exit(f"{name}: no test ran, or none printed its number of {part['unit']}")
    # Without the time of the build.
    seconds = sum(float(time) for time in re.findall(r"finished in ([\d.]+)s$", done.stdout, re.M))
    runs = [sum(column) for column in zip(*runs, strict=True)]
    return {"count": count, "runs": runs, "seconds": round(seconds), "command": command(part)}


def table(*rows):
    head, *others = [f"| {' | '.join(str(cell) for cell in row)} |\n" for row in rows]
    return "".join([head, "|" + "---|" * len(rows[0]) + "\n", *others])


def played_table():
    rows, commands = [("Tests", "Played", "Time, two cores", "What holds in each")], ""
    for name, part in PARTS.items():
        it, played, time = PLAYED.get(name), "a short form", "-"
        if it:
            played = f"{it['count']:,} {part['unit']}"
            time = f"{it['seconds']} s" if it["seconds"] < 120 else f"{round(it['seconds'] / 60)} min"
        rows.append((f"[{part['heading']}]({part['where'].split(',')[0]})", played, time, part["holds"]))
        commands += (it["command"] if it else command(part)) + "\n"
    return f"{table(*rows)}\nEach row is one command:\n\n```sh\n{commands}```\n"


def page():
    """The page with each table between its marks. It need not have them."""
    text, runs = PAGE.read_text(), enumerate(PLAYED["faults"]["runs"])
    runs = table(("Runs", "Cases"), *((needed, f"{count:,}") for needed, count in runs))
    for mark, made in {"played": played_table(), "runs": runs}.items():
        text = re.sub(f"(?<=<!-- {mark} -->\n).*?(?=<!-- end -->\n)", lambda _: made, text, flags=re.S)
    return text


def check():
    sources = "\n".join(path.read_text() for top in ("src", "tests") for path in (ROOT / top).rglob("*.rs"))
    tests = {test.rsplit("::", 1)[-1] for test in re.findall(r"\| `([\w:]+)` \|$", PAGE.read_text(), re.M)}
    problems = [f"no test {test}" for test in tests if not re.search(rf"\bfn {test}\(|^\s*{test};$", sources, re.M)]
    if PAGE.read_text() != page():
        problems.append(f"{PAGE.name} has other figures than those that are kept; run .ci/reliability.py --write")
    if problems:
        sys.exit("\n".join(problems))


def main(arguments):
    if "--list" in arguments:
        print("\n".join(f"{name:14} {command(part)}" for name, part in PARTS.items()))
        return
    names = [*PARTS] if "all" in arguments else [name for name in arguments if not name.startswith("--")]
    if unknown := {*names} - {*PARTS}:
        sys.exit(f"unknown: {', '.join(unknown)}; the parts are {', '.join([*PARTS, 'all'])}")
    failed = []
    for name in names:
        if result := play(name):
            PLAYED[name] = result
            (FOLDER / "played.json").write_text(json.dumps(PLAYED, indent=1) + "\n")
        else:
            failed.append(name)
    if arguments:
        PAGE.write_text(page())
    else:
        check()
    if failed:
        sys.exit(f"failed, and kept nothing: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
