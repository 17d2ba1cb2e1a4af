resource "google_artifact_registry_repository" "images" {
  repository_id = "burnin"
  location      = var.region
  format        = "DOCKER"
  kms_key_name  = var.kms_key
  depends_on    = [google_project_service.api, google_kms_crypto_key_iam_member.agent]

  # Services run by digest. Immutable tags would exempt tagged images from the cleanup below.
  cleanup_policies {
    id     = "old"
    action = "DELETE"
    condition {
      older_than = "7776000s"
    }
  }

  cleanup_policies {
    id     = "newest"
    action = "KEEP"
    most_recent_versions {
      keep_count = 20
    }
  }
}

resource "google_service_account" "delivery" {
  account_id   = "${local.prefix}delivery"
  display_name = "Burnin: builds, tests and deploys Burnin"
}

resource "google_project_iam_member" "delivery" {
  for_each = toset(["roles/artifactregistry.writer", "roles/logging.logWriter", "roles/run.developer"])
  project  = var.project
  role     = each.key
  member   = google_service_account.delivery.member
}

resource "google_service_account_iam_member" "delivery" {
  for_each           = local.services
  service_account_id = google_service_account.holder[each.key].name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.delivery.member
}

resource "google_cloudbuild_trigger" "push" {
  count           = var.repository == null ? 0 : 1
  name            = "${local.prefix}push"
  location        = var.region
  filename        = "cloudbuild.yaml"
  service_account = google_service_account.delivery.id
  substitutions = {
    _REGION   = var.region
    _REGISTRY = "${var.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.images.repository_id}"
  }

  github {
    owner = var.repository.owner
    name  = var.repository.name
    push {
      branch = "^main$"
    }
  }
}
