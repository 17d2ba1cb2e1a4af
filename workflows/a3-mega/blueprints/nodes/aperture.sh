#!/bin/bash
# Binds the low-latency control devices (PCI 1ae0:0084) to /dev/aperture_devices. Without them the node's
# start-up fails, with the error text of the plug-in's documentation.
set -uo pipefail
list() { lspci -nn -D | awk '/1ae0:0084/ {print $1}'; }
for attempt in {1..24}; do
  devices=$(list)
  [[ -n $devices ]] && break
  echo "$attempt: no aperture devices yet"
  sleep 5
done
if [[ -z $devices ]]; then
  echo "ERROR: APERTURE devices failed to initialize after $attempt retries." >&2
  exit 1
fi
set -e
for device in $devices; do
  target=/dev/aperture_devices/$device
  mkdir -p "$target"
  mountpoint --quiet "$target" || mount --bind "/sys/bus/pci/devices/$device" "$target"
done
chmod -R a+r /dev/aperture_devices
chmod a+rw /dev/aperture_devices/*/resource*
