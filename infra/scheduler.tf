# Periodic tasks. They are idempotent, so a skipped or repeated minute changes nothing.
locals {
  periodic_tasks = merge([
    for name, service in local.services : {
      for task, schedule in service.periodic_tasks : task => { service = name, schedule = schedule }
    }
  ]...)
}

resource "google_service_account" "chores" {
  account_id   = "${local.prefix}chores"
  display_name = "Burnin: starts periodic tasks"
}

# One grant for each service: a second grant for another task of the service would be the same binding, and the removal of
# either would remove both.
resource "google_cloud_run_v2_service_iam_member" "chores" {
  for_each = toset([for task in local.periodic_tasks : task.service])
  location = var.region
  name     = google_cloud_run_v2_service.service[each.key].name
  role     = "roles/run.invoker"
  member   = google_service_account.chores.member
}

resource "google_cloud_scheduler_job" "chore" {
  for_each         = local.periodic_tasks
  name             = "${local.prefix}${each.key}"
  region           = var.region
  schedule         = each.value.schedule
  time_zone        = "Etc/UTC"
  attempt_deadline = "50s"

  retry_config {
    retry_count = 0 # the next minute starts the task again
  }

  http_target {
    http_method = "POST"
    uri         = "${google_cloud_run_v2_service.service[each.value.service].uri}/chores/${each.key}"
    oidc_token {
      service_account_email = google_service_account.chores.email
      audience              = google_cloud_run_v2_service.service[each.value.service].uri
    }
  }
}
