"""Writes the bill of materials of one program: of the file that cargo-cyclonedx made for its package, the crates that
`cargo tree` lists on standard input.

    cargo tree --format '{p}' ... | sbom.py FILE FOLDER VERSION
"""

import json
import sys
from pathlib import Path


def restricted(bill, crates):
    """The bill with the components of these crates alone, and the dependencies among them."""
    own = bill["metadata"]["component"]["bom-ref"]
    components = [it for it in bill["components"] if (it["name"], it["version"]) in crates]
    kept = {own, *(it["bom-ref"] for it in components)}
    dependencies = [
        {**it, "dependsOn": [ref for ref in it.get("dependsOn", []) if ref in kept]}
        for it in bill["dependencies"]
        if it["ref"] in kept
    ]
    return {**bill, "components": components, "dependencies": dependencies}


def main(file, folder, version):
    bill = json.loads(Path(file).read_text())
    # A line begins with the name and the version, as in `serde v1.0.228`.
    lines = [line.split() for line in sys.stdin if line.strip()]
    crates = {(words[0], words[1].removeprefix("v")) for words in lines}
    program = bill["metadata"]["component"]["name"]
    made = restricted(bill, crates)
    # The program itself is the subject, and no component.
    missing = crates - {(it["name"], it["version"]) for it in made["components"]} - {(program, version)}
    if missing:
        sys.exit(f"{file} lacks crates of {program}: {sorted(missing)}")
    (Path(folder) / f"{program}-{version}.cdx.json").write_text(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
