resource "google_storage_bucket" "bucket" {
  for_each                    = local.rights.buckets
  name                        = "${var.project}-${local.prefix}${each.key}"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  # Terraform never deletes a ledger bucket with objects: an operator deletes them manually.
  force_destroy = !var.protected && each.key != "ledger"

  dynamic "encryption" {
    for_each = var.kms_key[*]
    content {
      default_kms_key_name = encryption.value
    }
  }

  # Existing records cannot be changed or deleted by any account.
  dynamic "retention_policy" {
    for_each = each.key == "ledger" ? [1] : []
    content {
      retention_period = var.ledger_retention_days * 86400
    }
  }

  versioning {
    enabled = each.key == "artefacts"
  }

  dynamic "lifecycle_rule" {
    for_each = each.key == "artefacts" ? [1] : []
    content {
      condition {
        age            = 30
        matches_prefix = ["artefacts/"]
      }
      action {
        type          = "SetStorageClass"
        storage_class = "NEARLINE"
      }
    }
  }

  dynamic "lifecycle_rule" {
    for_each = each.key == "artefacts" ? [1] : []
    content {
      condition {
        age            = var.artefact_days
        matches_prefix = ["artefacts/", "sources/", "notices/"]
      }
      action {
        type = "Delete"
      }
    }
  }

  dynamic "lifecycle_rule" {
    for_each = each.key == "build-logs" ? [1] : []
    content {
      condition {
        age = var.artefact_days
      }
      action {
        type = "Delete"
      }
    }
  }

  # The hints about waiting loads are obsolete after a day. All other objects below warehouse/ record the loaded rows.
  dynamic "lifecycle_rule" {
    for_each = each.key == "artefacts" ? [1] : []
    content {
      condition {
        age            = 1
        matches_prefix = [for folder in ["waiting", "waiting-2", "waiting-3"] : "warehouse/${var.project}.${google_bigquery_dataset.burnin.dataset_id}/${folder}/"]
      }
      action {
        type = "Delete"
      }
    }
  }

  depends_on = [google_project_service.api, google_kms_crypto_key_iam_member.agent]

  # Deletes incomplete uploads.
  lifecycle_rule {
    condition {
      age = 7
    }
    action {
      type = "AbortIncompleteMultipartUpload"
    }
  }
}
