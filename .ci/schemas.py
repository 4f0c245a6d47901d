"""Compares the JSON Schemas in docs/schemas with what the pages and events/ show: every example is valid under the schema of
its kind, and no longer with a field or a value that the function refuses. The schemas are made by
crates/testbed/tests/documentation/schemas.rs.
"""

import json
import re
import sys

import jsonschema

from iam import ROOT

SCHEMAS = {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in (ROOT / "docs" / "schemas").glob("*.json")}
# What makes an example of a kind one that the function refuses.
WRONG = {
    "clusters": lambda it: [*it, {"cluster": "blue", "rolArn": "arn:aws:iam::111122223333:role/a"}],
    "name-policy": lambda it: [{**it[0], "names": "web"}, *it[1:]],
    "payload": lambda it: it | {"cluser": "blue"},
}


def kind(example):
    """Of which setting an example is, if of one."""
    if isinstance(example, dict):
        # Of some commands a page only names the action.
        return "payload" if "action" in example and (len(example) > 1 or example["action"] in ("plan", "sync", "status", "doctor")) else None
    if not isinstance(example, list) or not example:
        return None
    of_rule = isinstance(example[0], dict) and "kubernetesNamespaces" in example[0]
    return "name-policy" if of_rule else "clusters" if any(isinstance(it, dict) and "cluster" in it for it in example) else None


def examples():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        text = page.read_text()
        quoted = re.findall(r"'([\[{].*?[\]}])'|`(\{\"action\"[^`…]*?\})`", text)
        for block in [*re.findall(r"```json\n(.*?)```", text, re.DOTALL), *(one or other for one, other in quoted)]:
            try:
                yield page.name, json.loads(block)
            except ValueError:
                # A part of an example, or one in which something is left out.
                continue
    for path in sorted((ROOT / "events").glob("direct-*.json")):
        yield path.name, json.loads(path.read_text())


def main():
    wrong, found = [], dict.fromkeys(WRONG, 0)
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for place, example in examples():
        if not (of := kind(example)):
            continue
        found[of] += 1
        validator = jsonschema.Draft202012Validator(SCHEMAS[of])
        wrong += [f"{place}: {it.message}" for it in validator.iter_errors(example)]
        if validator.is_valid(WRONG[of](example)):
            wrong.append(f"{place}: {of} takes {WRONG[of](example)}")
    wrong += [f"no example of {of}" for of, count in found.items() if count == 0]
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
