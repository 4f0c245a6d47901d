output "queue_url" {
  description = "Where messages that ask for a targeted sync go."
  value       = aws_cloudformation_stack.this.outputs["QueueUrl"]
}

output "queue_arn" {
  description = "The same queue, for the policy of whoever sends to it."
  value       = aws_cloudformation_stack.this.outputs["QueueArn"]
}

output "drift_queue_arn" {
  description = "Where deploy/drift-events.yaml in other accounts sends changes in their Cloud Map; null without DriftEvents."
  value       = lookup(aws_cloudformation_stack.this.outputs, "DriftQueueArn", null)
}

output "function_name" {
  description = "The function to invoke by hand."
  value       = aws_cloudformation_stack.this.outputs["FunctionName"]
}

output "live_alias_arn" {
  description = "What the schedule and the queue run, with the parameter LiveVersion; null without it."
  value       = lookup(aws_cloudformation_stack.this.outputs, "LiveAliasArn", null)
}

output "role_arn" {
  description = "The principal of the access entry that each cluster needs."
  value       = aws_cloudformation_stack.this.outputs["FunctionRoleArn"]
}

output "dashboard_url" {
  description = "How the clusters, the queue and the function are doing; null without a dashboard."
  value       = lookup(aws_cloudformation_stack.this.outputs, "DashboardUrl", null)
}
