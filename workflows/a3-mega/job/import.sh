#!/bin/bash
# import.sh REGISTRY#IMAGE:TAG DIGEST FOLDER, on a GPU node: the container as a file that all nodes see, once for each
# digest. A tag may be moved: what it is now must be what was asked for.
set -euo pipefail
image=$1 digest=$2 folder=$3
file=$folder/${digest#sha256:}.sqsh
if [[ -s $file ]]; then
  echo "container: $file is there"
  exit 0
fi
now=$(python3 "${BASH_SOURCE[0]%/*}/digest.py" "$image")
if [[ $now != "$digest" ]]; then
  echo "CONTAINER: $image is $now now, expected $digest" >&2
  exit 1
fi
# Over ssh nobody made a runtime folder for enroot.
export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-$(mktemp -d)}
draft=$(mktemp --dry-run "$folder/draft-XXXXXX.sqsh")
trap 'rm -f "$draft"' EXIT
enroot import --output "$draft" "docker://$image"
mv "$draft" "$file"
echo "container: $file, $(stat --format=%s "$file") bytes"
