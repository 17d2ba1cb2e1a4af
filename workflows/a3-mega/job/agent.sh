#!/bin/bash
# agent.sh PROGRAM SHA256 CLUSTER SUBSCRIPTION PROJECT TOPICS ARTEFACTS, on the login node: installs the agent as a
# service that systemd restarts after every exit. It pulls commands and listens on the loopback device only. Idempotent.
set -euo pipefail
from=$1 sha256=$2 cluster=$3 subscription=$4 project=$5 topics=$6 artefacts=$7
root=${AGENT_ROOT:-} port=8089
program=$root/opt/burnin/agent-$sha256
if [[ ! -x $program ]]; then
  draft=$(mktemp)
  trap 'rm -f "$draft"' EXIT
  gcloud storage cp "$from" "$draft"
  found=$(sha256sum "$draft")
  [[ ${found%% *} == "$sha256" ]] || { echo "AGENT: $from has the SHA-256 ${found%% *}, expected $sha256"; exit 8; }
  sudo -n install -D -m 755 "$draft" "$program"
fi
unit=$(mktemp)
cat >"$unit" <<UNIT
[Unit]
Description=Burnin's agent of $cluster
After=network-online.target
[Service]
User=$(id -un)
Environment=PORT=$port BURNIN_AUTH=platform BURNIN_CLUSTER=$cluster BURNIN_PULL=$subscription
Environment=BURNIN_PROJECT=$project BURNIN_TOPICS=$topics BURNIN_ARTEFACTS=$artefacts
ExecStart=$program
Restart=always
RestartSec=5
[Install]
WantedBy=multi-user.target
UNIT
sudo -n install -D -m 644 "$unit" "$root/etc/systemd/system/burnin-agent.service"
rm -f "$unit"
sudo -n systemctl daemon-reload
sudo -n systemctl enable --quiet burnin-agent
sudo -n systemctl restart burnin-agent
for ((i = 0; i < ${AGENT_PATIENCE:-60}; i++)); do
  if curl -fsS --max-time 2 -o /dev/null "http://127.0.0.1:$port/healthz"; then
    echo "the agent responds"
    exit 0
  fi
  sleep 1
done
sudo -n journalctl --unit burnin-agent --no-pager --lines 20 || true
echo "AGENT: /healthz does not respond; the end of its log is above"
exit 8
