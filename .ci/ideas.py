"""How many ideas a reader of the product has to hold in mind, beside an aim; no figure gates a change.

    target/ci/venv/bin/python .ci/ideas.py            of the present tree
    target/ci/venv/bin/python .ci/ideas.py 5b862fcb   of that commit and of the present tree

Needs tree-sitter (.ci/requirements.txt), and git for a commit. Lines and product code are those of .ci/house.py.

- Words of the glossary: the rows of the tables in src/lib.rs and docs/design.md. A row of the latter that shares a word
  with one of the former is the same idea.
- Types: structs, enums, traits and type aliases of product code. Methods of Observation: functions of its `impl` blocks.
- Files about removals: those with product code that names the change or the stage of REMOVALS. By hand 11 were counted
  at 5b862fcb.
- Ways to read: the functions that READS lists and the tree has. Functions that look alike and are in no list are named
  below the table, so that the list follows the code.
- Tuple lets: those that pack values, `let (a, b) = (x, y)`. In brackets all with a pattern of a tuple.
- Words of docs/: as `wc -w` counts them, and without the bars of tables, as the test of the documentation does.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

import house

# The change that takes an instance out, and when its turn is, under each name that they had.
REMOVALS = {b"Change::Deregister", b"Stage::Deregister"}
# How one gets at the state that a plan rests on. The mirror of Cloud Map, and the claims and endpoints of a cluster.
READS = {
    "Cloud Map": {"at_least", "ensure_read_since"},
    "Kubernetes": {"claims_of", "endpoints_of", "exports", "observe_endpoints"},
}
# Wrappers of the functions above, for a caller with another question.
WRAPPERS = {
    "observe", "observe_again", "observe_all", "observe_cluster", "observe_first", "observe_in_time", "observe_in_two_parts",
    "observe_for", "observe_known", "read_claims", "read_claims_with_endpoints", "read_cluster",
    "observe_former_records", "observe_lack", "observe_part", "observe_records", "observe_whole",
}  # fmt: skip
AIMS = {
    "words of the glossary": 16, "types": 430, "methods of Observation": 40, "files about removals": 4,
    "ways to read Cloud Map": 1, "ways to read Kubernetes": 2, "settings": 20, "parameters of the template": 34,
    "lines of the template": 1_100, "words of docs/": 15_000, "tuple lets a thousand product lines": "under 1",
    "product lines": 23_000,
}  # fmt: skip


def glossary(page):
    """The words of each row of a glossary's table."""
    section = page.partition("Glossary")[2]
    rows = re.findall(r"^(?://! )?\| ([^|]+) \| [^|]+ \|$", section, re.MULTILINE)
    return [set(re.split(r"[,;] ", row)) for row in rows if row != "Word"]


def glossary_words(root):
    of_code = glossary((root / "src/lib.rs").read_text())
    of_pages = glossary((root / "docs/design.md").read_text())
    known = set().union(*of_code)
    return len(of_code) + sum(not words & known for words in of_pages)


def product_nodes(root, sources):
    """Each node of product code that is not a test's, with the path of its file."""
    for path, source in sources.items():
        if not source.code - source.test:
            continue
        for node, _ in house.nodes(house.PARSER.parse((root / path).read_bytes()).root_node):
            if node.start_point.row not in source.test:
                yield path, node


def code_figures(root):
    """The figures of the code of a tree, and the functions that look like a way to read and that nothing lists."""
    house.ROOT = root
    parts, _ = house.read_all()
    sources = {source.path: source for source in parts["the whole"]}
    types = methods = patterns = packed = 0
    removals, functions, asked = set(), set(), set()
    for path, node in product_nodes(root, sources):
        if node.type in house.TYPES and not (node.type == "type_item" and is_associated(node)):
            types += 1
        elif node.type == "impl_item" and type_name(node) == "Observation":
            methods += sum(item.type == "function_item" for item in node.child_by_field_name("body").named_children)
        elif node.type == "let_declaration" and node.child_by_field_name("pattern").type == "tuple_pattern":
            patterns += 1
            value = node.child_by_field_name("value")
            packed += value is not None and value.type == "tuple_expression"
        elif node.type == "function_item":
            name = node.child_by_field_name("name").text.decode()
            functions.add(name)
            is_async = any(child.type == "function_modifiers" and b"async" in child.text for child in node.children)
            if is_async and name.startswith("observe") and path.parts[:2] == ("src", "publish"):
                asked.add(name)
        elif node.type in ("scoped_identifier", "scoped_type_identifier") and node.text in REMOVALS:
            removals.add(path)
    lines = sum(len(source.code - source.test) for source in sources.values())
    tests = {False: 0, True: 0}
    for path, source in sources.items():
        tests[path.parts[:3] == ("crates", "testbed", "src")] += len(source.code & source.test)
    return {
        "types": types,
        "methods of Observation": methods,
        "files about removals": len(removals),
        "ways to read Cloud Map": len(READS["Cloud Map"] & functions),
        "ways to read Kubernetes": len(READS["Kubernetes"] & functions),
        "tuple lets a thousand product lines": f"{1000 * packed / lines:.1f} ({1000 * patterns / lines:.1f})",
        "product lines": lines,
        "lines of tests": tests[False],
        "lines of the test bed": tests[True],
    }, asked - WRAPPERS - set().union(*READS.values())


def is_associated(node):
    """Whether a type alias belongs to a trait or an implementation."""
    return node.parent.type == "declaration_list" and node.parent.parent.type != "mod_item"


def type_name(implementation):
    """The type of an `impl` block without its parameters."""
    return re.split(rb"[<\s]", implementation.child_by_field_name("type").text)[0].decode()


def figures(root):
    """All figures of a tree, in the order of the aims, and the functions in no list."""
    of_code, unlisted = code_figures(root)
    template = (root / "template.yaml").read_text()
    parameters = re.search(r"^Parameters:\n(.*?)^\S", template, re.MULTILINE | re.DOTALL)[1]
    settings = (root / "src/settings/documented.rs").read_text()
    words = [word for page in (root / "docs").rglob("*.md") for word in page.read_text().split()]
    without_bars = sum(any(letter.isalnum() for letter in word) for word in words)
    found = of_code | {
        "words of the glossary": glossary_words(root),
        "settings": len(re.findall(r"^ {8}name: \"", settings, re.MULTILINE)),
        "parameters of the template": len(re.findall(r"^  \w+:$", parameters, re.MULTILINE)),
        "lines of the template": template.count("\n"),
        "words of docs/": f"{len(words):,} ({without_bars:,})",
    }
    return {name: found.pop(name) for name in AIMS} | found, unlisted


def tree_of(commit, folder):
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tree:
        tree.extractall(folder, filter="data")
    return Path(folder)


def print_table(rows):
    text = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*text)]
    for first, *others in text:
        print("  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:]))]))


ROOT = house.ROOT


def main(commit=None):
    columns, notes = [], []
    if commit:
        with tempfile.TemporaryDirectory() as folder:
            before, unlisted = figures(tree_of(commit, folder))
        columns.append((f"at {commit}", before))
        notes += [f"At {commit} in no list of ways to read: {name}" for name in sorted(unlisted)]
    now, unlisted = figures(ROOT)
    columns.append(("now", now))
    notes += [f"In no list of ways to read: {name}" for name in sorted(unlisted)]
    heading = ["", *(name for name, _ in columns), "aim"]
    print_table([heading, *([name, *(column[name] for _, column in columns), AIMS.get(name, "")] for name in now)])
    print("\n".join(notes))


if __name__ == "__main__":
    main(*sys.argv[1:])
