# The module of a release by its tag, with the zip and the template of that release beside this file. Put the
# repository's URL, or that of your copy of it, and your own values here.

module "cloud_map_sync" {
  source = "git::https://github.com/YOUR-ORGANIZATION/cloud-map-sync.git//deploy/terraform?ref=v0.1.0"

  bucket         = "my-artifacts"
  zip            = "${path.module}/cloud-map-sync-0.1.0-x86_64.zip"
  template       = "${path.module}/cloud-map-sync-0.1.0-x86_64.yaml"
  cluster_arns   = [module.eks_blue.cluster_arn]
  access_entries = [module.eks_blue.cluster_name]
  parameters     = { HostedZoneIds = "Z0123456789ABCDEFGHIJ" }
}

# A cluster of another account. There a policy names the function's role, so the role comes first: AssumableRoleArns and
# ClusterSettings of the module above name this one by its RoleName.
provider "aws" {
  alias  = "green"
  region = "eu-west-1"
  assume_role { role_arn = "arn:aws:iam::444455556666:role/terraform" }
}

module "cluster_access_green" {
  source    = "git::https://github.com/YOUR-ORGANIZATION/cloud-map-sync.git//deploy/terraform/cluster-access?ref=v0.1.0"
  providers = { aws = aws.green }

  cluster_name      = "green"
  function_role_arn = module.cloud_map_sync.role_arn
  parameters        = { OwnRole = "yes", RoleName = "cloud-map-sync-green" }
}

output "queue_url" {
  value = module.cloud_map_sync.queue_url
}
