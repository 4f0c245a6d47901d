"""Deploys a release as README.md does, by SAM CLI and moto's stand-ins of S3 and CloudFormation: first the dry run, then its end.

    .ci/deployment.py FOLDER    with the zip, the template and the answers that .ci/release makes

The answers are taken as they are, in a folder with the output of an older `sam build`, which `sam deploy` would prefer. Each
change set must have the released template with the released zip, and the parameters of the answers and no others; none is
executed, since moto knows few of its resources.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import boto3
from botocore.client import BaseClient
from moto import mock_aws
from samcli.cli.main import cli

from iam import ROOT, Template, yaml

CLUSTERS = "arn:aws:eks:eu-central-1:111122223333:cluster/blue"
END_OF_DRY_RUN = re.search(r"sed -i\.bak '(.*true/.*false/)' samconfig.toml && sam deploy", (ROOT / "README.md").read_text())[1]
# The stack with the bucket, as SAM makes it. moto's would lack its tag.
OF_SAM = """{"Resources": {"Bucket": {"Type": "AWS::S3::Bucket"}}, "Outputs": {"SourceBucket": {"Value": {"Ref": "Bucket"}}}}"""


def change_set():
    """What `sam deploy` asks for here: the arguments of its change set, the template, and the zip that this one names."""
    asked, call = [], BaseClient._make_api_call

    def record(client, operation, arguments):
        asked.extend([arguments] if operation == "CreateChangeSet" else [])
        return call(client, operation, arguments)

    with contextlib.redirect_stdout(sys.stderr), mock.patch.object(BaseClient, "_make_api_call", record):
        cli(["deploy", "--no-confirm-changeset", "--no-execute-changeset"], standalone_mode=False)
    objects = boto3.client("s3")

    def content(url):
        bucket, _, key = url.partition("://")[2].removeprefix("s3.eu-central-1.amazonaws.com/").partition("/")
        return objects.get_object(Bucket=bucket, Key=key)["Body"].read()

    (arguments,) = asked
    template = yaml.load(content(arguments["TemplateURL"]), Template)
    return arguments, template, content(template["Resources"]["SyncFunction"]["Properties"]["CodeUri"])


def check(archive, dry_run):
    """One deployment, of the files of a release beside its zip."""
    arguments, template, uploaded = change_set()
    released = yaml.load(archive.with_suffix(".yaml").read_text(), Template)
    given = {it["ParameterKey"]: it["ParameterValue"] for it in arguments["Parameters"]}
    assert given == {"Clusters": CLUSTERS, "DryRun": dry_run}, given
    assert arguments["Capabilities"] == ["CAPABILITY_NAMED_IAM"], arguments
    for part in ("Resources", "Parameters", "Conditions", "Outputs"):
        assert template.get(part, {}).keys() == released[part].keys(), part
    function, of_release = (it["Resources"]["SyncFunction"]["Properties"] for it in (template, released))
    assert uploaded == archive.read_bytes(), function["CodeUri"]
    assert function["Architectures"] == of_release["Architectures"] and function.keys() == of_release.keys()


@mock_aws
def main():
    (archive,) = Path(sys.argv[1]).resolve().glob("cloud-map-sync-*.zip")
    boto3.client("cloudformation").create_stack(
        StackName="aws-sam-cli-managed-default", TemplateBody=OF_SAM, Tags=[{"Key": "ManagedStackSource", "Value": "AwsSamCli"}]
    )
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for suffix in ("zip", "yaml"):
            shutil.copy(archive.with_suffix(f".{suffix}"), folder)
        shutil.copy(archive.with_suffix(".toml"), "samconfig.toml")
        Path(".aws-sam/build").mkdir(parents=True)
        Path(".aws-sam/build/template.yaml").write_text("Resources: {}\n")
        check(archive, "true")
        subprocess.run(["sed", "-i.bak", END_OF_DRY_RUN, "samconfig.toml"], check=True)
        check(archive, "false")
        os.chdir(ROOT)


if __name__ == "__main__":
    os.environ.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_DEFAULT_REGION="eu-central-1", SAM_CLI_TELEMETRY="0")
    main()
