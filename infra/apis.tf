# APIs that Burnin calls, or that its resources belong to. They stay enabled: other software may use them.
resource "google_project_service" "api" {
  for_each = toset([
    "artifactregistry", "bigquery", "cloudbuild", "cloudkms", "cloudresourcemanager", "cloudscheduler", "compute", "container", "file",
    "iam", "iamcredentials", "logging", "monitoring", "pubsub", "run", "secretmanager", "storage",
  ])
  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false
}
