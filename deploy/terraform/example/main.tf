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

output "queue_url" {
  value = module.cloud_map_sync.queue_url
}
