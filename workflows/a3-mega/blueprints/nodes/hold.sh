#!/bin/bash
# Nothing is upgraded behind our back: kernel, drivers and guest agent go with each other.
set -euo pipefail
systemctl disable --now unattended-upgrades.service || true
systemctl mask unattended-upgrades.service
apt-mark hold google-compute-engine google-compute-engine-oslogin google-guest-agent google-osconfig-agent
dpkg-query --show --showformat='${Package}\n' 'linux-image-*' | xargs --no-run-if-empty apt-mark hold
