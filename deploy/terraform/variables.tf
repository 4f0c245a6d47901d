variable "name" {
  description = "The stack's name, which the function and its queue have, too."
  type        = string
  default     = "cloud-map-sync"

  validation {
    condition     = can(regex("^[A-Za-z][0-9A-Za-z-]{0,63}$", var.name))
    error_message = "A function's name has 64 characters at most: letters, digits and -, the first one a letter."
  }
}

variable "bucket" {
  description = "An S3 bucket of the same account and Region, in which the zip and the template are kept."
  type        = string
}

variable "zip" {
  description = "The path of the released zip, cloud-map-sync-VERSION-ARCHITECTURE.zip."
  type        = string
}

variable "template" {
  description = "The path of the template that was released with it, cloud-map-sync-VERSION-ARCHITECTURE.yaml."
  type        = string
}

variable "cluster_arns" {
  description = "ARNs of the EKS clusters to sync."
  type        = list(string)

  validation {
    condition     = length(var.cluster_arns) > 0
    error_message = "At least one cluster is required."
  }
}

variable "access_entries" {
  description = "Names of those of the clusters, in this account and Region, that get an access entry here; cluster-access is a module for the others. Apply deploy/rbac.yaml in each."
  type        = list(string)
  default     = []
}

variable "parameters" {
  description = "Further parameters of the template, by their names there. The first deployment is a dry run: DryRun = \"false\" ends that."
  type        = map(string)
  default     = {}
}

variable "tags" {
  description = "Tags of the stack, its resources and the access entries."
  type        = map(string)
  default     = {}
}
