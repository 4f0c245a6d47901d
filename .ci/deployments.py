"""Plays the life of a stack with SAM's own command: a guided deployment, the end of the dry run, an upgrade, a stop; and
one from saved answers alone, that asks nothing.

The commands are those of README.md, docs/deploying.md and docs/upgrading.md, run by bash in a clone. `sam deploy` is SAM's:
its prompts, its configuration file, its way to merge parameters. Only AWS is missing: in its place stack.json keeps the
values that CloudFormation would keep. A new template comes by a real `git pull`. After each step DryRun must be as last set.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from pathlib import Path

from saved_answers import FILE, TABLE
from stack import parameters, read, refusals

ROOT = Path(__file__).resolve().parent.parent
# Another one than that of samconfig.example.toml.
CLUSTER = "arn:aws:eks:eu-central-1:111122223333:cluster/green"
STACK = "stack.json"
# What a deployment that is only looked at would make.
LOOK = "change-set.json"
# In the environment if nobody is there to answer.
ALONE = "NOBODY_ANSWERS"
# Where `sam build` puts the template that `sam deploy` takes.
BUILT = Path(".aws-sam/build/template.yaml")
# A parameter that only the newer version has.
NEWER = "\nParameters:\n  OfTheNextVersion:\n    Type: String\n    Default: as before\n    Description: New\n"
# JSON, and a value with spaces.
POLICY = '[{"clusters": ["*"], "kubernetesNamespaces": ["my shop"], "cloudMapNamespaces": ["*"], "names": ["web"]}]'
EVERY_DAY = "cron(0/5 * * * ? *)"
# What the user says to the guide; Return to every other question.
ANSWERS = {
    "Parameter Clusters\033": CLUSTER, "Parameter NamePolicy\033": POLICY, "sign your code": False,
    "Parameter Schedule\033": EVERY_DAY, "Parameter ScheduleMinutes\033": "5", "Parameter NoGoodSyncMinutes\033": "11",
}  # fmt: skip


def sam(arguments):
    """`sam` of the clone: a deployment is SAM's up to its calls of AWS, a build only brings the template along."""
    if arguments[0] == "build":
        source = arguments[arguments.index("--template") + 1] if "--template" in arguments else "template.yaml"
        BUILT.parent.mkdir(parents=True, exist_ok=True)
        BUILT.write_text(Path(source).read_text())
        return 0
    from unittest import mock

    from samcli.cli.main import cli
    from samcli.commands.deploy import command, deploy_context, guided_context
    from samcli.commands.package import package_context

    class Deployment:
        """Keeps the values that CloudFormation would be given."""

        def __init__(self, parameter_overrides, capabilities, confirm_changeset, no_execute_changeset, **_):
            self.overrides, self.capabilities = parameter_overrides, capabilities
            self.confirms, self.looks = confirm_changeset, no_execute_changeset

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def run(self):
            if self.confirms and not self.looks and ALONE in os.environ:
                sys.exit("SAM asks whether to make the changes")
            template = read(BUILT)
            if (wanted := capability(template)) not in self.capabilities:
                sys.exit(f"CloudFormation refuses: {self.capabilities} is not {wanted}")
            kept = json.loads(Path(STACK).read_text()) if Path(STACK).exists() else None
            sent = merge(template, self.overrides)
            given = {it["ParameterKey"]: it["ParameterValue"] for it in sent if "ParameterValue" in it}
            values = parameters(template, given, kept)
            refused = list(refusals(template, values))
            if refused:
                sys.exit(f"CloudFormation refuses: {refused}")
            Path(LOOK if self.looks else STACK).write_text(json.dumps(values))

    def answer(question, default=None, **_):
        if ALONE in os.environ:
            sys.exit(f"SAM asks: {question}")
        return next((given for words, given in ANSWERS.items() if words in question), default)

    merge = deploy_context.DeployContext.merge_parameters
    with (
        mock.patch.object(deploy_context, "DeployContext", Deployment),
        mock.patch.object(package_context, "PackageContext", mock.MagicMock()),
        mock.patch.object(command, "manage_stack", return_value="bucket"),
        mock.patch.object(guided_context, "manage_stack", return_value="bucket"),
        mock.patch.object(guided_context, "prompt", answer),
        mock.patch.object(guided_context, "confirm", answer),
        mock.patch.object(guided_context.GuidedContext, "prompt_image_repository", return_value={}),
        mock.patch("samcli.lib.utils.version_checker._inform_newer_version"),
    ):
        return cli(arguments, standalone_mode=True)


def capability(template):
    """What CloudFormation asks for."""
    roles = [it for it in template["Resources"].values() if it["Type"] == "AWS::IAM::Role"]
    named = any("RoleName" in role["Properties"] for role in roles)
    return "CAPABILITY_NAMED_IAM" if named else "CAPABILITY_IAM"


def commands(page, after, language="sh"):
    """The first block of shell commands after a text of a page."""
    text = (ROOT / page).read_text()
    found = re.search(rf"^( *)```{language}\n(.*?)^\1```", text[text.index(after) :], re.M | re.S)
    return textwrap.dedent(found[2])


class Clone:
    """A user's clone of a repository that goes on."""

    def __init__(self, folder):
        self.upstream, self.here, self.bin = folder / "upstream", folder / "clone", folder / "bin"
        for path in (self.upstream, self.bin):
            path.mkdir()
        tracked = run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], ROOT).split("\n")
        for name in tracked:
            if re.fullmatch(r"template\.yaml|samconfig.*|\.gitignore", name) and (ROOT / name).exists():
                (self.upstream / name).write_bytes((ROOT / name).read_bytes())
        run(["git", "init", "--quiet"], self.upstream)
        self.commit("first")
        run(["git", "clone", "--quiet", str(self.upstream), str(self.here)], folder)
        (self.bin / "sam").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" sam "$@"\n')
        (self.bin / "aws").write_text("#!/bin/sh\n")
        for program in self.bin.iterdir():
            program.chmod(0o755)

    def commit(self, message):
        by = ["-c", "user.name=upstream", "-c", "user.email=upstream@example.com"]
        run(["git", "add", "--all"], self.upstream)
        run(["git", *by, "commit", "--quiet", "--message", message], self.upstream)

    def play(self, block, alone=False, kept_in=STACK):
        """Runs commands as a user types them. Returns what the stack then has, or nothing if they failed."""
        environment = {
            "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.here.parent), "SAM_CLI_TELEMETRY": "0",
            "AWS_DEFAULT_REGION": "eu-central-1", **({ALONE: "yes"} if alone else {}),
        }  # fmt: skip
        bash = ["bash", "-euo", "pipefail", "-c", block]
        done = subprocess.run(bash, cwd=self.here, env=environment, stdin=subprocess.DEVNULL, text=True, capture_output=True)
        if done.returncode != 0:
            print(done.stderr.strip().splitlines()[-1])
            return {}
        return json.loads((self.here / kept_in).read_text())


def run(command, folder):
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def main():
    first = commands("README.md", "\n1. Deploy")
    ends_dry_run = commands("README.md", "\n4. Read the plan")
    other_processor = commands("docs/deploying.md", "\n## arm64")
    upgrade = commands("docs/upgrading.md", "\n## Upgrade")
    stop = commands("docs/upgrading.md", "\n## Stop")
    copy_answers = commands("docs/deploying.md", "\n## Without questions")
    without_questions = commands("docs/deploying.md", "\nThen this deployment asks nothing")
    on_command_line = commands("docs/deploying.md", "\nOn a command line")
    mistakes = []

    def expect(step, found, **expected):
        if bool(found) != bool(expected):
            mistakes.append(f"{step} was {'refused' if expected else 'not refused'}")
        for name, value in expected.items():
            if found.get(name) != value:
                mistakes.append(f"after {step}: {name} is {found.get(name)!r} and not {value!r}")
        told = ", ".join(f"{name}={found.get(name)}" for name in expected)
        print(f"{step}: {told or 'refused'}")

    with tempfile.TemporaryDirectory() as folder:
        clone = Clone(Path(folder))
        answers = {"Clusters": CLUSTER, "NamePolicy": POLICY, "Schedule": EVERY_DAY}
        expect("the guided deployment", clone.play(first), DryRun="true", **answers)
        expect("the end of the dry run", clone.play(ends_dry_run), DryRun="false", **answers)
        template = clone.upstream / "template.yaml"
        template.write_text(template.read_text().replace("\nParameters:\n", NEWER, 1))
        clone.commit("next version")
        kept = {**answers, "OfTheNextVersion": "as before"}
        expect("an upgrade", clone.play(upgrade), DryRun="false", **kept)
        expect("a second guided deployment", clone.play("sam deploy --guided"), DryRun="false", **kept)
        expect("a stop", clone.play(stop), DryRun="true", **kept)
        expect("a deployment after it", clone.play("sam deploy"), DryRun="true", **kept)
        clone.play(other_processor)
        expect("a build for arm64, deployed as x86_64", clone.play("sam deploy"))
        in_file = r"""sed -i.bak 's/Architecture=\\"x86_64/Architecture=\\"arm64/' samconfig.toml && sam deploy"""
        expect("a build for arm64", clone.play(in_file), Architecture="arm64", DryRun="true", **kept)
        expect("a build for x86_64, deployed as arm64", clone.play("sam build && sam deploy"))
        changed = run(["git", "status", "--porcelain", "--untracked-files=no"], clone.here)
        if changed:
            mistakes.append(f"git tracks what a user's answers change: {changed}")
    with tempfile.TemporaryDirectory() as folder:
        clone = Clone(Path(folder))
        example = {"Clusters": "arn:aws:eks:eu-central-1:111122223333:cluster/blue"}
        clone.play(f"{copy_answers} echo '{{}}' >{STACK}")
        expect("a deployment with its questions", clone.play("sam build && sam deploy", alone=True))
        expect("one without questions", clone.play(without_questions, alone=True), DryRun="true", **example)
        quiet = ends_dry_run.replace("sam deploy", "sam deploy --no-confirm-changeset")
        expect("the end of its dry run", clone.play(quiet, alone=True), DryRun="false", **example)
        look = clone.play(on_command_line, alone=True, kept_in=LOOK)
        shown = json.dumps(json.loads(POLICY)).replace("my shop", "shop")
        expect("a look with values on the command line", look, Schedule=EVERY_DAY, NamePolicy=shown, DryRun="false")
        quiet = stop.replace("sam deploy", "sam deploy --no-confirm-changeset")
        expect("its stop", clone.play(quiet, alone=True), DryRun="true", NamePolicy="", **example)
        block = commands("docs/deploying.md", "\nValues with quotes", "toml")
        table = tomllib.loads(block)["default"]["deploy"]["parameters"]["parameter_overrides"]
        (clone.here / "samconfig.toml").write_text(FILE.read_text().split(TABLE)[0] + block)
        table["Clusters"] = ",".join(table["Clusters"])
        expect("the values with quotes", clone.play("sam deploy --no-confirm-changeset", alone=True), **table)
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(sam(sys.argv[2:]) if sys.argv[1:2] == ["sam"] else main())
