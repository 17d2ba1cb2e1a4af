terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source = "hashicorp/google"
      # The gate `infra` plans with the schemas of 6.50.0 (tests/terraform/schemas.json).
      version = "6.50.0"
    }
    time = {
      source  = "hashicorp/time"
      version = "~> 0.12"
    }
  }
  # The state bucket is set with `terraform init -backend-config=bucket=...`.
  backend "gcs" {
    prefix = "burnin"
  }
}

provider "google" {
  project = var.project
  region  = var.region
}
