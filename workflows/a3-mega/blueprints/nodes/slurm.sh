#!/bin/bash
# slurm.sh COMMIT: Slurm, GPU driver, CUDA, Open MPI, enroot and pyxis, installed by slurm-gcp's playbook.
set -euo pipefail
apt-get update
apt-get install --yes git
ansible-galaxy role install googlecloudplatform.google_cloud_ops_agents
ansible-pull --url https://github.com/GoogleCloudPlatform/slurm-gcp --checkout "$1" --full \
  --inventory localhost, --limit localhost --connection local --extra-vars @/var/tmp/slurm_vars.json ansible/playbook.yml
