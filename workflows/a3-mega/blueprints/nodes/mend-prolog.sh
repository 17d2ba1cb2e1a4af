#!/bin/bash
# mend-prolog.sh [FILE]: RxDM's prolog sets up its environment on Debian 12 only; this script enables the same on Ubuntu 22.04.
# The line is found by its content, not by its number; a prolog with neither form is rejected.
set -euo pipefail
file=${1:-/opt/apps/adm/slurm/scripts/rxdm}
if grep -q 'ID=ubuntu' "$file"; then
  echo "$file: supports Ubuntu already"
elif grep -q 'grep -q "ID=debian" /etc/os-release && lsb_release -rs | grep -q "12"' "$file"; then
  draft=$(mktemp "$file.XXXXXX")
  sed 's/grep -q "ID=debian" \/etc\/os-release && lsb_release -rs | grep -q "12"/grep -q "ID=ubuntu" \/etc\/os-release \&\& lsb_release -rs | grep -q "22.04"/' "$file" >"$draft"
  chmod --reference="$file" "$draft"
  mv "$draft" "$file"
  echo "$file: patched for Ubuntu 22.04"
else
  echo "$file: expected the test for Debian 12 or for Ubuntu, found neither" >&2
  exit 1
fi
