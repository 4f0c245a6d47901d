"""Tries which changes of the rules the tests of the library notice: mutation testing, with one build for all changes.

    cargo install cargo-mutants --version 27.1.0 --locked
    pip install tree-sitter==0.26.1 tree-sitter-rust==0.24.2
    .ci/mutants.py                     tries all that was not tried, and writes target/mutants/outcomes.json
    .ci/mutants.py --survivors         and again those that no test noticed: for new tests
    .ci/mutants.py --again             all of them
    .ci/reliability.py mutants         puts the outcomes into RELIABILITY.md

cargo-mutants lists the changes. It would build the tests once for each, which takes a minute here: a day in all. So all
changes are built at once, each behind its number (`if mutant::is(7) { ... } else { ... }`), in a copy of the sources. A
change that does not compile is left out, as cargo-mutants does.

Each test runs once by itself, and writes down the numbers that it asks for. Then a change is tried with the tests that
reach it, first with the quick ones. One that no test reaches survives without a run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tree_sitter_rust
from tree_sitter import Language, Parser

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "mutants"
# The sources as they were at the beginning, and with the changes.
PLAIN, COPY, OUTCOMES = WORK / "plain", WORK / "sources", WORK / "outcomes.json"
# The rules: who owns an instance, what is wanted, what the guard holds back, and what follows from an error.
RULES = [
    "src/publish/plan/**/*.rs", "src/import/plan/**/*.rs", "src/guard/**/*.rs", "src/model/owner.rs", "src/error.rs",
    "src/cloud_map/error.rs",
]  # fmt: skip
PARSER = Parser(Language(tree_sitter_rust.language()))
# A test that takes longer than this, in seconds, is not among the quick ones.
QUICK = 0.05
# A run that takes so many times as long as without a change does not end.
PATIENCE = 10

MODULE = """
#[doc(hidden)]
#[allow(missing_docs, dead_code, clippy::all)]
pub mod mutant {
    use std::sync::{Mutex, OnceLock};

    pub fn is(number: u32) -> bool {
        static NUMBER: OnceLock<u32> = OnceLock::new();
        write_down(number);
        *NUMBER.get_or_init(|| std::env::var("MUTANT").ok().and_then(|it| it.parse().ok()).unwrap_or(u32::MAX)) == number
    }

    fn write_down(number: u32) {
        use std::{collections::BTreeSet, fs::File, io::Write};
        static REACHED: OnceLock<Option<Mutex<(BTreeSet<u32>, File)>>> = OnceLock::new();
        let open = || std::env::var_os("REACHED").map(|it| Mutex::new((BTreeSet::new(), File::create(it).unwrap())));
        if let Some(reached) = REACHED.get_or_init(open) {
            let (numbers, file) = &mut *reached.lock().unwrap();
            if numbers.insert(number) {
                writeln!(file, "{number}").unwrap();
            }
        }
    }

    pub fn like<A: Iterator, B: Iterator<Item = A::Item>>(_: &A, other: B) -> B { other }

    pub enum Either<A, B> { Left(A), Right(B) }

    impl<B: Iterator, A: Iterator<Item = B::Item>> Iterator for Either<A, B> {
        type Item = B::Item;
        fn next(&mut self) -> Option<B::Item> {
            match self { Self::Left(it) => it.next(), Self::Right(it) => it.next() }
        }
    }
}
"""


def listed():
    """All changes that cargo-mutants would make, each with its number."""
    files = [word for pattern in RULES for word in ("--file", pattern)]
    command = ["cargo", "mutants", "--list", "--json", *files]
    mutants = json.loads(subprocess.run(command, cwd=PLAIN, stdout=subprocess.PIPE, check=True).stdout)
    return dict(enumerate(mutants))


class Source:
    """A file of the sources, into which the changes are written."""

    def __init__(self, file, mutants):
        self.text = (PLAIN / file).read_bytes()
        self.tree = PARSER.parse(self.text)
        starts = [0]
        for line in self.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self.at = {}
        for number, mutant in mutants.items():
            start, end = (starts[it["line"] - 1] + it["column"] - 1 for it in (mutant["span"]["start"], mutant["span"]["end"]))
            self.at.setdefault((start, end), []).append((number, mutant))
        self.placed = set()

    def take(self, genre, start, end):
        """The changes of a kind at a place."""
        found = [it for it in self.at.get((start, end), []) if it[1]["genre"] == genre]
        self.placed.update(number for number, _ in found)
        return found

    def render(self, node):
        """The text of a node with all changes in it."""
        match node.type:
            case "binary_expression" | "compound_assignment_expr":
                return self.operator(node, "BinaryOperator", node.child_by_field_name("operator"))
            case "unary_expression":
                return self.operator(node, "UnaryOperator", node.children[0])
            case "match_arm":
                return self.arm(node)
            case "function_item":
                return self.function(node)
            case "struct_expression":
                return self.structure(node)
        return self.plain(node)

    def plain(self, node, replaced=()):
        """The text of a node, with other texts for some of its children, by their ids."""
        replaced = dict(replaced)
        if not node.children:
            return self.raw(node)
        text, at = "", node.start_byte
        for child in node.children:
            text += self.text[at : child.start_byte].decode()
            text += replaced[child.id] if child.id in replaced else self.render(child)
            at = child.end_byte
        return text + self.text[at : node.end_byte].decode()

    def raw(self, node):
        return self.text[node.start_byte : node.end_byte].decode()

    def operator(self, node, genre, operator):
        """Another operator, or none."""
        found = self.take(genre, operator.start_byte, operator.end_byte)
        same = self.plain(node)
        variants = [(number, self.plain(node, {operator.id: it["replacement"]})) for number, it in found]
        return switch(variants, same) if found else same

    def arm(self, node):
        """An arm is taken away by a guard that is false."""
        pattern = node.child_by_field_name("pattern")
        guard = pattern.child_by_field_name("condition")
        away = self.take("MatchArm", node.start_byte, node.end_byte)
        away += self.take("MatchArm", node.start_byte, node.end_byte - 1)
        conditions = self.take("MatchArmGuard", guard.start_byte, guard.end_byte) if guard else []
        if not away and not conditions:
            return self.plain(node)
        condition = self.render(guard) if guard else "true"
        variants = [(number, it["replacement"]) for number, it in conditions] + [(number, "false") for number, _ in away]
        condition = switch(variants, condition)
        if guard:
            return self.plain(node, {pattern.id: self.plain(pattern, {guard.id: condition})})
        return self.plain(node, {pattern.id: f"{self.plain(pattern)} if {condition}"})

    def structure(self, node):
        """A field is left to the structure of which the rest is taken."""
        fields = node.child_by_field_name("body")
        same, variants = self.plain(node), []
        for field in fields.named_children:
            comma = field.next_sibling
            for number, _ in self.take("StructField", field.start_byte, comma.end_byte):
                without = self.plain(fields, {field.id: "", comma.id: ""})
                variants.append((number, self.plain(node, {fields.id: without})))
        return switch(variants, same) if variants else same

    def function(self, node):
        body = node.child_by_field_name("body")
        inner = [child for child in body.named_children if "comment" not in child.type] if body else []
        found = self.take("FnValue", inner[0].start_byte, inner[-1].end_byte) if inner else []
        if not found:
            return self.plain(node)
        returned = node.child_by_field_name("return_type")
        text = self.plain(body)
        if returned and "impl Iterator" in self.raw(returned):
            for number, it in found:
                other = f"/*<{number}*/crate::mutant::like(&same, {it['replacement']})/*{number}>*/"
                sides = f"crate::mutant::Either::Left({other}) }} else {{ crate::mutant::Either::Right(same)"
                text = f"{{ let same = {text}; if crate::mutant::is({number}) {{ {sides} }} }}"
        else:
            returns = "".join(
                f"/*<{number}*/if crate::mutant::is({number}) {{ return {it['replacement']}; }}/*{number}>*/" for number, it in found
            )
            text = "{" + returns + text[1:]
        replaced = {body.id: text}
        # A number is looked up when the program runs.
        for child in node.children:
            if child.type == "function_modifiers":
                replaced[child.id] = re.sub(r"\bconst\b", "", self.raw(child))
        return self.plain(node, replaced)


def switch(variants, same):
    text = ""
    for number, variant in variants:
        text += f"if crate::mutant::is({number}) {{ /*<{number}*/{variant}/*{number}>*/ }} else "
    return f"({text}{{ {same} }})"


def write(mutants, left_out):
    """Writes the copy with all changes but some. Returns those that have no place in it."""
    by_file = {}
    for number, mutant in mutants.items():
        if number not in left_out:
            by_file.setdefault(mutant["file"], {})[number] = mutant
    placed = set()
    for file in {mutant["file"] for mutant in mutants.values()}:
        source = Source(file, by_file.get(file, {}))
        (COPY / file).write_text(source.render(source.tree.root_node))
        placed |= source.placed
    library = COPY / "src" / "lib.rs"
    library.write_text((PLAIN / "src" / "lib.rs").read_text() + MODULE)
    return set(mutants) - set(left_out) - placed


def copy():
    """Copies all files that git knows."""
    for folder in (PLAIN, COPY):
        shutil.rmtree(folder, ignore_errors=True)
    for file in subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout.split():
        (PLAIN / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, PLAIN / file)
    shutil.copytree(PLAIN, COPY)


def cargo(*words):
    # The tests run so often that a slower build is worth it.
    profile = {"CARGO_PROFILE_TEST_OPT_LEVEL": "1", "CARGO_PROFILE_TEST_DEBUG": "0"}
    variables = {**os.environ, **profile, "CARGO_TARGET_DIR": str(WORK / "target"), "RUSTFLAGS": "-Awarnings"}
    command = ["cargo", *words, "--locked", "--message-format", "json"]
    done = subprocess.run(command, cwd=COPY, env=variables, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def refused(messages):
    """The changes in which the compiler found an error."""
    numbers, elsewhere = set(), []
    for message in messages:
        if message.get("reason") != "compiler-message" or message["message"]["level"] != "error":
            continue
        found = set()
        for span in message["message"]["spans"]:
            path = COPY / span["file_name"]
            if path.exists() and (span["is_primary"] or not found):
                found |= around(path.read_bytes(), span["byte_start"], span["byte_end"])
        if not found and (message["message"]["code"] or {}).get("code") == "E0004":
            found = arms(message["message"]["spans"][0])
        numbers |= found
        if not found and message["message"]["spans"]:
            elsewhere.append(message["message"]["rendered"])
    if not numbers and elsewhere:
        sys.exit("\n".join(elsewhere[:5]))
    return numbers


def arms(span):
    """The changes that take away an arm of a match, after which it does not cover all values."""
    text = (COPY / span["file_name"]).read_bytes()
    at = text.index(b"{", span["byte_end"])
    depth, end = 0, at
    while not (depth == 1 and text[end : end + 1] == b"}"):
        depth += {b"{": 1, b"}": -1}.get(text[end : end + 1], 0)
        end += 1
    return {int(number) for number in re.findall(rb"/\*<(\d+)\*/false/\*", text[at:end])}


def around(text, start, end):
    """The innermost change around a place."""
    best = None
    for begin in re.finditer(rb"/\*<(\d+)\*/", text):
        number = begin[1]
        until = text.find(b"/*" + number + b">*/")
        if begin.start() <= start and end <= until + 10 and (best is None or until - begin.start() < best[0]):
            best = (until - begin.start(), int(number))
    return {best[1]} if best else set()


def compile_library(mutants, unviable):
    """Finds the changes that compile. Returns the others."""
    left_out = set(unviable)
    while True:
        left_out |= write(mutants, left_out)
        print(f"{len(mutants)} changes, {len(left_out)} of them where no other code can be", flush=True)
        bad = refused(cargo("check", "--profile", "test", "--lib"))
        if not bad:
            return left_out
        left_out |= bad


def binary():
    """Builds the tests with all changes."""
    built = cargo("test", "--lib", "--no-run")
    binaries = [it["executable"] for it in built if it.get("reason") == "compiler-artifact" and it.get("executable")]
    if not binaries:
        sys.exit("the tests do not compile, though the library does")
    return binaries[-1]


class Tests:
    """The tests of the library, in one binary."""

    def __init__(self, binary):
        self.binary = binary
        done = self.run(["--report-time"], {}, None)
        if done.returncode != 0:
            sys.exit(f"the tests fail without a change:\n{done.stdout[-5000:]}")
        times = re.findall(r"^test (\S+)(?: - should panic)? \.\.\. ok <([\d.]+)s>", done.stdout, re.M)
        self.seconds = {name: float(seconds) for name, seconds in times}
        self.reach = {}
        for name in self.seconds:
            for number in self.numbers(name):
                self.reach.setdefault(number, []).append(name)
        print(f"{len(self.seconds)} tests take {sum(self.seconds.values()):.0f} s and reach {len(self.reach)} changes", flush=True)

    def run(self, words, variables, most):
        same = {"RUSTC_BOOTSTRAP": "1", "INSTA_UPDATE": "no", "PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_FAILURE_PERSISTENCE": "off"}
        command = [self.binary, "-Zunstable-options", *words]
        return subprocess.run(
            command, cwd=COPY, env={**os.environ, **same, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=most,
        )  # fmt: skip

    def numbers(self, test):
        """The changes that a test reaches."""
        written = WORK / "reached"
        written.write_text("")
        if self.run(["--exact", test], {"REACHED": str(written)}, None).returncode != 0:
            sys.exit(f"{test} fails by itself")
        return [int(number) for number in written.read_text().split()]

    def outcome(self, number):
        """If the tests notice a change. Its summary has cargo-mutants' word."""
        reaching = self.reach.get(number, [])
        quick = [name for name in reaching if self.seconds[name] <= QUICK]
        try:
            for names in (quick, [name for name in reaching if name not in quick]):
                most = 30 + PATIENCE * sum(self.seconds[name] for name in names)
                if names and self.run(["--fail-fast", "--exact", *names], {"MUTANT": str(number)}, most).returncode != 0:
                    return "CaughtMutant"
        except subprocess.TimeoutExpired:
            return "Timeout"
        return "MissedMutant"


def keep(outcomes, mutants):
    """Writes the outcomes as cargo-mutants does."""
    lines = [{"scenario": {"Mutant": mutants[name]}, "summary": summary} for name, summary in sorted(outcomes.items())]
    OUTCOMES.write_text(json.dumps({"outcomes": lines}, indent=1))


def known(words):
    """The outcomes of the last time by the names of the changes. Those to be tried again are not among them."""
    if not OUTCOMES.exists() or "--again" in words:
        return {}
    outcomes = json.loads(OUTCOMES.read_text())["outcomes"]
    found = {it["scenario"]["Mutant"]["name"]: it["summary"] for it in outcomes}
    return {name: summary for name, summary in found.items() if "--survivors" not in words or summary != "MissedMutant"}


def main(words):
    WORK.mkdir(parents=True, exist_ok=True)
    copy()
    mutants = listed()
    by_name = {it["name"]: {key: it[key] for key in ("file", "name", "genre")} for it in mutants.values()}
    outcomes = {name: summary for name, summary in known(words).items() if name in by_name}
    unviable = {number for number, it in mutants.items() if outcomes.get(it["name"]) == "Unviable"}
    outcomes.update({mutants[number]["name"]: "Unviable" for number in compile_library(mutants, unviable)})
    attempt_all(mutants, by_name, outcomes, Tests(binary()))


def attempt_all(mutants, by_name, outcomes, tests):
    """Tries all changes without an outcome."""
    left = [(number, it["name"]) for number, it in mutants.items() if it["name"] not in outcomes]
    for number, name in left:
        outcomes[name] = tests.outcome(number)
        keep(outcomes, by_name)
        if outcomes[name] == "MissedMutant":
            print(f"{name} (reached by {len(tests.reach.get(number, []))} tests)", flush=True)
    missed = list(outcomes.values()).count("MissedMutant")
    print(f"{len(left)} tried, {missed} of all noticed by no test of the library", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
