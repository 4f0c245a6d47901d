"""The tables that scripts make in the pages of the documentation, each between two marks."""

import sys


def is_up_to_date(page, marks, table, script):
    """Whether the page has this table. With --write the script writes it first."""
    begin, end = marks
    before, rest = page.read_text().split(begin)
    found, after = rest.split(end, 1)
    if "--write" in sys.argv:
        page.write_text(before + begin + table + end + after)
    elif found != table:
        print(f"{page.name}: a table is out of date; run .ci/{script} --write", file=sys.stderr)
        return False
    return True
