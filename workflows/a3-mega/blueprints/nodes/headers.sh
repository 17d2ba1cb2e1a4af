#!/bin/bash
# headers.sh [ARCHIVE]: headers of the very kernel that runs, for the modules that are built. Debian's own mirrors drop them
# with the next kernel; ARCHIVE is one that keeps them. Its signatures are Debian's, only their date is not minded.
set -euo pipefail
if [[ -n ${1:-} ]]; then
  echo "deb [check-valid-until=no] $1 bookworm main" >/etc/apt/sources.list.d/kernel-headers.list
fi
apt-get update
apt-get install --yes "linux-headers-$(uname -r)"
