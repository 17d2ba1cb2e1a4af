#!/bin/bash
# mend-prolog.sh [FILE]: the prolog of RxDM sets up its environment on Debian 12 alone; on Ubuntu 22.04 the same is right.
# Mended by what stands there and not by the number of a line; what has neither form is refused.
set -euo pipefail
file=${1:-/opt/apps/adm/slurm/scripts/rxdm}
if grep -q 'ID=ubuntu' "$file"; then
  echo "$file: Ubuntu is known there"
elif grep -q 'grep -q "ID=debian" /etc/os-release && lsb_release -rs | grep -q "12"' "$file"; then
  draft=$(mktemp "$file.XXXXXX")
  sed 's/grep -q "ID=debian" \/etc\/os-release && lsb_release -rs | grep -q "12"/grep -q "ID=ubuntu" \/etc\/os-release \&\& lsb_release -rs | grep -q "22.04"/' "$file" >"$draft"
  chmod --reference="$file" "$draft"
  mv "$draft" "$file"
  echo "$file: mended for Ubuntu 22.04"
else
  echo "$file: expected the test for Debian 12 or for Ubuntu, found neither" >&2
  exit 1
fi
