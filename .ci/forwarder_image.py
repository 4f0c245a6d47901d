"""Checks that the forwarder compiles from exactly the files that its image is built from, on images by their digest.

They are copied to target/ci/forwarder-image as .dockerignore lets them through, and the command of the Dockerfile runs
there as `cargo check`, which reads the same files in half the time. A file that Cargo.toml or the source names and the
image's context lacks fails here.
"""

import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "deploy" / "forwarders" / "cloud-map-forwarder" / "Dockerfile"
CONTEXT = ROOT / "target" / "ci" / "forwarder-image"


def is_sent(name, patterns):
    """Whether Docker sends a file: the last pattern that matches it, or a folder that it is in, decides."""
    candidates, sent = [name, *map(str, Path(name).parents)][:-1], True
    for pattern in patterns:
        # Neither of Docker's patterns with `**` is used, and `*` ends at a slash.
        plain = pattern.removeprefix("!").strip("/")
        if any(it.count("/") == plain.count("/") and fnmatchcase(it, plain) for it in candidates):
            sent = pattern.startswith("!")
    return sent


def copy_context():
    """Copies the files of a clone, and new ones, with their times, so that a second build finds nothing new."""
    lines = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    shutil.rmtree(CONTEXT, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    copied = [name for name in listed if name and (ROOT / name).is_file() and is_sent(name, patterns)]
    for name in copied:
        (CONTEXT / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, CONTEXT / name)
    return copied


def main():
    dockerfile = DOCKERFILE.read_text()
    toolchain = re.search(r'^channel = "(.*)"', (ROOT / "rust-toolchain.toml").read_text(), re.M)[1]
    if f"FROM rust:{toolchain}-" not in dockerfile:
        sys.exit(f"{DOCKERFILE.name}: the image builds with another Rust than {toolchain}")
    if by_tag := re.findall(r"^FROM (?!\S+:\S+@sha256:[0-9a-f]{64}(?: |$)).*", dockerfile, re.M):
        sys.exit(f"{DOCKERFILE.name}: a tag can be moved, write TAG@sha256:DIGEST: {by_tag}")
    copied = copy_context()
    build = shlex.split(re.search(r"^RUN (cargo build .*)$", dockerfile, re.M)[1])
    build.remove("--release")
    build[1] = "check"
    if subprocess.run([*build, "--target-dir", str(ROOT / "target")], cwd=CONTEXT).returncode != 0:
        sys.exit(f"the forwarder's image cannot be built: {shlex.join(build)}")
    print(f"{len(copied)} files are enough for the forwarder's image")


if __name__ == "__main__":
    main()
