"""The rights of whoever deploys: deploy/deployer-policy.json, made from what CloudFormation's own handlers ask for.

cfn-lint has a copy of the schemas of CloudFormation's resource types, each with the actions of its handlers. The policy
allows those of every type in the templates, and the calls of SAM CLI, on what has a name that begins with cloud-map-sync.
This fails where the policy is out of date, and with --write writes it.
"""

import json
import re
import sys
from pathlib import Path

import cfnlint

from iam import REFERENCE, ROOT, read

POLICY = ROOT / "deploy" / "deployer-policy.json"
SCHEMAS = Path(cfnlint.__file__).parent / "data" / "schemas"
TEMPLATES = ["template.yaml", "deploy/cluster-access.yaml", "deploy/health-checks.yaml"]
# What SAM makes of its function, and the stack with the bucket for packages that resolve_s3 makes.
BESIDE = {"AWS::Serverless::Function": {
    "AWS::Lambda::Function", "AWS::Lambda::EventInvokeConfig", "AWS::Lambda::EventSourceMapping", "AWS::Scheduler::Schedule",
}}  # fmt: skip
OF_SAM = {"AWS::S3::Bucket", "AWS::S3::BucketPolicy"}
CALLS_OF_SAM = {
    "cloudformation:CreateChangeSet", "cloudformation:CreateStack", "cloudformation:DeleteChangeSet", "cloudformation:DeleteStack",
    "cloudformation:DescribeChangeSet", "cloudformation:DescribeStackEvents", "cloudformation:DescribeStackResource",
    "cloudformation:DescribeStacks", "cloudformation:ExecuteChangeSet", "cloudformation:GetTemplate",
    "cloudformation:GetTemplateSummary", "cloudformation:UpdateStack",
    "s3:DeleteObject", "s3:GetObject", "s3:PutObject",
    # By the pages: the plan.
    "lambda:InvokeFunction",
}  # fmt: skip
# What handlers do for properties that no template here has; a KMS key's own policy names who deploys.
UNUSED = re.compile(
    r"^(kms|codedeploy|elasticfilesystem|s3files|firehose|s3tables|s3:REST)|Provisioned|CapacityProvider|ScalingConfig|RuntimeAlias|GetLayerVersion"
    r"|DataProtection|LogDelivery|IndexPolic|BearerToken|DeletionProtection|logs:\w*ResourcePolic|PutFunctionRecursion"
    r"|PutRuntimeManagement|GetCodeSigning|(Put|Delete)FunctionCodeSigning|PublishVersion|AccountPublicAccessBlock|Certificate"
)
# Of a bucket the template of SAM has four properties.
OF_BUCKETS = re.compile(r":(\w+Bucket|\w+BucketPolicy|\w+Encryption\w*|\w+BucketVersioning|\w+PublicAccessBlock|\w+BucketTagging|\w+Object)$")
NAME = "cloud-map-sync"
ARNS = {
    "cloudformation:stack": [f"arn:aws:cloudformation:*:*:stack/{NAME}*/*", "arn:aws:cloudformation:*:*:stack/aws-sam-cli-managed-default/*",
        "arn:aws:cloudformation:*:aws:transform/Serverless-2016-10-31"],
    "cloudwatch:alarm": [f"arn:aws:cloudwatch:*:*:alarm:{NAME}*"], "cloudwatch:dashboard": [f"arn:aws:cloudwatch::*:dashboard/{NAME}*"],
    "eks:cluster": ["arn:aws:eks:*:*:cluster/*"], "eks:access-entry": ["arn:aws:eks:*:*:access-entry/*"],
    "iam:role": [f"arn:aws:iam::*:role/{NAME}*"],
    "lambda:function": [f"arn:aws:lambda:*:*:function:{NAME}*"], "lambda:eventSourceMapping": ["arn:aws:lambda:*:*:event-source-mapping:*"],
    "logs:log-group": [f"arn:aws:logs:*:*:log-group:/aws/lambda/{NAME}*"],
    "s3:bucket": ["arn:aws:s3:::aws-sam-cli-managed-default-*"], "s3:object": ["arn:aws:s3:::aws-sam-cli-managed-default-*/*"],
    "scheduler:schedule": [f"arn:aws:scheduler:*:*:schedule/default/{NAME}*"], "sqs:queue": [f"arn:aws:sqs:*:*:{NAME}*"],
}  # fmt: skip
# A managed policy without white space.
LIMIT = 6_144


def types():
    """The types of all resources, as CloudFormation has them after the transform of SAM."""
    found = {resource["Type"] for path in TEMPLATES for resource in read(path)["Resources"].values()}
    return set().union(*(BESIDE.get(it, {it}) for it in found)) | OF_SAM


def needed():
    schemas = json.loads((SCHEMAS / "providers" / "us-east-1.json").read_text())
    found = set(CALLS_OF_SAM)
    for kind in types():
        handlers = json.loads((SCHEMAS / "resources" / f"{schemas[kind]}.json").read_text())["handlers"]
        asked = {it for name, handler in handlers.items() if name != "list" for it in handler["permissions"]}
        asked = {it for it in asked if not UNUSED.search(it)}
        found |= {it for it in asked if kind not in OF_SAM or OF_BUCKETS.search(it)} - ({"iam:PassRole"} if kind in OF_SAM else set())
    unknown = {it for it in found if it.split(":")[1] not in REFERENCE[it.split(":")[0]]["privileges"]}
    return found - unknown


def policy():
    """A statement for each service, one for what takes no resource, and one for the roles that are handed to services."""
    statements = {}
    for action in sorted(needed()):
        service, name = action.split(":")
        kinds = [kind for kind in REFERENCE[service]["privileges"][name]["resource_types"] if kind]
        arns = [arn for kind in kinds for arn in ARNS.get(f"{service}:{kind}", [])]
        if kinds and not arns:
            raise SystemExit(f"ARNS has no {service}:{kinds} for {action}")
        sid = "PassRoles" if name == "PassRole" else service.capitalize() if arns else "WithoutResource"
        statement = statements.setdefault(sid, {"Sid": sid, "Effect": "Allow", "Action": [], "Resource": [] if arns else "*"})
        statement["Action"].append(action)
        if arns:
            statement["Resource"] = sorted({*statement["Resource"], *arns})
    services = ["lambda.amazonaws.com", "scheduler.amazonaws.com"]
    statements["PassRoles"]["Condition"] = {"StringEquals": {"iam:PassedToService": services}}
    return {"Version": "2012-10-17", "Statement": list(statements.values())}


def main():
    made = policy()
    if (size := len(json.dumps(made, separators=(",", ":")))) > LIMIT:
        return f"the policy has {size} characters"
    text = json.dumps(made, indent=2) + "\n"
    if "--write" in sys.argv:
        POLICY.write_text(text)
    elif POLICY.read_text() != text:
        return f"{POLICY.name} is out of date; run .ci/deployer.py --write"


if __name__ == "__main__":
    sys.exit(main())
