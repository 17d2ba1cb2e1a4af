# One topic for each service that handles commands, one for facts of services, one for facts of agents, one for ends of runs, and one
# for dead letters. Cloud Build defines the name of its own topic.
locals {
  topics = toset(concat(["facts", "agent-facts", "replies", "agent"], [for name, service in local.receivers : service.receives]))
  pubsub = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"

  publishers = merge([
    for holder, of in merge(
      local.services,
      { for cluster in var.agents : "agent-${cluster}" => local.rights.agent },
      { for member in var.agent_members : member => local.rights.agent },
    ) : { for topic in of.publishes : "${holder} ${topic}" => { holder = holder, topic = topic } }
  ]...)
}

data "google_project" "this" {
  project_id = var.project
}

resource "google_pubsub_topic" "topic" {
  for_each                   = setunion(local.topics, ["dead"])
  name                       = "${local.prefix}${each.key}"
  kms_key_name               = var.kms_key
  message_retention_duration = "604800s"
  depends_on                 = [google_project_service.api, google_kms_crypto_key_iam_member.agent]
}

resource "google_pubsub_topic" "cloud_builds" {
  name         = "cloud-builds"
  kms_key_name = var.kms_key
  depends_on   = [google_project_service.api, google_kms_crypto_key_iam_member.agent]
}

# Other systems that request runs by messages.
resource "google_pubsub_topic_iam_member" "requesters" {
  for_each = var.requesters
  topic    = google_pubsub_topic.topic["gateway"].name
  role     = "roles/pubsub.publisher"
  member   = each.value
}

# Systems that wait for the replies, each with its own subscription.
resource "google_pubsub_subscription" "replies" {
  for_each                   = var.listeners
  name                       = "${local.prefix}replies-${each.key}"
  topic                      = google_pubsub_topic.topic["replies"].id
  message_retention_duration = "604800s"
  expiration_policy {
    ttl = "" # never
  }
}

resource "google_pubsub_subscription_iam_member" "listeners" {
  for_each     = var.listeners
  subscription = google_pubsub_subscription.replies[each.key].name
  role         = "roles/pubsub.subscriber"
  member       = each.value
}

resource "google_pubsub_topic_iam_member" "publisher" {
  for_each = local.publishers
  topic    = google_pubsub_topic.topic[each.value.topic].name
  role     = "roles/pubsub.publisher"
  member   = local.members[each.value.holder]
}

# Each subscription has its own account, which can call one service only.
resource "google_service_account" "push" {
  for_each     = local.receivers
  account_id   = "${local.prefix}push-${each.key}"
  display_name = "Burnin: delivers to ${each.key}"
}

resource "google_service_account_iam_member" "push_token" {
  for_each           = local.receivers
  service_account_id = google_service_account.push[each.key].name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = local.pubsub
}

locals {
  pushed = merge(
    { for name, service in local.receivers : name => { service = name, topic = service.receives, path = "", filter = null, seconds = 604800 } },
    {
      # The notifier sets the pending commit status when a run is recorded. The filter only saves deliveries: the notifier ignores other
      # facts.
      begun = {
        service = "notifier", topic = "facts", path = "", seconds = 86400
        filter  = "attributes.\"ce-type\" = \"dev.burnin.run.requested.v1\""
      }
      # The conductor accepts only the types of agents' facts on this path.
      facts-of-agents = { service = "conductor", topic = "agent-facts", path = "/agent-facts", filter = null, seconds = 604800 }
    },
  )
}

resource "google_pubsub_subscription" "push" {
  for_each                   = local.pushed
  name                       = "${local.prefix}${each.key}"
  topic                      = google_pubsub_topic.topic[each.value.topic].id
  filter                     = each.value.filter
  ack_deadline_seconds       = 60 # longer than the service's timeout, so that concurrent deliveries are rare
  message_retention_duration = "${each.value.seconds}s"

  push_config {
    push_endpoint = "${google_cloud_run_v2_service.service[each.value.service].uri}${each.value.path}"
    oidc_token {
      service_account_email = google_service_account.push[each.value.service].email
      audience              = google_cloud_run_v2_service.service[each.value.service].uri
    }
  }

  retry_policy {
    minimum_backoff = "1s"
    maximum_backoff = "60s"
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.topic["dead"].id
    max_delivery_attempts = 100
  }

  expiration_policy {
    ttl = "" # never
  }
}

# Cloud Build's notifications: the builder polls an image's build, the provisioner a cluster's deployment or teardown, and the gateway
# starts workflows with a build trigger.
resource "google_pubsub_subscription" "cloud_builds" {
  for_each                   = { cloud-builds = "builder", cluster-builds = "provisioner", triggers = "gateway" }
  name                       = "${local.prefix}${each.key}"
  topic                      = google_pubsub_topic.cloud_builds.id
  ack_deadline_seconds       = 60
  message_retention_duration = "86400s"

  push_config {
    push_endpoint = google_cloud_run_v2_service.service[each.value].uri
    oidc_token {
      service_account_email = google_service_account.push[each.value].email
      audience              = google_cloud_run_v2_service.service[each.value].uri
    }
  }

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  expiration_policy {
    ttl = ""
  }
}

moved {
  from = google_pubsub_topic_iam_member.says
  to   = google_pubsub_topic_iam_member.publisher
}

moved {
  from = google_pubsub_subscription.begun
  to   = google_pubsub_subscription.push["begun"]
}

moved {
  from = google_pubsub_subscription.agent_facts
  to   = google_pubsub_subscription.push["facts-of-agents"]
}

moved {
  from = google_pubsub_subscription_iam_member.forwards["agent-facts"]
  to   = google_pubsub_subscription_iam_member.forwards["facts-of-agents"]
}

# Agents pull: each has its own subscription with the commands for its cluster.
resource "google_pubsub_subscription" "agent" {
  for_each                   = var.agents
  name                       = "${local.prefix}agent-${each.key}"
  topic                      = google_pubsub_topic.topic["agent"].id
  filter                     = "attributes.cluster = \"${each.key}\""
  ack_deadline_seconds       = 60
  message_retention_duration = "604800s"

  retry_policy {
    minimum_backoff = "1s"
    maximum_backoff = "60s"
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.topic["dead"].id
    max_delivery_attempts = 100
  }

  expiration_policy {
    ttl = ""
  }
}

resource "google_pubsub_subscription_iam_member" "agent" {
  for_each     = var.agents
  subscription = google_pubsub_subscription.agent[each.key].name
  role         = "roles/pubsub.subscriber"
  member       = google_service_account.holder["agent-${each.key}"].member
}

# Without a subscription dead letters would be lost; without these permissions Pub/Sub would write no dead letters.
resource "google_pubsub_subscription" "dead" {
  name                       = "${local.prefix}dead"
  topic                      = google_pubsub_topic.topic["dead"].id
  message_retention_duration = "2678400s"
  expiration_policy {
    ttl = ""
  }
}

resource "google_pubsub_topic_iam_member" "dead" {
  topic  = google_pubsub_topic.topic["dead"].name
  role   = "roles/pubsub.publisher"
  member = local.pubsub
}

resource "google_pubsub_subscription_iam_member" "forwards" {
  for_each = merge(
    { for name, subscription in google_pubsub_subscription.push : name => subscription.name },
    { for name, subscription in google_pubsub_subscription.agent : "agent-${name}" => subscription.name },
  )
  subscription = each.value
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub
}
