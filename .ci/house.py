"""The figures of the house: how much code there is, in how large pieces, and how far a change reaches.

    .ci/house.py                   the table, and the ripple of the last behaviour commits
    .ci/house.py --commits 100     with so many commits (default: 50)

Needs Python 3 alone, and git for the ripple. Every run first reads a sample with known figures, and fails if it finds
others. A line of code has a token on it that is no comment. Product code is src/ and crates/*/src without tests; tests are what #[cfg(test)] covers, the folders tests/, and
the crate testbed. A commit changes behaviour if it changes product code and CHANGELOG.md; its rooms are their folders.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTBED = "testbed"
PRODUCT = re.compile(rf"^(?P<part>src|crates/(?!{TESTBED}/)[^/]+/src)/.+\.rs$")
# A file outside of these bounds is a fragment, or more than one story.
FRAGMENT, LONG = 60, 350

TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*|/\*)
    | (?P<string>[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*")
    | (?P<char>b?'(?:\\x..|\\u\{[^}]*\}|\\.|[^\\'])')
    | (?P<lifetime>'\w+)
    | (?P<word>(?:r\#)?[A-Za-z_]\w*)
    | (?P<space>\s+)
    | (?P<sign>.)
    """,
    re.S | re.X,
)
BLOCK_EDGE = re.compile(r"/\*|\*/")
DOC = re.compile(r"///(?!/)|//!|/\*\*(?![*/])|/\*!")
OPEN, CLOSE = set("([{"), set(")]}")
TYPES = {"struct", "enum", "trait"}
ITEMS = TYPES | {"pub", "fn", "mod", "impl", "use", "const", "static", "async", "unsafe", "type", "let", "extern"}


@dataclass
class Source:
    """One file: the tokens that are no comments, each with its line, and the kinds of its lines."""

    tokens: list = field(default_factory=list)
    code: set = field(default_factory=set)
    plain: set = field(default_factory=set)
    doc: set = field(default_factory=set)
    # The lines that #[cfg(test)] covers, and the modules that it names whose code is in other files.
    test: set = field(default_factory=set)
    test_modules: list = field(default_factory=list)


def read(text):
    source, at, line = Source(), 0, 1
    while at < len(text):
        found = TOKEN.match(text, at)
        kind, end = found.lastgroup, found.end()
        if kind == "hashes":
            kind = "string"
        if found.group() == "/*":
            end = end_of_block(text, at)
        token = text[at:end]
        lines = range(line, line + token.count("\n") + 1)
        if kind == "comment":
            (source.doc if DOC.match(token) else source.plain).update(lines)
        elif kind != "space":
            source.tokens.append((token, line))
            # Blank lines of a text are blank.
            source.code.update(at for at, part in zip(lines, token.split("\n")) if part.strip())
        at, line = end, lines[-1]
    source.plain -= source.code
    source.doc -= source.code | source.plain
    find_tests(source)
    return source


def end_of_block(text, start):
    """Block comments are nested."""
    depth = 0
    for edge in BLOCK_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def find_tests(source):
    words = [token for token, _ in source.tokens]
    at = 0
    while at < len(words):
        if words[at : at + 7] != ["#", "[", "cfg", "(", "test", ")", "]"]:
            at += 1
            continue
        end = end_of_item(words, at + 7)
        first, last = source.tokens[at][1], source.tokens[end - 1][1]
        source.test.update(range(first, last + 1))
        item = words[at + 7 : end]
        if item[-3:-2] == ["mod"] and item[-1] == ";":
            source.test_modules.append(item[-2])
        at = end


def end_of_item(words, at):
    """The end of an item, a statement, or a field, whose other attributes come first."""
    while words[at] == "#":
        at = matching(words, at + 1)
    is_item, depth = words[at] in ITEMS, 0
    while at < len(words):
        word = words[at]
        if depth == 0 and (word in CLOSE or word == "," and not is_item):
            return at
        depth += (word in OPEN) - (word in CLOSE)
        at += 1
        if depth == 0 and word in "};":
            return at
    return at


def matching(words, at):
    """The place after the bracket that closes the one here."""
    depth = 0
    while at < len(words):
        depth += (words[at] in OPEN) - (words[at] in CLOSE)
        at += 1
        if depth == 0:
            break
    return at


@dataclass
class Figures:
    """The figures of the product code of some files."""

    files: list = field(default_factory=list)
    folders: set = field(default_factory=set)
    functions: list = field(default_factory=list)
    types: Counter = field(default_factory=Counter)
    imports: int = 0
    plain: int = 0
    doc: int = 0
    test_lines: int = 0

    def add(self, source, folder):
        code = source.code - source.test
        self.test_lines += len(source.code & source.test)
        if not code:
            return
        self.files.append(len(code))
        self.folders.add(folder)
        self.plain += len(source.plain - source.test)
        self.doc += len(source.doc - source.test)
        self.add_items([(word, line) for word, line in source.tokens if line not in source.test], code)

    def add_items(self, tokens, code):
        words = [word for word, _ in tokens]
        imports, depth = set(), 0
        for at, (word, line) in enumerate(tokens):
            depth += (word in OPEN) - (word in CLOSE)
            name = words[at + 1] if at + 1 < len(words) else ""
            if word == "use" and name != "<":
                end = words.index(";", at)
                imports.update(range(line, tokens[end][1] + 1))
            elif word == "mod" and words[at + 2 : at + 3] == [";"]:
                imports.add(line)
            elif not name.isidentifier():
                continue
            elif word in TYPES or word == "type" and depth == 0:
                self.types[name] += 1
            elif word == "fn" and (body := body_of(words, at)):
                lines = range(line, tokens[matching(words, body) - 1][1] + 1)
                self.functions.append(len(code.intersection(lines)))
        self.imports += len(imports & code)

    @property
    def lines(self):
        return sum(self.files)

    def row(self):
        written = self.lines + self.plain + self.doc
        types = self.types.total()
        shared = sum(count for count in self.types.values() if count > 1)
        return [
            f"{self.lines:,}", len(self.files), len(self.folders), spread(self.files), spread(self.functions),
            f"{1000 * types / self.lines:.0f}", share(shared, types), share(self.imports, self.lines),
            f"{share(self.plain, written)}, {share(self.doc, written)}", f"{self.test_lines / self.lines:.1f}",
        ]  # fmt: skip


HEADINGS = [
    "", "lines", "files", "folders", "lines of a file", "of a function", "types per 1k", "names shared", "use, mod",
    "comments: //, doc", "test lines a line",
]  # fmt: skip


def body_of(words, at):
    """Where the body of a function begins; None of one that is only declared."""
    depth = 0
    while at < len(words):
        if depth == 0 and words[at] in "{;":
            return at if words[at] == "{" else None
        depth += (words[at] in OPEN) - (words[at] in CLOSE)
        at += 1
    return None


def spread(numbers):
    """Median, the ninth tenth, and maximum."""
    numbers = sorted(numbers)
    return "/".join(f"{numbers[min(len(numbers) * tenth // 10, len(numbers) - 1)]:,}" for tenth in (5, 9, 10))


def share(part, whole):
    return f"{100 * part / whole:.1f} %"


def in_tests(path, test_modules):
    modules = [path.with_suffix(""), *path.parents]
    return path.name == "tests.rs" or "tests" in path.parts or any(module in test_modules for module in modules)


def folder_of_modules(path):
    """Where the modules are that a file names."""
    return path.parent if path.name in ("mod.rs", "lib.rs", "main.rs") else path.with_suffix("")


def house():
    """The figures of each part and of the whole; and the modules that are tests."""
    paths = [path.relative_to(ROOT) for top in ("src", "tests", "crates") for path in (ROOT / top).rglob("*.rs")]
    sources = {path: read((ROOT / path).read_text()) for path in sorted(paths)}
    test_modules = {folder_of_modules(path) / name for path, source in sources.items() for name in source.test_modules}
    parts = {}
    whole = Figures()
    for path, source in sources.items():
        found = PRODUCT.match(str(path))
        if found and not in_tests(path, test_modules):
            figures = [whole, parts.setdefault(found["part"], Figures())]
        else:
            # The folder tests/ of the root is of all parts.
            source.test = source.code
            part = parts.setdefault(found["part"], Figures()) if found else None
            figures = [whole, part] if part else [whole]
        for one in figures:
            one.add(source, path.parent)
    return {name: part for name, part in parts.items() if part.files} | {"the whole": whole}, test_modules


def ripple(test_modules, most):
    """The latest commits that change behaviour, each with its date and the numbers of its product files and rooms."""
    if not (ROOT / ".git").exists():
        return []
    command = ["git", "log", "--no-merges", "--name-status", "--find-renames", "--format=%x00%as"]
    log = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    changes = []
    for commit in log.split("\0")[1:]:
        date, *lines = commit.split("\n")
        rows = [line.split("\t") for line in lines if line]
        # A file that is only moved is not a place of the change.
        paths = [path for status, *_, path in rows if status != "R100"]
        product = [path for path in paths if PRODUCT.match(path) and not in_tests(Path(path), test_modules)]
        if product and "CHANGELOG.md" in paths:
            changes.append((date, len(product), len({Path(path).parent for path in product})))
        if len(changes) == most:
            break
    return changes


def table(rows):
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = (str(cell) for cell in row)
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:]))]
        print("  ".join(cells).rstrip())


SAMPLE = r'''
//! A sample: 1 line of these, and 3 plain ones.

use std::{
    fmt,
};
mod other;

/// A brace in a text, in a character, and in comments.
pub struct Text<'a>(&'a str); // not a line of comments

/* a { /* nested */ comment
   of two lines */
impl<'a> Text<'a> {
    type Item = u8;

    pub fn braces(&self) -> [char; 2] {
        let _ = r#"fn no() { "
            mod no; // no comment "#;

        // The only plain line in code.
        ['{', '\'']
    }
}

trait Declared {
    fn only(&self, call: fn(u8) -> [u8; 2]) -> impl Sized + use<Self>;
}

type Text2 = Text<'static>;

struct Counted {
    #[cfg(test)]
    steps: usize,
    kept: usize,
}

#[cfg(test)]
#[allow(dead_code)]
pub(crate) fn pair<A, B>(a: A, b: B) -> (A, B) {
    (a, b)
}

#[cfg(test)]
mod arbitrary;

#[cfg(test)]
mod tests {
    enum Text {}

    #[test]
    fn a_test() {}
}
'''


def check():
    """Compares the figures of the sample with those that a person has counted."""
    source, figures = read(SAMPLE), Figures()
    figures.add(source, Path("src"))
    found = {
        "lines": figures.lines, "functions": figures.functions, "types": dict(figures.types), "imports": figures.imports,
        "plain": figures.plain, "doc": figures.doc, "tests": figures.test_lines, "test modules": source.test_modules,
    }  # fmt: skip
    counted = {
        "lines": 20, "functions": [5], "types": {"Text": 1, "Declared": 1, "Text2": 1, "Counted": 1}, "imports": 4,
        "plain": 3, "doc": 2, "tests": 15, "test modules": ["arbitrary"],
    }  # fmt: skip
    wrong = [f"{name}: {found[name]} in place of {counted[name]}" for name in counted if found[name] != counted[name]]
    if spread(range(1, 101)) != "51/91/100":
        wrong.append(f"spread: {spread(range(1, 101))}")
    if wrong:
        sys.exit("the figures of the sample are wrong:\n" + "\n".join(wrong))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--commits", type=int, default=50)
    given = arguments.parse_args()
    check()
    parts, test_modules = house()
    table([HEADINGS, *([name, *figures.row()] for name, figures in parts.items())])
    files = parts["the whole"].files
    short, long = sum(lines < FRAGMENT for lines in files), sum(lines > LONG for lines in files)
    print(f"\n{short} of {len(files)} files have less than {FRAGMENT} lines, and {long} more than {LONG}.")
    changes = ripple(test_modules, given.commits)
    if not changes:
        print("The history of git here has no behaviour commit.")
    else:
        print(
            f"The last {len(changes)} behaviour commits, since {changes[-1][0]}, change "
            f"{spread([files for _, files, _ in changes])} files in {spread([rooms for *_, rooms in changes])} rooms."
        )
    print("Three numbers are the median, the ninth tenth and the maximum.")


if __name__ == "__main__":
    main()
