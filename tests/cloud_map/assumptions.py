"""The assumptions of the stand-in: comments in its source that begin with `Assumed (name of a case):`.

The case is the question that settles the assumption. `no case` is for one that this suite cannot ask, and the comment
has the reason.
"""

import re
from pathlib import Path

from case import CASES

STAND_IN = Path(__file__).resolve().parents[2] / "crates" / "testbed" / "src" / "cloud_map"
MARK = re.compile(r"Assumed \(([a-z_0-9 ]+)\): (.*)")
COMMENT = re.compile(r"\s*//[/!]? ?(.*)")
NO_CASE = "no case"


def assumptions() -> list[tuple[str, str]]:
    """The name of the case and the sentence of each mark, in the order of the files."""
    return [mark for path in sorted(STAND_IN.rglob("*.rs")) for mark in marks_of(path.read_text(encoding="utf-8"))]


def marks_of(source: str) -> list[tuple[str, str]]:
    """The marks of one file. A sentence goes on in the comment until a full stop ends a line."""
    found: list[tuple[str, str]] = []
    is_open = False
    for line in source.splitlines():
        comment = COMMENT.fullmatch(line)
        text = comment.group(1) if comment else ""
        if mark := MARK.search(text):
            found.append((mark.group(1), mark.group(2)))
            is_open = not text.endswith(".")
        elif comment and is_open:
            found[-1] = (found[-1][0], f"{found[-1][1]} {text}")
            is_open = not text.endswith(".")
        else:
            is_open = False
    return found


def mistakes() -> list[str]:
    """Marks of cases that are not there or have a source, and assumed cases that no mark names."""
    marked = {name for name, _ in assumptions()}
    assumed = {name for name, case in CASES.items() if case.is_assumed}
    unknown = [f"the stand-in names {name}, which is no case that is assumed" for name in sorted(marked - assumed - {NO_CASE})]
    return unknown + [f"{name} is assumed, and no mark of the stand-in names it" for name in sorted(assumed - marked)]
