output "services" {
  description = "Where each service is."
  value       = { for name, service in google_cloud_run_v2_service.service : name => service.uri }
}

output "buckets" {
  description = "Where the ledger and the artefacts lie."
  value       = { for name, bucket in google_storage_bucket.bucket : name => bucket.url }
}

output "agents" {
  description = "The subscription and the account of each cluster's agent."
  value = {
    for cluster in var.agents : cluster => {
      subscription = google_pubsub_subscription.agent[cluster].id
      account      = google_service_account.holder["agent-${cluster}"].email
    }
  }
}

output "webhook" {
  description = "What GitHub is given as the webhook's address; none where there is no secret."
  value       = one([for name, service in google_cloud_run_v2_service.service : "${service.uri}/hooks/github" if name == "hooks"])
}
