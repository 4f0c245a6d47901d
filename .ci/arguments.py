"""Judges commands of the documentation by the parsers of the AWS CLI and of SAM, without a call of AWS.

On standard input a list of {"at", "program", "arguments", "is_whole"}, as crates/testbed/tests/documentation/commands finds them; on
standard output the list of what these programs would refuse. The AWS CLI reads the arguments into the parameters of an
operation, and its models of the services judge those. Its version 1 is what PyPI has: the one option that only version
2 has is judged here. Of a command that is not whole, required arguments may be missing.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import re
import sys
import tempfile
from pathlib import Path
from unittest import mock

import click
from awscli import clidriver
from awscli.botocore.validate import ParamValidator
from awscli.customizations.cloudformation.deploy import DeployCommand
from awscli.customizations.commands import BasicCommand
from samcli.cli.main import cli

from iam import ROOT, read

# Of version 2: how a blob on the command line is to be read.
OPTION_OF_VERSION_2 = "--cli-binary-format"
COMMANDS_OF_VERSION_2 = [["sso", "login"]]


class Refused(Exception):
    """What a program would not take."""


def without_version_2(arguments):
    """The arguments that version 1 has, too."""
    if OPTION_OF_VERSION_2 not in arguments:
        return arguments
    at = arguments.index(OPTION_OF_VERSION_2)
    if arguments[at + 1 : at + 2] not in (["raw-in-base64-out"], ["base64"]):
        raise Refused(" ".join(arguments[at : at + 2]))
    return arguments[:at] + arguments[at + 2 :]


def judge_deployment(command, parsed, _):
    """`aws cloudformation deploy`: the template's parameters, their values, and the capability for its roles."""
    if not isinstance(command, DeployCommand):
        return 0
    path = Path(parsed.template_file)
    if not path.is_file():
        raise Refused(f"there is no {path}")
    template = read(path)
    for name, value in command.parse_key_value_arg(parsed.parameter_overrides or [], "parameter-overrides").items():
        parameter = template["Parameters"].get(name)
        if parameter is None:
            raise Refused(f"{path} has no parameter {name}")
        # In capitals stands what the reader puts there.
        is_of_reader = value.replace("_", "").isupper()
        if value not in parameter.get("AllowedValues", [value]) or not (
            is_of_reader or re.fullmatch(parameter.get("AllowedPattern", ".*"), value)
        ):
            raise Refused(f"{name} does not take {value}")
    roles = [it["Properties"] for it in template["Resources"].values() if it["Type"] == "AWS::IAM::Role"]
    wanted = "CAPABILITY_NAMED_IAM" if any("RoleName" in it for it in roles) else "CAPABILITY_IAM"
    if roles and wanted not in (parsed.capabilities or []):
        raise Refused(f"{path} needs {wanted}")
    return 0


def judge_call(caller, service, operation, given, _):
    """In the place of a call: its parameters by the model of the service."""
    model = caller._session.get_service_model(service).operation_model(operation)
    if model.input_shape is not None and (report := ParamValidator().validate(given, model.input_shape).generate_report()):
        raise Refused(report)
    return 0


def aws(arguments, is_whole):
    if arguments[:2] in COMMANDS_OF_VERSION_2:
        return
    said = io.StringIO()
    with (
        mock.patch.object(clidriver.CLIOperationCaller, "invoke", judge_call),
        contextlib.redirect_stderr(said), contextlib.redirect_stdout(said), contextlib.ExitStack() as patches,
    ):  # fmt: skip
        for command in commands_of_its_own(BasicCommand):
            patches.enter_context(mock.patch.object(command, "_run_main", judge_deployment))
        driver = clidriver.create_clidriver()
        driver.session.register("before-call", lambda **_: sys.exit("a call of AWS"))
        try:
            code = driver.main(without_version_2(arguments))
        except SystemExit as ended:
            code = ended.code
    # Before them it prints how it is used.
    lines = said.getvalue().strip().splitlines()[-3:]
    is_cut = any("are required" in line or line.startswith("Missing required") for line in lines)
    if code and (is_whole or not is_cut):
        raise Refused("\n  ".join(lines))


def commands_of_its_own(kind):
    """The commands of the AWS CLI that are more than a call, such as `cloudformation deploy`."""
    for command in kind.__subclasses__():
        if "_run_main" in vars(command):
            yield command
        yield from commands_of_its_own(command)


def sam(arguments, is_whole):
    """Reads the arguments as click does before it runs a command."""
    try:
        outer = cli.make_context("sam", list(arguments))
        name, command, rest = cli.resolve_command(outer, outer.protected_args + outer.args)
        command.make_context(name, list(rest), parent=outer)
    except click.ClickException as refusal:
        if is_whole or "requires an argument" not in refusal.format_message():
            raise Refused(refusal.format_message()) from refusal


def main():
    logging.disable()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "green.json").write_text("{}")
        version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
        templates = ("template.yaml", "template.arm64.yaml", f"cloud-map-sync-{version}-x86_64.yaml")
        links = {"deploy": "deploy", "samconfig.toml": "samconfig.example.toml", **dict.fromkeys(templates, "template.yaml")}
        for name, target in links.items():
            (here / name).symlink_to(ROOT / target)
        os.chdir(here)
        os.environ.update(AWS_DEFAULT_REGION="eu-central-1", AWS_CONFIG_FILE="none", SAM_CLI_TELEMETRY="0")
        for command in json.load(sys.stdin):
            try:
                {"aws": aws, "sam": sam}[command["program"]](command["arguments"], command["is_whole"])
            except (Refused, argparse.ArgumentError) as why:
                found.append(f"{command['at']}: {command['program']} {' '.join(command['arguments'])}\n  {why}")
        os.chdir(ROOT)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
