"""Plays how release.yml hands over the files between its jobs: which ones it takes, and which it refuses; and checks what
zizmor leaves open: no job of the workflows that runs code of others has a right or a token.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import yaml

from iam import ROOT

# Of crates, Go modules, Python packages and base images. A script of this repository comes with a checkout.
CODE_OF_OTHERS = re.compile(r"actions/checkout@|\b(cargo|rustup|pip|npm|docker (buildx )?build|go (run|build|install|test))\b")
TOKEN = re.compile(r"\bgithub\.token\b|\bsecrets\b")
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}
RELEASE = WORKFLOWS["release.yml"]["jobs"]
(VERIFY,) = [it for it in RELEASE["publish"]["steps"] if it.get("id") == "verify"]


def check_rights():
    """A job that runs code of others reads and nothing else; two jobs push and publish what others built."""
    able = {}
    for name, workflow in WORKFLOWS.items():
        for job_name, job in workflow["jobs"].items():
            rights = job.get("permissions", workflow.get("permissions"))
            if rights != {"contents": "read"}:
                able[job_name] = rights
            if rights != {"contents": "read"} or TOKEN.search(json.dumps([workflow.get("env"), job])):
                of_others = [it for it in job["steps"] if CODE_OF_OTHERS.search(f"{it.get('uses')} {it.get('run')}")]
                assert not of_others, f"{name}: {job_name} has rights or a token and runs {of_others}"
    assert able == {
        "push": {"packages": "write"},
        "publish": {"attestations": "write", "contents": "write", "id-token": "write", "packages": "write"},
    }, able


def check_outputs():
    """The sums of each file of the release go from the job that made it to the one that publishes it."""
    makers = {name: job for name, job in RELEASE.items() if re.search(r"/upload-artifact@\w+', 'with': {'name': 'release-", str(job))}
    # Of a job that runs several times, each time has its own output: the last one would be that of all.
    for name, job in makers.items():
        times = job.get("strategy", {}).get("matrix", {}).get("include", [{}])
        assert len(times) == len([it for it in job["outputs"] if it != "digest"]), name
    wanted = {f"needs.{name}.outputs.{it}" for name, job in makers.items() for it in job["outputs"] if it != "digest"}
    assert set(re.findall(r"\${{ (\S+) }}", VERIFY["env"]["SUMS"])) == wanted, wanted
    assert set(RELEASE["publish"]["needs"]) >= {*makers, "push"}


def released(part, dist):
    """What a part of .ci/release prints."""
    command = [ROOT / ".ci" / "release", *part]
    return subprocess.run(command, env={**os.environ, "DIST": str(dist)}, check=True, capture_output=True, text=True).stdout


def is_published(built, found, forged=""):
    """Whether the files of `found` are published, where the sums are those of `built`; `forged` are sums beside them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, files in (("built", built), ("dist", found)):
            (Path(folder) / name).mkdir()
            for file, content in files.items():
                (Path(folder) / name / file).write_text(content)
        first, *sums, last = released(["sums", "x86_64"], Path(folder) / "built").splitlines()
        assert (first, last) == ("x86_64<<END", "END"), (first, last)
        environment = {**os.environ, **VERIFY["env"], "SUMS": "\n".join([*sums, "", forged, ""])}
        command = ["bash", "-eo", "pipefail", "-c", VERIFY["run"]]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True).returncode == 0


def check_publish():
    """The files that were built are published, and no others."""
    built = {"a.zip": "1", "a.zip.yaml": "2", "b-linux.tar.gz": "3", "b.cdx.json": "4"}
    assert is_published(built, built)
    assert not is_published(built, {**built, "a.zip": "replaced by another job"})
    assert not is_published(built, {**built, "c.tgz": "of no job"})
    assert not is_published(built, {name: it for name, it in built.items() if name != "b.cdx.json"})
    # Another job that says that the file of this one is its own.
    assert not is_published(built, {**built, "a.zip": "replaced"}, f"{sha256(b'replaced').hexdigest()}  a.zip")


for check in (check_rights, check_outputs, check_publish):
    try:
        check()
    except (AssertionError, KeyError) as mistake:
        sys.exit(f"{check.__name__}: {mistake!r}")
