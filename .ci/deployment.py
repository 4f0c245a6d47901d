"""Deploys a release as README.md does, by SAM CLI with stand-ins of S3 and CloudFormation: first the dry run, then its end.

    .ci/deployment.py FOLDER    with the zip, the template and the answers that .ci/release makes

The stand-ins are told what SAM uploads and asks for, and make nothing. The answers are taken as they are, in a folder with
the output of an older `sam build`, which `sam deploy` would prefer. Each deployment must have the released template with
the released zip, and the parameters of the answers and no others.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from iam import ROOT, Template, yaml

BUCKET = "aws-sam-cli-managed-default-samclisourcebucket-0123456789ab"
CLUSTERS = "arn:aws:eks:eu-central-1:111122223333:cluster/blue"
END_OF_DRY_RUN = re.search(r"sed -i\.bak '(.*true/.*false/)' samconfig.toml && sam deploy", (ROOT / "README.md").read_text())[1]
STACK = "<StackId>arn:aws:cloudformation:eu-central-1:111122223333:stack/{name}/1</StackId><StackName>{name}</StackName><CreationTime>2026-01-01T00:00:00Z</CreationTime>"


class Account(ThreadingHTTPServer):
    """The objects of the bucket, the stacks' states, and what each deployment asked for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.stacks, self.deployments = {}, {}, []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, text="", headers=()):
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(text)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        known = self.path in self.server.objects
        self.answer(200 if known or self.path.count("/") == 1 else 404)

    def do_GET(self):
        self.answer(200, '<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">eu-central-1</LocationConstraint>')

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"])) if "Content-Length" in self.headers else b""
        self.server.objects[urlsplit(self.path).path] = body
        self.answer(200, headers=[("ETag", '"1"')])

    def do_POST(self):
        asked = {name: values[0] for name, values in parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode(), keep_blank_values=True).items()}
        action, name = asked["Action"], asked.get("StackName", "").split("/")[-2 if "/" in asked.get("StackName", "") else 0]
        result = getattr(self, action, None)
        if not result:
            self.answer(400, f"<ErrorResponse><Error><Code>InvalidAction</Code><Message>{action}</Message></Error></ErrorResponse>")
        elif (text := result(name, asked)) is None:
            message = f"Stack with id {name} does not exist"
            self.answer(400, f"<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>{message}</Message></Error></ErrorResponse>")
        else:
            self.answer(200, f'<{action}Response xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><{action}Result>{text}</{action}Result></{action}Response>')

    def DescribeStacks(self, name, _):
        if name == "aws-sam-cli-managed-default":
            more = f"<Outputs><member><OutputKey>SourceBucket</OutputKey><OutputValue>{BUCKET}</OutputValue></member></Outputs>"
            more += "<Tags><member><Key>ManagedStackSource</Key><Value>AwsSamCli</Value></member></Tags>"
        elif name in self.server.stacks:
            more = ""
        else:
            return None
        state = self.server.stacks.get(name, "CREATE_COMPLETE")
        return f"<Stacks><member>{STACK.format(name=name)}<StackStatus>{state}</StackStatus>{more}</member></Stacks>"

    def GetTemplateSummary(self, name, _):
        names = self.server.stacks and list(yaml.load((ROOT / "template.yaml").read_text(), Template)["Parameters"])
        return f"<Parameters>{''.join(f'<member><ParameterKey>{it}</ParameterKey></member>' for it in names)}</Parameters>"

    def CreateChangeSet(self, name, asked):
        self.server.stacks.setdefault(name, "REVIEW_IN_PROGRESS")
        parameters = {}
        for key in (key for key in asked if key.endswith(".ParameterKey")):
            place = key.removesuffix(".ParameterKey")
            parameters[asked[key]] = asked.get(f"{place}.ParameterValue", "as before")
        template = asked.get("TemplateBody") or self.server.objects[urlsplit(asked["TemplateURL"]).path].decode()
        self.server.deployments.append((asked["ChangeSetType"], yaml.load(template, Template), parameters, asked["Capabilities.member.1"]))
        return f"<Id>arn:aws:cloudformation:eu-central-1:111122223333:changeSet/1/1</Id>{STACK.format(name=name)}"

    def DescribeChangeSet(self, name, _):
        change = "<Action>Add</Action><LogicalResourceId>Queue</LogicalResourceId><ResourceType>AWS::SQS::Queue</ResourceType><Replacement>False</Replacement>"
        return f"<Status>CREATE_COMPLETE</Status>{STACK.format(name=name)}<Changes><member><Type>Resource</Type><ResourceChange>{change}</ResourceChange></member></Changes>"

    def ExecuteChangeSet(self, name, _):
        is_new = self.server.stacks[name] == "REVIEW_IN_PROGRESS"
        self.server.stacks[name] = "CREATE_COMPLETE" if is_new else "UPDATE_COMPLETE"
        return ""

    def DescribeStackEvents(self, name, _):
        of_stack = f"<LogicalResourceId>{name}</LogicalResourceId><PhysicalResourceId>arn:aws:cloudformation:eu-central-1:111122223333:stack/{name}/1</PhysicalResourceId>"
        state = f"<ResourceStatus>{self.server.stacks[name]}</ResourceStatus><ResourceType>AWS::CloudFormation::Stack</ResourceType>"
        time = datetime.now(timezone.utc).isoformat()
        return f"<StackEvents><member>{STACK.format(name=name)}<EventId>{time}</EventId><Timestamp>{time}</Timestamp>{of_stack}{state}</member></StackEvents>"


def deploy(folder, address):
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder), "SAM_CLI_TELEMETRY": "0",
        "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "eu-central-1",
    }  # fmt: skip
    done = subprocess.run(["sam", "deploy", "--no-confirm-changeset"], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def main():
    (archive,) = Path(sys.argv[1]).glob("cloud-map-sync-*.zip")
    account = Account()
    threading.Thread(target=account.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for suffix in ("zip", "yaml"):
            shutil.copy(archive.with_suffix(f".{suffix}"), folder)
        shutil.copy(archive.with_suffix(".toml"), folder / "samconfig.toml")
        (folder / ".aws-sam" / "build").mkdir(parents=True)
        (folder / ".aws-sam" / "build" / "template.yaml").write_text("Resources: {}\n")
        deploy(folder, f"http://127.0.0.1:{account.server_port}")
        subprocess.run(["sed", "-i.bak", END_OF_DRY_RUN, "samconfig.toml"], cwd=folder, check=True)
        deploy(folder, f"http://127.0.0.1:{account.server_port}")
    released = yaml.load(archive.with_suffix(".yaml").read_text(), Template)
    for (kind, template, parameters, capability), expected, dry_run in zip(account.deployments, ("CREATE", "UPDATE"), ("true", "false"), strict=True):
        for part in ("Resources", "Parameters", "Conditions", "Outputs"):
            assert template.get(part, {}).keys() == released[part].keys(), part
        function, of_release = (it["Resources"]["SyncFunction"]["Properties"] for it in (template, released))
        assert account.objects[function["CodeUri"].removeprefix("s3:/")] == archive.read_bytes(), function["CodeUri"]
        assert function["Architectures"] == of_release["Architectures"] and function.keys() == of_release.keys()
        given = {it: value for it, value in parameters.items() if value != "as before"}
        assert (kind, given, capability) == (expected, {"Clusters": CLUSTERS, "DryRun": dry_run}, "CAPABILITY_NAMED_IAM"), (kind, given, capability)


if __name__ == "__main__":
    main()
