# Access to one cluster of another account or Region, by a provider of its own: a stack of deploy/cluster-access.yaml with
# the access entry, and in another account with the role that the function assumes.

resource "aws_cloudformation_stack" "this" {
  name          = "cloud-map-sync-access-${var.cluster_name}"
  template_body = file("${path.module}/../../cluster-access.yaml")
  # NAMED_IAM is for the parameter RoleName.
  capabilities = ["CAPABILITY_NAMED_IAM"]
  parameters   = merge({ ClusterName = var.cluster_name, FunctionRoleArn = var.function_role_arn }, var.parameters)
  tags         = var.tags
}

output "cluster_arn" {
  description = "For the function's setting CLUSTERS."
  value       = aws_cloudformation_stack.this.outputs["ClusterArn"]
}

output "role_arn" {
  description = "roleArn of this cluster in ClusterSettings; null without OwnRole."
  value       = lookup(aws_cloudformation_stack.this.outputs, "RoleArn", null)
}
