#!/bin/bash
# headers.sh [ARCHIVE]: headers of the running kernel, for modules that are built. Debian's mirrors drop them with the next
# kernel, so the two packages that must match exactly come from ARCHIVE's pool by file, as in upstream's image blueprint
# (cluster-toolkit v1.39.0, slurm-a3mega-image.yaml, install_headers_archive.yml). A suite is not named: the file's place in
# the pool depends on the version alone.
set -euo pipefail
apt-get update
kernel=$(uname -r)
if [[ -z ${1:-} ]]; then
  apt-get install --yes "linux-headers-$kernel"
  exit 0
fi
version=$(dpkg-query --show --showformat='${Version}' "linux-image-$kernel")
# ABI 6.1.0-21-cloud-amd64: headers of the flavour, and those that all flavours share.
files=()
for name in "linux-headers-$kernel"_"$version"_amd64.deb "linux-headers-${kernel%-cloud-amd64}-common"_"$version"_all.deb; do
  curl --fail --silent --show-error --location --retry 5 --output "/tmp/$name" "$1/pool/main/l/linux/$name"
  files+=("/tmp/$name")
done
apt-get install --yes "${files[@]}"
