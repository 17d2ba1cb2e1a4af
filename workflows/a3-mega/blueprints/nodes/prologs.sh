#!/bin/bash
# prologs.sh COMMIT RXDM_SHA256 SUDO_SHA256 PARTITION: prolog and epilog that start the receive data path manager. Upstream
# downloads them from a branch at every boot, so its clusters depend on the date.
set -euo pipefail
commit=$1 rxdm=$2 sudo=$3 partition=$4
root=${SLURM_ROOT:-/opt/apps/adm/slurm}
from=${PROLOGS_FROM:-https://raw.githubusercontent.com/GoogleCloudPlatform/slurm-gcp/$commit/tools/prologs-epilogs}
mkdir -p "$root"/{scripts,prolog_slurmd.d,epilog_slurmd.d,"partition-$partition-prolog_slurmd.d","partition-$partition-epilog_slurmd.d"}

download() { # NAME FILE SHA256
  local draft=$root/scripts/.$1.draft
  # An existing file is not replaced, because it may be patched.
  if [[ -s $root/scripts/$1 && -e $root/scripts/.$1.$3 ]]; then return; fi
  curl --fail --silent --show-error --location --retry 5 --output "$draft" "$from/$2"
  sha256sum --check --quiet <<<"$3  $draft" || { rm -f "$draft"; echo "$2 of $commit does not have the pinned SHA-256 $3" >&2; exit 1; }
  chmod 0755 "$draft"
  mv "$draft" "$root/scripts/$1"
  : >"$root/scripts/.$1.$3"
}
download rxdm receive-data-path-manager-mega "$rxdm"
download sudo-oslogin sudo-oslogin "$sudo"
for side in prolog epilog; do
  ln -sfn "$root/scripts/sudo-oslogin" "$root/${side}_slurmd.d/sudo-oslogin.${side}_slurmd"
  ln -sfn "$root/scripts/rxdm" "$root/partition-$partition-${side}_slurmd.d/rxdm.${side}_slurmd"
done

# Slurm's multiplexer of toolkit v1.39.0 continues after a failed prolog, and the job would start without RxDM. The
# multiplexer reads this file first, regardless of its time of creation.
mkdir -p "$root/etc"
grep -qs '^set -e' "$root/etc/slurm_mux.conf" || echo 'set -e' >>"$root/etc/slurm_mux.conf"
