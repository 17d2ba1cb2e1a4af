#!/usr/bin/env bash
# In a running bed: adds to each node the capacity and labels of eight GPUs, as a device plug-in and GKE do. The last node is in
# another block.
set -euo pipefail
bed=${BED_DIR:?} gke=cloud.google.com
kubectl=(kubectl --kubeconfig "$bed/admin")
gpus='[{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "8"},
       {"op": "add", "path": "/status/allocatable/nvidia.com~1gpu", "value": "8"}]'
nodes=$(wc -l <"$bed/nodes")
for number in $(seq "$nodes"); do
  block=b1
  ((number < nodes)) || block=b2
  "${kubectl[@]}" label --overwrite node "n$number" "$gke/gke-accelerator=nvidia-b200" "$gke/gce-topology-block=$block" \
    "$gke/gce-topology-subblock=$block" "$gke/gce-topology-host=n$number" >/dev/null
  "${kubectl[@]}" patch node "n$number" --subresource=status --type=json --patch "$gpus" >/dev/null
done
