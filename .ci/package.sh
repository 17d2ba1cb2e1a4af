#!/usr/bin/env bash
# Tests the Debian package on a separate simulated host (an overlay over this one): install, start with the unit's user, folders, variables
# and command line, upgrade with changed configuration, remove and purge. The package contains the development build; packaging/release.sh
# builds the package for releases.
set -euo pipefail
skip() { echo "skipped: the Debian package, because $*"; exit 77; }
[[ $(id -u) == 0 ]] || skip "dpkg and mounts need root"
type -P dpkg dpkg-deb systemd-analyze systemd-sysusers >/dev/null || skip "dpkg or systemd's tools are missing"
. .ci/beds.sh
need_overlays
. .ci/built.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export BURNIN_DEB_COMPRESSION=none
mkdir "$folder/host" "$folder/old" "$folder/new"
strip -o "$folder/burnin" "$programs/burnin"
strip -o "$folder/agent" "$programs/burnin-agent"
bash packaging/deb.sh "$folder/old" 0.0.1 "$folder/burnin" "$folder/agent"
bash packaging/deb.sh "$folder/new" 0.0.2 "$folder/burnin" "$folder/agent"
unshare --mount-proc --pid --fork --kill-child bash tests/packaging/on_host.sh "$folder"
