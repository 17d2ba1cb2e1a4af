#!/bin/bash
# monitoring.sh true|false. With true, GPU counters are sent to Cloud Monitoring. With false, both monitoring agents are stopped,
# because they slow the benchmark.
set -euo pipefail
config=/etc/google-cloud-ops-agent/config.yaml
if [[ $1 == true ]]; then
  grep -q dcgm "$config" || cat >>"$config" <<'CONFIG'
metrics:
  receivers:
    dcgm:
      type: dcgm
  service:
    pipelines:
      dcgm:
        receivers: [dcgm]
CONFIG
  systemctl enable --now nvidia-dcgm.service
  systemctl enable google-cloud-ops-agent.service
  # A running agent does not read a changed configuration.
  systemctl restart google-cloud-ops-agent.service
else
  systemctl disable --now nvidia-dcgm.service google-cloud-ops-agent.service
fi
