#!/bin/bash
# headers.sh [ARCHIVE]: headers of the running kernel, for the modules that are built. Debian's mirrors drop them with the next
# kernel; ARCHIVE keeps them. The kernel of the procedure's image (6.1.90-1) was in bookworm-proposed-updates at that time; the
# signatures are Debian's, their expired date is ignored.
set -euo pipefail
if [[ -n ${1:-} ]]; then
  printf 'deb [check-valid-until=no] %s %s main\n' "$1" bookworm "$1" bookworm-proposed-updates >/etc/apt/sources.list.d/kernel-headers.list
fi
apt-get update
apt-get install --yes "linux-headers-$(uname -r)"
