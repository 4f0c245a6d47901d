output "queue_url" {
  description = "Where messages that ask for a targeted sync go."
  value       = aws_cloudformation_stack.this.outputs["QueueUrl"]
}

output "queue_arn" {
  description = "The same queue, for the policy of whoever sends to it."
  value       = aws_cloudformation_stack.this.outputs["QueueArn"]
}

output "function_name" {
  description = "The function to invoke by hand."
  value       = aws_cloudformation_stack.this.outputs["FunctionName"]
}

output "role_arn" {
  description = "The principal of the access entry that each cluster needs."
  value       = aws_cloudformation_stack.this.outputs["FunctionRoleArn"]
}

output "dashboard_url" {
  description = "How the clusters, the queue and the function are doing."
  value       = aws_cloudformation_stack.this.outputs["DashboardUrl"]
}
