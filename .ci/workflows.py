"""Checks that no job of the workflows which runs code of others has a right or a token, and plays how release.yml hands
over the files between its jobs: which ones it takes, and which it refuses.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml

from iam_check import ROOT
from image_index import INDEX, MANIFEST, blob, digest_of, joined, read, Refused
from stacks import run

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Of crates, Go modules, Python packages and base images. A script of this repository comes with a checkout.
CODE_OF_OTHERS = re.compile(r"\b(cargo|rustup|pip|npm|docker (buildx )?build|go (run|build|install|test))\b")
TOKEN = re.compile(r"\bgithub\.token\b|\bsecrets\b")
READS = {"contents": "read"}


def workflow(path):
    return yaml.safe_load(path.read_text())


def jobs():
    """Each job with its name and its workflow."""
    for path in WORKFLOWS:
        found = workflow(path)
        for name, job in found["jobs"].items():
            yield f"{path.name}: {name}", job, found


def runs_code_of_others(job):
    return any(
        step.get("uses", "").startswith("actions/checkout@") or CODE_OF_OTHERS.search(step.get("run", ""))
        for step in job["steps"]
    )


def mistakes_of(job, of_workflow):
    """What a job has and needs not, if it runs code of others."""
    rights = job.get("permissions", of_workflow.get("permissions"))
    if rights != READS:
        yield f"has the rights {rights and dict(rights)}"
    if TOKEN.search(json.dumps([of_workflow.get("env"), job])):
        yield "has a token"
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@") and step.get("with", {}).get("persist-credentials") is not False:
            yield "leaves the token of its checkout in the clone"


def check_jobs():
    """A job that runs code of others reads and nothing else, and has no token."""
    found = [(name, job, of_workflow) for name, job, of_workflow in jobs() if runs_code_of_others(job)]
    assert len(found) >= 8, [name for name, *_ in found]
    mistakes = [f"{name} {mistake}" for name, job, of_workflow in found for mistake in mistakes_of(job, of_workflow)]
    assert not mistakes, "\n  ".join(mistakes)


def check_rights():
    """The jobs with a right are the two that push and publish what others built."""
    able = {name: dict(job["permissions"]) for name, job, _ in jobs() if job.get("permissions", READS) != READS}
    assert able == {
        "release.yml: push": {"packages": "write"},
        "release.yml: publish": {"attestations": "write", "contents": "write", "id-token": "write", "packages": "write"},
    }, able


def check_actions():
    """An action is used by a commit, with its version beside it."""
    for path in WORKFLOWS:
        used = re.findall(r"uses: (.*)", path.read_text())
        assert used, path.name
        for it in used:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", it), f"{path.name}: {it}"


RELEASE = workflow(ROOT / ".github" / "workflows" / "release.yml")["jobs"]


def check_outputs():
    """The sums of each file of the release go from the job that made it to the one that publishes it."""
    def step(job, action):
        return [it["with"] for it in RELEASE[job]["steps"] if it.get("uses", "").startswith(f"actions/{action}@")]

    makers = [name for name in RELEASE if any(it["name"].startswith("release-") for it in step(name, "upload-artifact"))]
    wanted = {f"needs.{name}.outputs.{output}" for name in makers for output in RELEASE[name]["outputs"] if output != "digest"}
    (verify,) = [it for it in RELEASE["publish"]["steps"] if it.get("id") == "verify"]
    assert set(re.findall(r"\${{ (\S+) }}", verify["env"]["SUMS"])) == wanted, wanted
    assert set(RELEASE["publish"]["needs"]) >= set(makers) | {"push"}
    for name in makers:
        # Of a job that runs several times, each time has its own output: the last one would be that of all.
        times = RELEASE[name].get("strategy", {}).get("matrix", {}).get("include", [{}])
        outputs = [it for it in RELEASE[name]["outputs"] if it != "digest"]
        assert len(times) == len(outputs) and all(it == {} or set(it.values()) & set(outputs) for it in times), name


def released(part, dist):
    """What a part of .ci/release prints."""
    command = [ROOT / ".ci" / "release", *part]
    return subprocess.run(command, env={**os.environ, "DIST": str(dist)}, check=True, capture_output=True, text=True).stdout


def is_published(built, found, forged=""):
    """Whether the files of `found` are published, where the sums are those of `built`; `forged` are sums beside them."""
    (verify,) = [it for it in RELEASE["publish"]["steps"] if it.get("id") == "verify"]
    with tempfile.TemporaryDirectory() as folder:
        for name, files in (("built", built), ("dist", found)):
            (Path(folder) / name).mkdir()
            for file, content in files.items():
                (Path(folder) / name / file).write_text(content)
        lines = released(["sums", "x86_64"], Path(folder) / "built").splitlines()
        assert (lines[0], lines[-1]) == ("x86_64<<END", "END"), lines
        sums = "\n".join([*lines[1:-1], "", forged, ""])
        environment = {**os.environ, **verify["env"], "SUMS": sums}
        played = subprocess.run(["bash", "-eo", "pipefail", "-c", verify["run"]], cwd=folder, env=environment, capture_output=True, text=True)
        if played.returncode == 0:
            assert sorted((Path(folder) / "dist" / "SHA256SUMS").read_text().splitlines()) == sorted(lines[1:-1])
        return played.returncode == 0


def check_publish():
    """The files that were built are published, and no others."""
    built = {"a.zip": "1", "a.zip.yaml": "2", "b-linux.tar.gz": "3", "b.cdx.json": "4"}
    assert is_published(built, built)
    assert not is_published(built, {**built, "a.zip": "replaced by another job"})
    assert not is_published(built, {**built, "c.tgz": "of no job"})
    assert not is_published(built, {name: it for name, it in built.items() if name != "b.cdx.json"})
    # Another job that says that the file of this one is its own.
    forged = f"{digest_of(b'replaced')[7:]}  a.zip"
    assert not is_published(built, {**built, "a.zip": "replaced"}, forged)


def image(folder, architecture, **changes):
    """The tar of a layout with one image, as BuildKit writes it; `changes` replace files."""
    layer, config = f"layer of {architecture}".encode(), json.dumps({"architecture": architecture, "os": "linux"}).encode()
    manifest = json.dumps({"config": {"digest": digest_of(config)}, "layers": [{"digest": digest_of(layer)}]}).encode()
    index = {"manifests": [{"mediaType": MANIFEST, "digest": digest_of(manifest), "size": len(manifest)}]}
    files = {blob(digest_of(it)): it for it in (layer, config, manifest, b"of the base image")}
    files = {**files, "oci-layout": b"{}", "index.json": json.dumps(index).encode(), **changes}
    path = folder / f"image-{len(list(folder.iterdir()))}.tar"
    for name, content in files.items():
        (folder / "content").write_bytes(content)
        with tarfile.open(path, "a") as tar:
            tar.add(folder / "content", name)
    return path


def check_image():
    """The images of the architectures are one, of both, with the digest that is printed; others are refused."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
        dist = folder / "dist"
        dist.mkdir()
        for architecture in ("amd64", "arm64"):
            image(folder, architecture).rename(dist / f"cloud-map-forwarder-{version}-{architecture}.oci.tar")
        digest = released(["index"], dist).strip()
        files = read(dist / f"cloud-map-forwarder-{version}.oci.tar")
        (top,) = json.loads(files["index.json"])["manifests"]
        assert (top["mediaType"], top["digest"]) == (INDEX, digest)
        entries = json.loads(files[blob(digest)])["manifests"]
        assert [it["platform"] for it in entries] == [{"architecture": it, "os": "linux"} for it in ("amd64", "arm64")]
        for it in entries:
            manifest = json.loads(files[blob(it["digest"])])
            assert it["size"] == len(files[blob(it["digest"])]) and blob(manifest["layers"][0]["digest"]) in files
        again = released(["index"], dist).strip()
        assert again == digest and read(dist / f"cloud-map-forwarder-{version}.oci.tar") == files
        whole = image(folder, "amd64")
        for wrong in (
            [whole, image(folder, "amd64")],
            [whole, dist / f"cloud-map-forwarder-{version}.oci.tar"],
            [whole, image(folder, "arm64", **{"index.json": b"{}"})],
            [whole, image(folder, "arm64", **{blob(digest_of(b"of the base image")): b"another one"})],
        ):
            try:
                joined(wrong)
            except Refused:
                continue
            raise AssertionError(f"joined: {wrong}")


def main():
    return run((check_jobs, check_rights, check_actions, check_outputs, check_publish, check_image))


if __name__ == "__main__":
    sys.exit(main())
