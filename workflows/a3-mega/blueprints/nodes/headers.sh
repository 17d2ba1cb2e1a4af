#!/bin/bash
# headers.sh [ARCHIVE]: headers of the running kernel, to build modules. Debian's mirrors drop them with the next kernel, so the
# two packages that must match exactly are downloaded by file from ARCHIVE's pool, as in upstream's image blueprint
# (cluster-toolkit v1.39.0, slurm-a3mega-image.yaml, install_headers_archive.yml). No suite is needed: the path in the pool
# depends on the version only.
set -euo pipefail
apt-get update
kernel=$(uname -r)
if [[ -z ${1:-} ]]; then
  apt-get install --yes "linux-headers-$kernel"
  exit 0
fi
version=$(dpkg-query --show --showformat='${Version}' "linux-image-$kernel")
# For the ABI 6.1.0-21-cloud-amd64: the flavor's headers, and the headers common to all flavors.
files=()
for name in "linux-headers-$kernel"_"$version"_amd64.deb "linux-headers-${kernel%-cloud-amd64}-common"_"$version"_all.deb; do
  curl --fail --silent --show-error --location --retry 5 --output "/tmp/$name" "$1/pool/main/l/linux/$name"
  files+=("/tmp/$name")
done
apt-get install --yes "${files[@]}"
