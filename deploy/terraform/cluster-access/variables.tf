variable "cluster_name" {
  description = "The name of the EKS cluster."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "Give the cluster's name, for instance green, not its ARN."
  }
}

variable "function_role_arn" {
  description = "The function's role, the output role_arn of the main module."
  type        = string

  validation {
    condition     = can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/", var.function_role_arn))
    error_message = "Give a role's ARN, for instance module.cloud_map_sync.role_arn."
  }
}

variable "parameters" {
  description = "Further parameters of deploy/cluster-access.yaml: OwnRole = \"yes\" and RoleName in another account."
  type        = map(string)
  default     = {}
}

variable "tags" {
  description = "Tags of the stack and its resources."
  type        = map(string)
  default     = {}
}
