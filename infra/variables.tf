variable "project" {
  description = "Google Cloud project."
  type        = string
}

variable "region" {
  description = "Region of services, buckets and the warehouse."
  type        = string
  default     = "us-central1"
}

variable "images" {
  description = "Image of each service, by digest: NAME@sha256:..."
  type        = map(string)

  validation {
    condition     = alltrue([for image in values(var.images) : can(regex("@sha256:[0-9a-f]{64}$", image))])
    error_message = "expected images by digest (NAME@sha256:...), not by tag."
  }
}

variable "agents" {
  description = "Names of the existing clusters with an agent."
  type        = set(string)
  default     = []

  # The name becomes part of an account's id, burnin-agent-NAME, which has 6 to 30 characters
  # (cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts/create), and of a filter.
  validation {
    condition     = alltrue([for name in var.agents : can(regex("^[a-z0-9]([-a-z0-9]{0,15}[a-z0-9])?$", name))])
    error_message = "expected names of at most 17 lowercase letters, digits and inner hyphens."
  }
}

variable "node_accounts" {
  description = "Email addresses of the service accounts of the machines that cluster steps create."
  type        = set(string)
  default     = []
}

variable "agent_members" {
  description = "IAM members of the agents that cluster steps install: serviceAccount:..., principal://iam.googleapis.com/..."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for who in var.agent_members : can(regex("^(serviceAccount:|principal://).", who))])
    error_message = "expected serviceAccount:EMAIL or principal://...: an agent reports the results of its cluster."
  }
}

variable "requesters" {
  description = "IAM members that may request runs on the topic burnin-gateway: serviceAccount:..., group:..."
  type        = set(string)
  default     = []

  validation {
    condition     = !anytrue([for who in var.requesters : startswith(who, "all")])
    error_message = "expected named members: a request costs money."
  }
}

variable "listeners" {
  description = "IAM members that read replies, by the name of their subscription burnin-replies-NAME."
  type        = map(string)
  default     = {}
}

variable "repository" {
  description = "GitHub repository whose pushes are built; null: no trigger."
  type = object({
    owner = string
    name  = string
  })
  default = null
}

variable "alerted" {
  description = "Email addresses for alerts."
  type        = set(string)

  validation {
    condition     = length(var.alerted) > 0
    error_message = "expected at least one email address for alerts."
  }
}

variable "ledger_retention_days" {
  description = "Retention of ledger records, in days: no account can delete them earlier."
  type        = number
  default     = 400
}

variable "artefact_days" {
  description = "Retention of logs and images, in days."
  type        = number
  default     = 400
}

variable "channels" {
  description = "Secret Manager secrets of the notifier, by name of the channel file: ops-channel.url, pager.key, github.token."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for name in keys(var.channels) : can(regex("^[a-z][a-z0-9-]{0,39}\\.(url|key|token)$", name))])
    error_message = "expected NAME.url, NAME.key or github.token."
  }
}

variable "build_secrets" {
  description = "Secret Manager secrets that steps of workflows read (`availableSecrets`), by the account of the build: image-build, cluster-build."
  type        = map(set(string))
  default     = {}

  validation {
    condition     = alltrue([for build in keys(var.build_secrets) : contains(["image-build", "cluster-build"], build)])
    error_message = "expected the keys image-build and cluster-build."
  }
}

variable "link" {
  description = "URL template of a run in notices, with the placeholder {run}; null: no link."
  type        = string
  default     = null
}

variable "otlp_endpoint" {
  description = "OTLP endpoint for spans and metrics, of a collector that needs no credentials: Google's own endpoint rejects the services, which have no permission to write spans or metrics; null: no export."
  type        = string
  default     = null
}

variable "protected" {
  description = "Whether Terraform refuses to delete services, tables, and buckets with objects. Set to false to remove the whole deployment."
  type        = bool
  default     = true
}

variable "kms_key" {
  description = "Customer-managed key for buckets, topics, warehouse and registry; null: Google's keys."
  type        = string
  default     = null
}

variable "people" {
  description = "IAM members who may open the dashboard: user:..., group:..., domain:..."
  type        = set(string)
  default     = []

  validation {
    condition     = !anytrue([for who in var.people : startswith(who, "all")])
    error_message = "expected named members: the dashboard must not be public."
  }
}

variable "operators" {
  description = "IAM members who may request, cancel and pin runs with `burnin --server`: user:..., group:..., serviceAccount:.... They may also send events, as requesters do. With at least one member, the gateway's address is reachable from the internet; Cloud Run still admits only the members."
  type        = set(string)
  default     = []

  validation {
    condition     = !anytrue([for who in var.operators : startswith(who, "all")])
    error_message = "expected named members: the gateway must not be public."
  }
}

variable "github_secret" {
  description = "Secret Manager secret with the signing secrets of GitHub's webhooks, one per line; null: no webhook."
  type        = string
  default     = null
}

variable "git_token_secret" {
  description = "Secret Manager secret with a token that reads the refs of private repositories over HTTPS; null: only public repositories are polled for missed pushes."
  type        = string
  default     = null
}
