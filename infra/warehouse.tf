resource "google_bigquery_dataset" "burnin" {
  dataset_id                 = "burnin"
  location                   = var.region
  delete_contents_on_destroy = !var.protected
  depends_on                 = [google_project_service.api, google_kms_crypto_key_iam_member.agent]

  dynamic "default_encryption_configuration" {
    for_each = var.kms_key[*]
    content {
      kms_key_name = default_encryption_configuration.value
    }
  }
}

# Columns are generated from the types of crates/warehouse into schemas/bigquery.
resource "google_bigquery_table" "table" {
  for_each = {
    measurements = ["workflow", "identity", "size_bytes", "placement"]
    metrics      = ["workflow", "check_name", "metric", "node"]
    findings     = ["workflow", "code", "node", "gpu"]
    node_results = ["workflow", "cluster", "node"]
    verdicts     = ["workflow", "identity"]
    runs         = ["workflow"]
  }
  dataset_id          = google_bigquery_dataset.burnin.dataset_id
  table_id            = each.key
  schema              = file("${path.module}/../schemas/bigquery/${each.key}.json")
  clustering          = each.value
  deletion_protection = var.protected

  time_partitioning {
    type  = "DAY"
    field = "requested_at"
  }

  dynamic "encryption_configuration" {
    for_each = var.kms_key[*]
    content {
      kms_key_name = encryption_configuration.value
    }
  }
}

resource "google_bigquery_table" "view" {
  #checkov:skip=CKV_GCP_121:a view stores no data
  #checkov:skip=CKV_GCP_80:a view stores no data
  for_each            = toset([for file in fileset("${path.module}/../schemas/bigquery/views", "*.sql") : trimsuffix(file, ".sql")])
  dataset_id          = google_bigquery_dataset.burnin.dataset_id
  table_id            = each.key
  deletion_protection = false

  view {
    query = templatefile("${path.module}/../schemas/bigquery/views/${each.key}.sql", {
      dataset = "${var.project}.${google_bigquery_dataset.burnin.dataset_id}"
    })
    use_legacy_sql = false
  }

  depends_on = [google_bigquery_table.table]
}
