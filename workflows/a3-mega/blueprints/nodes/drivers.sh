#!/bin/bash
# drivers.sh GVNIC_VERSION GVNIC_SHA256 CONTAINER_TOOLKIT_FROM TCPXO_FROM: network driver, GPUs in containers, the kernel's half of TCPXO.
set -euo pipefail
version=$1 sha256=$2 toolkit=$3 tcpxo=$4
apt-get install --yes dkms curl gpg
package=gve-dkms_${version}_all.deb
curl --fail --silent --show-error --location --retry 5 --output "/tmp/$package" \
  "https://github.com/GoogleCloudPlatform/compute-virtual-ethernet-linux/releases/download/v$version/$package"
sha256sum --check <<<"$sha256  /tmp/$package"
apt-get install --yes "/tmp/$package"

key=/usr/share/keyrings/container-toolkit.gpg
curl --fail --silent --show-error --location --retry 5 "$toolkit/gpgkey" | gpg --batch --yes --dearmor --output "$key"
echo "deb [signed-by=$key] $toolkit/stable/deb/amd64 /" >/etc/apt/sources.list.d/container-toolkit.list
apt-get update
apt-get install --yes nvidia-container-toolkit apt-transport-artifact-registry datacenter-gpu-manager

echo "deb [arch=all] $tcpxo gpudirect-tcpxo-apt main" >/etc/apt/sources.list.d/gpudirect-tcpxo.list
apt-get update
apt-get install --yes dmabuf-import-helper
systemctl disable --now nvidia-dcgm.service || true # begun at boot where there are GPUs
