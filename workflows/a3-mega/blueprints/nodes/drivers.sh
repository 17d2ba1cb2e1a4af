#!/bin/bash
# drivers.sh GVNIC_VERSION CONTAINER_TOOLKIT_FROM TCPXO_FROM [GVNIC_SHA256]: network driver, GPUs in containers, GPU monitoring, and the
# kernel module of TCPXO. Sources as in upstream's image blueprint (examples/machine-learning/a3-megagpu-8g, v1.39.0; the source of
# the apt transport for Ubuntu as in v1.62.0).
set -euo pipefail
version=$1 toolkit=$2 tcpxo=$3 sha256=${4:-}
. /etc/os-release
fetch() { curl --fail --silent --show-error --location --retry 5 --output "$1" "$2"; }
apt-get install --yes dkms curl gpg
package=gve-dkms_${version}_all.deb
fetch "/tmp/$package" "https://github.com/GoogleCloudPlatform/compute-virtual-ethernet-linux/releases/download/v$version/$package"
# Upstream publishes no checksum; later builds can require the one that this build logs.
sha256sum "/tmp/$package"
[[ -z $sha256 ]] || sha256sum --check <<<"$sha256  /tmp/$package"
apt-get install --yes "/tmp/$package"

# Slurm-GCP installs CUDA from NVIDIA's run file, so no apt source of NVIDIA exists yet.
fetch /tmp/cuda-keyring.deb "https://developer.download.nvidia.com/compute/cuda/repos/$ID${VERSION_ID//./}/x86_64/cuda-keyring_1.1-1_all.deb"
apt-get install --yes /tmp/cuda-keyring.deb
key=/usr/share/keyrings/container-toolkit.gpg
fetch /tmp/container-toolkit.key "$toolkit/gpgkey"
gpg --batch --yes --dearmor --output "$key" /tmp/container-toolkit.key
echo "deb [signed-by=$key] $toolkit/stable/deb/amd64 /" >/etc/apt/sources.list.d/container-toolkit.list
if [[ $ID == ubuntu ]]; then
  # Google's Debian images have this source; its Ubuntu images do not.
  key=/usr/share/keyrings/google-cloud-packages.gpg
  fetch /tmp/google-cloud-packages.key https://packages.cloud.google.com/apt/doc/apt-key.gpg
  gpg --batch --yes --dearmor --output "$key" /tmp/google-cloud-packages.key
  echo "deb [signed-by=$key] https://packages.cloud.google.com/apt apt-transport-artifact-registry-stable main" \
    >/etc/apt/sources.list.d/apt-transport-artifact-registry.list
fi
apt-get update
apt-get install --yes nvidia-container-toolkit apt-transport-artifact-registry datacenter-gpu-manager libnvidia-nscq-550

echo "deb [arch=all] $tcpxo gpudirect-tcpxo-apt main" >/etc/apt/sources.list.d/gpudirect-tcpxo.list
apt-get update
apt-get install --yes dmabuf-import-helper
# monitoring.sh starts this service, on GPU nodes only.
systemctl disable --now nvidia-dcgm.service || true
