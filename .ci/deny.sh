#!/usr/bin/env bash
set -euo pipefail
deny=.tools/bin/cargo-deny
"$deny" --log-level error check bans licenses sources
# The advisory database is on a git host, which a build machine may be unable to reach.
if timeout 60 "$deny" --log-level error fetch db >/dev/null 2>&1; then
  "$deny" --log-level error check advisories
else
  echo "skipped: advisories, because the advisory database cannot be fetched"
  exit 77
fi
