# rights.json is the source of permissions; the gate `rehearsal` proves that each is needed, and writes docs/RIGHTS.md.
locals {
  rights = jsondecode(file("${path.module}/rights.json"))
  # Webhooks need a secret for their signatures.
  services = { for name, service in local.rights.services : name => service if name != "hooks" || var.github_secret != null }
  # Services that receive events.
  receivers = { for name, service in local.services : name => service if service.receives != null }
  builds    = local.rights.builds
  prefix    = "burnin-"

  roles = {
    create     = "roles/storage.objectCreator"
    read       = "roles/storage.objectViewer"
    remove     = google_project_iam_custom_role.remover.name
    administer = "roles/storage.admin"
  }

  # Every service account of Burnin and its object permissions.
  holders = merge(
    { for name, service in local.services : name => service.objects },
    { for name, build in local.builds : name => build.objects },
    { for cluster in var.agents : "agent-${cluster}" => local.rights.agent.objects },
  )

  # Agents that cluster steps install have the accounts of their clusters, and the rights of all agents.
  members = merge(
    { for name, account in google_service_account.holder : name => account.member },
    { for member in var.agent_members : member => member },
  )

  grants = merge([
    for holder, objects in merge(local.holders, { for member in var.agent_members : member => local.rights.agent.objects }) : {
      for object in objects :
      "${holder} ${object.right} ${object.bucket}/${join(",", concat(try(object.below, []), try(object.stages, [])))}" => merge(object, { holder = holder })
    }
  ]...)
}

# Conditions of the grants; a grant without prefixes and stages has no condition.
locals {
  objects = { for name, bucket in google_storage_bucket.bucket : name => "projects/_/buckets/${bucket.name}/objects/" }

  titles = {
    for key, grant in local.grants : key => join(", ", concat(
      [for prefix in try(grant.below, []) : "below ${prefix}"],
      [for stage in try(grant.stages, []) : "stage ${stage}"],
    ))
  }

  conditions = {
    for key, grant in local.grants : key => join(" || ", concat(
      [for prefix in try(grant.below, []) : "resource.name.startsWith(\"${local.objects[grant.bucket]}${prefix}\")"],
      # A list is checked on the bucket, where only the request's prefix identifies the objects
      # (cloud.google.com/iam/docs/conditions-attribute-reference, API attributes).
      [for prefix in try(grant.below, []) : "api.getAttribute(\"storage.googleapis.com/objectListPrefix\", \"\").startsWith(\"${prefix}\")" if grant.right == "read"],
      # The name of an object of a run contains the run before the stage (same page, extract).
      [for stage in try(grant.stages, []) : "resource.name.extract(\"${local.objects[grant.bucket]}artefacts/{run}/${stage}/\") != \"\""],
    ))
  }
}

resource "google_project_iam_custom_role" "remover" {
  role_id     = "burninRemover"
  title       = "Burnin: removes objects"
  description = "Granted below a prefix only."
  permissions = ["storage.objects.delete"]
}

resource "google_service_account" "holder" {
  for_each     = local.holders
  account_id   = "${local.prefix}${each.key}"
  display_name = "Burnin: ${each.key}"
}

resource "google_storage_bucket_iam_member" "grant" {
  for_each = local.grants
  bucket   = google_storage_bucket.bucket[each.value.bucket].name
  role     = local.roles[each.value.right]
  member   = local.members[each.value.holder]

  dynamic "condition" {
    for_each = local.conditions[each.key] == "" ? [] : [local.conditions[each.key]]
    content {
      title      = local.titles[each.key]
      expression = condition.value
    }
  }
}

resource "google_project_iam_member" "grant" {
  for_each = merge([
    for holder, of in merge(local.services, local.builds) : {
      for role in of.project : "${holder} ${role}" => { holder = holder, role = role }
    }
  ]...)
  project = var.project
  role    = each.value.role
  member  = google_service_account.holder[each.value.holder].member
}

resource "google_service_account_iam_member" "acts_as" {
  for_each = merge([
    for holder, service in local.services : {
      for build in service.acts_as : "${holder} ${build}" => { holder = holder, build = build }
    }
  ]...)
  service_account_id = google_service_account.holder[each.value.build].name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.holder[each.value.holder].member
}

# Accounts of the machines that steps create. The grant is on single accounts: on the whole project a step could act
# as the conductor.
resource "google_service_account_iam_member" "nodes" {
  for_each           = var.node_accounts
  service_account_id = "projects/${var.project}/serviceAccounts/${each.key}"
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.holder["cluster-build"].member
}

# Steps create the subscription of their cluster's agent in the project of the cluster: in this project they could change the services'
# subscriptions. A subscription needs `pubsub.topics.attachSubscription` on its topic (cloud.google.com/pubsub/docs/access-control).
resource "google_pubsub_topic_iam_member" "attacher" {
  count  = length(var.agent_members) > 0 ? 1 : 0
  topic  = google_pubsub_topic.topic["agent"].name
  role   = "roles/pubsub.subscriber"
  member = google_service_account.holder["cluster-build"].member
}

resource "google_bigquery_dataset_iam_member" "grant" {
  for_each = merge([
    for holder, service in local.services : {
      for role in service.warehouse : "${holder} ${role}" => { holder = holder, role = role }
    }
  ]...)
  dataset_id = google_bigquery_dataset.burnin.dataset_id
  role       = each.value.role
  member     = google_service_account.holder[each.value.holder].member
}

# Only the notifier reads addresses and keys of channels; `channels` lists the secrets.
resource "google_secret_manager_secret_iam_member" "channel" {
  for_each  = toset(values(var.channels))
  project   = var.project
  secret_id = each.key
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.holder["notifier"].member
}

# Secrets of workflows' builds: Cloud Build reads them with the account of the build.
resource "google_secret_manager_secret_iam_member" "build" {
  for_each = merge([
    for build, secrets in var.build_secrets : {
      for secret in secrets : "${build} ${secret}" => { build = build, secret = secret }
    }
  ]...)
  project   = var.project
  secret_id = each.value.secret
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.holder[each.value.build].member
}
