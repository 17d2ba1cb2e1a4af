#!/bin/bash
# Prevents upgrades: kernel, drivers and guest agent must match.
set -euo pipefail
systemctl disable --now unattended-upgrades.service || true
systemctl mask unattended-upgrades.service
# Installed packages only: dpkg also lists packages that are only referenced, and apt-mark rejects those.
dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' google-compute-engine google-compute-engine-oslogin \
  google-guest-agent google-osconfig-agent 'linux-image-*' 2>/dev/null |
  sed -n 's/^installed //p' | xargs --no-run-if-empty apt-mark hold
