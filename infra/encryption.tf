# Google's services use a customer-managed key with their own service agents (see the page "Use customer-managed encryption keys" of each
# product).
data "google_storage_project_service_account" "agent" {}

data "google_bigquery_default_service_account" "agent" {}

locals {
  encrypting = var.kms_key == null ? {} : {
    storage  = data.google_storage_project_service_account.agent.member
    bigquery = data.google_bigquery_default_service_account.agent.member
    pubsub   = local.pubsub
    registry = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-artifactregistry.iam.gserviceaccount.com"
  }
}

resource "google_kms_crypto_key_iam_member" "agent" {
  for_each      = local.encrypting
  crypto_key_id = var.kms_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = each.value
  depends_on    = [google_project_service.api]
}
