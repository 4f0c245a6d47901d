"""The figures of the house: how much code there is, in how large pieces, and how far a change reaches.

    target/ci/venv/bin/python .ci/house.py       the table, and the ripple of the last 30 behaviour commits
    target/ci/venv/bin/python .ci/house.py 100   of so many

Needs tree-sitter (.ci/requirements.txt), and git for the ripple. A line of code has a token on it that is no comment.
Product code is src/ and crates/*/src without tests; tests are what #[cfg(test)] covers, the folders tests/, and the crate
testbed. A commit changes behaviour if it changes product code and has no trailer `User-visible: no` (commits before that trailer
say in their subject that nothing changes for a user); its rooms are the folders of that code.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import tree_sitter_rust
from tree_sitter import Language, Parser

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = re.compile(r"^(?P<part>src|crates/(?!testbed/)[^/]+/src)/.+\.rs$")
# A file outside of these bounds is a fragment, or more than one story.
FRAGMENT, LONG = 60, 350
DOC = re.compile(rb"///(?!/)|//!|/\*\*(?![*/])|/\*!")
COMMENTS, TYPES = ("line_comment", "block_comment"), ("struct_item", "enum_item", "trait_item", "type_item")
ITEMS = {*TYPES, "function_item", "use_declaration", "mod_item"}
PARSER = Parser(Language(tree_sitter_rust.language()))


def nodes(node, is_inner=False):
    """A node and all in it but parts of comments, each with whether it is in the brackets of another item."""
    yield node, is_inner
    for child in node.children if node.type not in COMMENTS else []:
        yield from nodes(child, is_inner or node.type in ("declaration_list", "block"))


def rows_of(node):
    return set(range(node.start_point.row, node.end_point.row + 1))


def written_rows(node):
    """The rows of a node that are not blank."""
    return {node.start_point.row + at for at, line in enumerate(node.text.split(b"\n")) if line.strip()}


class Source:
    """One file: the kinds of its lines, and the nodes of its items."""

    def __init__(self, path):
        self.path, self.folder = path, path.parent
        self.code, self.plain, self.doc, self.test, self.test_modules, self.items = set(), set(), set(), set(), [], []
        for node, is_inner in nodes(PARSER.parse((ROOT / path).read_bytes()).root_node):
            if node.type in COMMENTS:
                (self.doc if DOC.match(node.text) else self.plain).update(written_rows(node))
            elif not node.children:
                self.code |= written_rows(node)
            elif node.text == b"#[cfg(test)]":
                self.add_test(node)
            elif node.type in ITEMS and not (node.type == "type_item" and is_inner):
                self.items.append(node)
        self.plain -= self.code
        self.doc -= self.code | self.plain

    def add_test(self, attribute):
        item = attribute.next_sibling
        while item.type in ("attribute_item", *COMMENTS):
            item = item.next_sibling
        self.test.update(range(attribute.start_point.row, item.end_point.row + 1))
        if item.type == "mod_item" and not item.child_by_field_name("body"):
            self.test_modules.append(item.child_by_field_name("name").text.decode())


HEADINGS = [
    "", "lines", "files", "folders", "lines of a file", "of a function", "types per 1k", "names shared", "use, mod",
    "comments: //, doc", "test lines a line",
]  # fmt: skip


def lines_of(sources):
    """The lines of product code of each of the files that have some."""
    return [count for it in sources if (count := len(it.code - it.test))]


def figures(sources):
    """The figures of the product code of some files."""
    files, functions, types, imports, plain, doc, tests = lines_of(sources), [], Counter(), 0, 0, 0, 0
    for it in sources:
        code = it.code - it.test
        tests += len(it.code & it.test)
        plain, doc = plain + len(it.plain - it.test) * bool(code), doc + len(it.doc - it.test) * bool(code)
        imported = set()
        for item in (item for item in it.items if item.start_point.row not in it.test):
            if item.type == "function_item":
                functions.append(len(rows_of(item) & code))
            elif item.type in TYPES:
                types[item.child_by_field_name("name").text] += 1
            elif item.type == "use_declaration" or not item.child_by_field_name("body"):
                imported |= rows_of(item) & code
        imports += len(imported)
    lines, shared = sum(files), sum(count for count in types.values() if count > 1)
    written = lines + plain + doc
    return [
        f"{lines:,}", len(files), len({it.folder for it in sources if it.code - it.test}), spread(files), spread(functions),
        f"{1000 * types.total() / lines:.0f}", share(shared, types.total()), share(imports, lines),
        f"{share(plain, written)}, {share(doc, written)}", f"{tests / lines:.1f}",
    ]  # fmt: skip


def spread(numbers):
    """Median, the ninth tenth, and maximum."""
    numbers = sorted(numbers)
    return "/".join(f"{numbers[min(len(numbers) * tenth // 10, len(numbers) - 1)]:,}" for tenth in (5, 9, 10))


def share(part, whole):
    return f"{100 * part / whole:.1f} %"


def in_tests(path, test_modules):
    modules = [path.with_suffix(""), *path.parents]
    return path.name == "tests.rs" or "tests" in path.parts or any(module in test_modules for module in modules)


def read_all():
    """The files of each part and of the whole, and the modules that are tests."""
    paths = sorted(path.relative_to(ROOT) for top in ("src", "tests", "crates") for path in (ROOT / top).rglob("*.rs"))
    sources = {path: Source(path) for path in paths}
    # Where the modules are that a file names.
    folders = {path: path.parent if path.name in ("mod.rs", "lib.rs", "main.rs") else path.with_suffix("") for path in paths}
    test_modules = {folders[path] / name for path, source in sources.items() for name in source.test_modules}
    parts = {}
    for path, source in sources.items():
        found = PRODUCT.match(str(path))
        if not found or in_tests(path, test_modules):
            source.test = source.code
        if found:
            parts.setdefault(found["part"], []).append(source)
    return {name: part for name, part in parts.items() if lines_of(part)} | {"the whole": [*sources.values()]}, test_modules


def ripple(test_modules):
    """The commits that change behaviour, each with its date and the numbers of its product files and rooms."""
    trailer = "%(trailers:key=User-visible,valueonly,separator=%x20)"
    command = ["git", "log", "--no-merges", "--name-status", "--find-renames", f"--format=%x00%as {trailer} %s"]
    log = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for commit in log.split("\0")[1:]:
        subject, *lines = commit.split("\n")
        # A file that is only moved is not a place of the change.
        paths = [line.split("\t")[-1] for line in lines if line and not line.startswith("R100")]
        product = [path for path in paths if PRODUCT.match(path) and not in_tests(Path(path), test_modules)]
        date, visible, title = subject.split(" ", 2)
        if product and visible != "no" and "nothing changes for a user" not in title:
            yield date, len(product), len({Path(path).parent for path in product})


def main(most="30"):
    parts, test_modules = read_all()
    rows = [HEADINGS, *([name, *figures(sources)] for name, sources in parts.items())]
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows)]
    for first, *others in rows:
        print("  ".join([first.ljust(widths[0]), *(str(cell).rjust(width) for cell, width in zip(others, widths[1:]))]).rstrip())
    files = lines_of(parts["the whole"])
    short, long = sum(lines < FRAGMENT for lines in files), sum(lines > LONG for lines in files)
    print(f"\n{short} of {len(files)} files have less than {FRAGMENT} lines, and {long} more than {LONG}.")
    if changes := [*ripple(test_modules)][: int(most)]:
        dates, product, rooms = zip(*changes)
        print(f"The last {len(changes)} behaviour commits, since {dates[-1]}, change {spread(product)} files in {spread(rooms)} rooms.")
    print("Three numbers are the median, the ninth tenth and the maximum.")


if __name__ == "__main__":
    main(*sys.argv[1:])
