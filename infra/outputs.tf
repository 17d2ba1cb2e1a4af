output "services" {
  description = "URL of each service."
  value       = { for name, service in google_cloud_run_v2_service.service : name => service.uri }
}

output "buckets" {
  description = "Buckets of the ledger and the artefacts."
  value       = { for name, bucket in google_storage_bucket.bucket : name => bucket.url }
}

output "agents" {
  description = "Subscription and service account of each cluster's agent."
  value = {
    for cluster in var.agents : cluster => {
      subscription = google_pubsub_subscription.agent[cluster].id
      account      = google_service_account.holder["agent-${cluster}"].email
    }
  }
}

output "webhook" {
  description = "URL for GitHub's webhook; null without a secret."
  value       = one([for name, service in google_cloud_run_v2_service.service : "${service.uri}/hooks/github" if name == "hooks"])
}
