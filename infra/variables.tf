variable "project" {
  description = "The project everything is in."
  type        = string
}

variable "region" {
  description = "Where services, buckets and the warehouse are."
  type        = string
  default     = "us-central1"
}

variable "images" {
  description = "The image of each service, by digest: NAME@sha256:..."
  type        = map(string)

  validation {
    condition     = alltrue([for image in values(var.images) : can(regex("@sha256:[0-9a-f]{64}$", image))])
    error_message = "Images are named by digest (NAME@sha256:...), never by tag."
  }
}

variable "agents" {
  description = "Clusters on which an agent runs, by name."
  type        = set(string)
  default     = []
}

variable "repository" {
  description = "The GitHub repository whose pushes are built; none to have no trigger."
  type = object({
    owner = string
    name  = string
  })
  default = null
}

variable "alerted" {
  description = "Addresses that alerts go to."
  type        = set(string)

  validation {
    condition     = length(var.alerted) > 0
    error_message = "Somebody has to be told when something is wrong."
  }
}

variable "ledger_retention_days" {
  description = "How long no record can be deleted by anybody."
  type        = number
  default     = 400
}

variable "artefact_days" {
  description = "How long logs and images are kept."
  type        = number
  default     = 400
}

variable "channels" {
  description = "Secrets of Secret Manager that the notifier may read, by what they are: ops-channel.url, pager.key, github.token."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for name in keys(var.channels) : can(regex("^[a-z][a-z0-9-]{0,39}\\.(url|key|token)$", name))])
    error_message = "A channel's secret is NAME.url, NAME.key or github.token."
  }
}

variable "link" {
  description = "Where people find a run, with {run} in it, for what is told of it; none to tell no address."
  type        = string
  default     = null
}

variable "otlp_endpoint" {
  description = "Where spans and measurements go; none to export nothing."
  type        = string
  default     = null
}

variable "kms_key" {
  description = "A key of your own for buckets, topics, warehouse and registry; none for Google's."
  type        = string
  default     = null
}

variable "people" {
  description = "Who may look at the dashboard, as IAM spells them: user:..., group:..., domain:..."
  type        = set(string)
  default     = []

  validation {
    condition     = !anytrue([for who in var.people : startswith(who, "all")])
    error_message = "The dashboard is not for everybody."
  }
}

variable "github_secret" {
  description = "The secret in Secret Manager with what GitHub's webhooks are signed with, one secret a line; none for no webhook."
  type        = string
  default     = null
}
