# docs/RUNBOOK.md explains each alert.
resource "google_monitoring_notification_channel" "mail" {
  for_each     = var.alerted
  display_name = "Burnin: ${each.key}"
  type         = "email"
  labels       = { email_address = each.key }
}

# Counts log lines that need attention.
resource "google_logging_metric" "line" {
  for_each = {
    parked  = "jsonPayload.message=~\"^parked:\""
    overdue = "jsonPayload.message=~\"^deleted after its lease expired\""
    denied  = "jsonPayload.message=~\"^caller rejected:\""
    untold  = "jsonPayload.message=~\"^notice dropped:\""
    broken  = "severity>=ERROR"
  }
  name   = "burnin/${each.key}"
  filter = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=~\"^${local.prefix}\" AND ${each.value}"
  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
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
      condition = "an event failed a hundred deliveries"
    }
    old-events = {
      filter    = "metric.type=\"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" AND ${local.subscription}=starts_with(\"${local.prefix}\") AND NOT ${local.subscription_id}=\"${local.prefix}dead\""
      aligner   = "ALIGN_MAX"
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
    failing-chores = {
      filter    = "resource.type=\"cloud_run_revision\" AND metric.type=\"run.googleapis.com/request_count\" AND metric.labels.response_code_class=\"5xx\" AND resource.labels.service_name=starts_with(\"${local.prefix}\")"
      aligner   = "ALIGN_DELTA"
      above     = 50
      lasting   = "300s"
      condition = "requests fail: an external service is unavailable, or a cluster cannot be deleted"
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
        alignment_period     = "300s"
        per_series_aligner   = each.value.aligner
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    content = "docs/RUNBOOK.md, section `${each.key}`"
  }

  depends_on = [time_sleep.metrics]
}
