"""Linters of what a user deploys: checkov, hadolint and kube-score over the template, the manifests, the Terraform module,
the image, and the chart and the base as Helm and kustomize render them.

Each finding that is accepted is in ACCEPTED with its reason. Another one fails, and so does an accepted one that is gone.
cfn-lint, zizmor and actionlint have steps of their own in .ci/run.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINTED = ROOT / "target" / "ci" / "linted"
TOOLS, VENV = ROOT / "target" / "deploy-tools", ROOT / "target" / "ci" / "venv"
CHECKOV = ROOT / "target" / "ci" / "venv-checkov" / "bin" / "checkov"
CHART, BASE = "deploy/charts/cloud-map-forwarder", "deploy/forwarders/cloud-map-forwarder"
VALUES = "queueUrl=https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync,cluster=blue,image.repository=registry/cloud-map-forwarder"

ACCEPTED = {
    "CKV_AWS_116": "what the function's queues and schedules cannot deliver goes to dead-letter queues of theirs",
    "CKV_AWS_124": "whether a stack sends its events to a topic is its owner's choice",
    "CKV_DOCKER_2": "the kubelet's probes are the health check",
    "CKV_DOCKER_3": "the base image runs as its user nonroot",
    "CKV_K8S_11": "without a limit of the processor a burst of changes is not throttled; memory has one",
    "CKV_K8S_15": "a tag of a release is never moved, so its image need not be asked for again",
    "CKV_K8S_38": "the forwarders watch the API server, for which they need the token",
    "CKV_K8S_43": "the registry, and so the digest, is the user's; the chart takes one, and that of a release has it",
    "CKV_TF_1": "the example names a release by its tag; a copy of the repository has other commits",
    "container-image-pull-policy": "as CKV_K8S_15",
    "container-resources": "as CKV_K8S_11",
    "container-ephemeral-storage-request-and-limit": "they write nothing but their logs, for whose size a pod is not evicted",
    "deployment-has-host-podantiaffinity": "the pods are spread over nodes by topologySpreadConstraints",
}


def run(command, **options):
    """The output of a linter, which fails if it finds something."""
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **options)
    return ended.stdout


def collect():
    """All that is linted in one folder: the files of git, and the chart and the base rendered in place of their own."""
    shutil.rmtree(LINTED, ignore_errors=True)
    for file in run(["git", "ls-files", "template.yaml", "deploy"], check=True).splitlines():
        if not file.startswith(CHART) and (not file.startswith(BASE) or "Dockerfile" in file):
            (LINTED / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, LINTED / file)
    chart = [TOOLS / "helm", "template", "chart", CHART, "--namespace", "cloud-map-sync", "--set", VALUES]
    for name, command in (("chart", chart), ("base", [TOOLS / "kustomize", "build", BASE])):
        (LINTED / "deploy" / f"{name}.yaml").write_text(run(command, check=True))


def checkov():
    frameworks = ["cloudformation", "dockerfile", "kubernetes", "terraform"]
    output = run([CHECKOV, "--directory", LINTED, "--framework", *frameworks, "--output", "json", "--skip-download"])
    reports = json.loads(output)
    found = {it["check_type"] for it in reports}
    assert found == set(frameworks), f"checkov read {found}"
    for report in reports:
        assert not report["results"]["parsing_errors"], report["results"]["parsing_errors"]
        for it in report["results"]["failed_checks"]:
            yield it["check_id"], f"{it['file_path']}: {it['resource']}: {it['check_name']}"


def hadolint():
    for it in json.loads(run([VENV / "bin" / "hadolint", "--format", "json", LINTED / BASE / "Dockerfile"])):
        yield it["code"], f"Dockerfile, line {it['line']}: {it['message']}"


def kube_score():
    manifests = [it for it in sorted((LINTED / "deploy").rglob("*.yaml")) if "\nkind: " in it.read_text()]
    tool = "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"
    subprocess.run(["go", "install", tool], env={**os.environ, "GOBIN": LINTED.parent}, check=True)
    command = [LINTED.parent / "kube-score", "score", "--output-format", "json", "--kubernetes-version", "v1.30"]
    objects = json.loads(run([*command, *manifests]))
    names = " ".join(it["object_name"] for it in objects)
    assert "/chart-cloud-map-forwarder" in names and "/cloud-map-forwarder" in names, names
    for it in objects:
        for check in it["checks"]:
            if check["grade"] < 10 and not check["skipped"]:
                details = "; ".join(comment["summary"] for comment in check["comments"] or [])
                yield check["check"]["id"], f"{it['file_name']}: {it['object_name']}: {details}"


def main():
    collect()
    findings = [finding for linter in (checkov, hadolint, kube_score) for finding in linter()]
    wrong = [f"{code}: {detail}" for code, detail in findings if code not in ACCEPTED]
    wrong += [f"{code} is accepted, and not found any more" for code in ACCEPTED.keys() - {code for code, _ in findings}]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(findings)} findings, of {len(ACCEPTED)} kinds that are accepted")


main()
