# The released template as a stack, and the access entries of its role. All that there is to decide is in
# template.yaml, once for SAM and Terraform alike.

data "aws_s3_bucket" "this" {
  bucket = var.bucket
}

locals {
  prefix = "${var.name}/${filesha256(var.zip)}"
  code   = "s3://${var.bucket}/${aws_s3_object.zip.key}"
  # The released template names the zip that lies beside it.
  template = replace(file(var.template), "CodeUri: ${basename(var.zip)}", "CodeUri: ${local.code}")
}

resource "aws_s3_object" "zip" {
  bucket = var.bucket
  key    = "${local.prefix}.zip"
  source = var.zip

  # The stack rolls back to the zip that it had: that goes after the new one is deployed.
  lifecycle {
    create_before_destroy = true

    precondition {
      condition     = strcontains(file(var.template), "CodeUri: ${basename(var.zip)}\n")
      error_message = "The template is not the one that was released with the zip."
    }
  }
}

# A template in a call may have 51,200 bytes at most, and this one has more.
resource "aws_s3_object" "template" {
  bucket  = var.bucket
  key     = "${local.prefix}-${filesha256(var.template)}.yaml"
  content = local.template

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "this" {
  name         = var.name
  template_url = "https://${data.aws_s3_bucket.this.bucket_regional_domain_name}/${aws_s3_object.template.key}"
  # NAMED_IAM is for the parameter RoleName, AUTO_EXPAND for the SAM transform.
  capabilities = ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
  parameters   = merge({ Clusters = join(",", var.cluster_arns) }, var.parameters)
  tags         = var.tags
}

resource "aws_eks_access_entry" "this" {
  for_each = toset(var.access_entries)

  cluster_name      = each.value
  principal_arn     = aws_cloudformation_stack.this.outputs["FunctionRoleArn"]
  kubernetes_groups = ["cloud-map-sync"]
  tags              = var.tags
}
