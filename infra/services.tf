locals {
  reachable = concat(["dashboard", "hooks"], length(var.operators) > 0 ? ["gateway"] : [])
  # Values of the placeholders for environment variables in rights.json; any other value is literal.
  values = merge(
    { for name, bucket in google_storage_bucket.bucket : name => "gs://${bucket.name}" },
    { for build in keys(local.builds) : "account ${build}" => google_service_account.holder[build].name },
    {
      cloud-build = "cloud-build:${var.project}/${var.region}"
      warehouse   = "bigquery:${var.project}.${google_bigquery_dataset.burnin.dataset_id}"
      link        = var.link
    },
  )
  environment = {
    for name, service in local.services : name => {
      for variable, value in service.environment : variable => lookup(local.values, value, value)
      if lookup(local.values, value, value) != null
    }
  }
}

resource "google_cloud_run_v2_service" "service" {
  for_each = local.services
  name     = "${local.prefix}${each.key}"
  location = var.region
  # Pub/Sub and Cloud Scheduler of this project count as internal; GitHub and users do not.
  ingress             = contains(local.reachable, each.key) ? "INGRESS_TRAFFIC_ALL" : "INGRESS_TRAFFIC_INTERNAL_ONLY"
  deletion_protection = var.protected

  template {
    service_account                  = google_service_account.holder[each.key].email
    timeout                          = "50s" # shorter than the subscription's deadline
    max_instance_request_concurrency = 16    # each request may contain an event of 16 MiB
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"

    scaling {
      min_instance_count = 0
      max_instance_count = 4
    }

    containers {
      image = var.images[try(each.value.image, each.key)]

      resources {
        limits = { cpu = "1", memory = try(each.value.memory, "512Mi") }
        # Containers have a processor only during requests. Polls of builder and provisioner between requests only shorten a run:
        # notifications of Cloud Build and repeated commands cause polls within requests.
        cpu_idle          = true
        startup_cpu_boost = true
      }

      startup_probe {
        period_seconds    = 1
        failure_threshold = 10
        http_get {
          path = "/healthz"
        }
      }

      dynamic "env" {
        for_each = merge(
          {
            BURNIN_AUTH      = "platform"
            BURNIN_PROJECT   = var.project
            BURNIN_TOPICS    = local.prefix
            BURNIN_ARTEFACTS = "gs://${google_storage_bucket.bucket["artefacts"].name}"
          },
          var.otlp_endpoint == null ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT = var.otlp_endpoint },
          local.environment[each.key],
        )
        content {
          name  = env.key
          value = env.value
        }
      }

      # Addresses and keys of channels from Secret Manager, only for the notifier.
      dynamic "env" {
        for_each = each.key == "notifier" ? var.channels : {}
        content {
          name = "BURNIN_CHANNEL_${upper(replace(env.key, "/[-.]/", "_"))}"
          value_source {
            secret_key_ref {
              secret  = env.value
              version = "latest"
            }
          }
        }
      }

      dynamic "env" {
        for_each = each.key == "gateway" && var.git_token_secret != null ? [var.git_token_secret] : []
        content {
          name = "BURNIN_GIT_TOKEN"
          value_source {
            secret_key_ref {
              secret  = env.value
              version = "latest"
            }
          }
        }
      }

      dynamic "env" {
        for_each = each.key == "hooks" ? [var.github_secret] : []
        content {
          name = "BURNIN_GITHUB_SECRETS"
          value_source {
            secret_key_ref {
              secret  = env.value
              version = "latest"
            }
          }
        }
      }
    }
  }

  # A rollout sets the image by digest, and gcloud marks each of its revisions with a label (client.knative.dev/nonce); the next apply
  # must revert neither. `revision` is not ignored: the next change of the template would then repeat the name of an existing revision.
  lifecycle {
    ignore_changes = [template[0].containers[0].image, template[0].labels, client, client_version]
  }

  # Secrets are read when a revision starts.
  depends_on = [
    google_project_service.api,
    google_secret_manager_secret_iam_member.channel,
    google_secret_manager_secret_iam_member.github,
    google_secret_manager_secret_iam_member.git,
  ]
}

resource "google_cloud_run_v2_service_iam_member" "push" {
  for_each = local.receivers
  location = var.region
  name     = google_cloud_run_v2_service.service[each.key].name
  role     = "roles/run.invoker"
  member   = google_service_account.push[each.key].member
}

# Cloud Run authenticates users of the dashboard.
resource "google_cloud_run_v2_service_iam_member" "people" {
  for_each = var.people
  location = var.region
  name     = google_cloud_run_v2_service.service["dashboard"].name
  role     = "roles/run.invoker"
  member   = each.value
}

# Cloud Run authenticates operators of the gateway's API.
resource "google_cloud_run_v2_service_iam_member" "operator" {
  for_each = var.operators
  location = var.region
  name     = google_cloud_run_v2_service.service["gateway"].name
  role     = "roles/run.invoker"
  member   = each.value
}

# Public, because GitHub has no account in the project: its webhooks are signed, and this service has no other routes.
resource "google_cloud_run_v2_service_iam_member" "github" {
  # checkov:skip=CKV_GCP_102:webhooks are authenticated by signature
  for_each = { for name, service in local.services : name => service if name == "hooks" }
  location = var.region
  name     = google_cloud_run_v2_service.service[each.key].name
  role     = "roles/run.invoker"
  member   = "allUsers"
}

resource "google_secret_manager_secret_iam_member" "github" {
  for_each  = { for name, service in local.services : name => service if name == "hooks" }
  secret_id = var.github_secret
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.holder[each.key].member
}

resource "google_secret_manager_secret_iam_member" "git" {
  for_each  = toset(compact([var.git_token_secret]))
  project   = var.project
  secret_id = each.key
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.holder["gateway"].member
}
