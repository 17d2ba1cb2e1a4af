terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 6.0"
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
