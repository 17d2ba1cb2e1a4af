# docs/RUNBOOK.md explains each alert.
resource "google_monitoring_notification_channel" "mail" {
  for_each     = var.alerted
  display_name = "Burnin: ${each.key}"
  type         = "email"
  labels       = { email_address = each.key }
}

# Counts the log lines that raise an alert.
resource "google_logging_metric" "line" {
  for_each = {
    parked  = "jsonPayload.message=~\"^parked:\""
    overdue = "jsonPayload.message=~\"^deleted after its lease expired\""
    # Cloud Run rejects callers before their requests reach a service, so only Cloud Run's request log contains them.
    denied = "(httpRequest.status=401 OR httpRequest.status=403)"
    untold = "jsonPayload.message=~\"^notice dropped:\""
    # Cloud Run logs each request with status 5xx as an error; the alert `failing-requests` counts them.
    broken = "(severity>=ERROR AND NOT httpRequest.status>=500)"
    chores = "jsonPayload.chore=~\".\" AND jsonPayload.message=~\"^failed:\""
  }
  name   = "burnin/${each.key}"
  filter = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=~\"^${local.prefix}\" AND ${each.value}"
  # Failures are counted for each task: one failure of each task in the same minute is one short outage.
  label_extractors = each.key == "chores" ? { chore = "EXTRACT(jsonPayload.chore)" } : null
  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
    dynamic "labels" {
      for_each = each.key == "chores" ? ["chore"] : []
      content {
        key        = labels.value
        value_type = "STRING"
      }
    }
  }
}

# Cloud Monitoring rejects a policy for a new metric, so policies are created 300 s after their metrics.
resource "time_sleep" "metrics" {
  create_duration = "300s"
  depends_on      = [google_logging_metric.line]
}

locals {
  subscription_id = "resource.labels.subscription_id"
  subscription    = "resource.type=\"pubsub_subscription\" AND ${local.subscription_id}"
  counted         = "resource.type=\"cloud_run_revision\" AND metric.type=\"logging.googleapis.com/user/burnin"
  alerts = {
    dead-letters = {
      filter    = "metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" AND ${local.subscription}=\"${local.prefix}dead\""
      aligner   = "ALIGN_MAX"
      above     = 0
      lasting   = "0s"
      condition = "100 delivery attempts of an event failed"
    }
    # Other systems read the replies: an old reply is not a failure of Burnin.
    old-events = {
      filter    = "metric.type=\"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" AND ${local.subscription}=starts_with(\"${local.prefix}\") AND NOT ${local.subscription_id}=\"${local.prefix}dead\" AND NOT ${local.subscription_id}=starts_with(\"${local.prefix}replies-\")"
      aligner   = "ALIGN_MAX"
      reducer   = "REDUCE_MAX" # a sum of ages would exceed the limit without an old event
      above     = 600
      lasting   = "300s"
      condition = "an event has waited for ten minutes"
    }
    parked-events = {
      filter    = "${local.counted}/parked\""
      aligner   = "ALIGN_DELTA"
      above     = 0
      lasting   = "0s"
      condition = "an unreadable event was parked"
    }
    zombie-cost = {
      filter    = "${local.counted}/overdue\""
      aligner   = "ALIGN_DELTA"
      above     = 0
      lasting   = "0s"
      condition = "the independent sweeper deleted a cluster whose lease had expired"
    }
    refused-callers = {
      filter    = "${local.counted}/denied\""
      aligner   = "ALIGN_DELTA"
      above     = 20
      lasting   = "0s"
      condition = "callers are rejected: forged tokens, or a subscription with the wrong account or audience"
    }
    untold = {
      filter    = "${local.counted}/untold\""
      aligner   = "ALIGN_DELTA"
      above     = 0
      lasting   = "0s"
      condition = "a notice was dropped: the channel rejected it, or was unreachable for a day"
    }
    errors = {
      filter    = "${local.counted}/broken\""
      aligner   = "ALIGN_DELTA"
      above     = 0
      lasting   = "0s"
      condition = "a service logged an error"
    }
    # The sweeper runs every five minutes, so three of its failures take 15 minutes.
    failing-chores = {
      filter    = "${local.counted}/chores\""
      aligner   = "ALIGN_DELTA"
      grouped   = ["metric.label.chore"]
      period    = "960s"
      above     = 2
      lasting   = "0s"
      condition = "a periodic task failed three times: an external service is unavailable, or a cluster cannot be deleted"
    }
    failing-requests = {
      filter    = "resource.type=\"cloud_run_revision\" AND metric.type=\"run.googleapis.com/request_count\" AND metric.labels.response_code_class=\"5xx\" AND resource.labels.service_name=starts_with(\"${local.prefix}\")"
      aligner   = "ALIGN_DELTA"
      above     = 50
      lasting   = "300s"
      condition = "requests fail: an external service is unavailable"
    }
  }
}

resource "google_monitoring_alert_policy" "alert" {
  for_each              = local.alerts
  display_name          = "Burnin: ${each.key}"
  combiner              = "OR"
  notification_channels = [for channel in google_monitoring_notification_channel.mail : channel.id]

  conditions {
    display_name = each.value.condition
    condition_threshold {
      filter          = each.value.filter
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.above
      duration        = each.value.lasting
      aggregations {
        alignment_period     = try(each.value.period, "300s")
        per_series_aligner   = each.value.aligner
        cross_series_reducer = try(each.value.reducer, "REDUCE_SUM")
        group_by_fields      = try(each.value.grouped, null)
      }
    }
  }

  documentation {
    content = "docs/RUNBOOK.md, section `${each.key}`"
  }

  depends_on = [time_sleep.metrics]
}
