#!/bin/bash
# storage.sh TYPE FOLDER SOURCE FILE [write], on every node: FOLDER must be a mount of that type and source, not a plain
# folder, and every node must read the FILE that one node wrote. A failed check prints one STORAGE line and exits with 1.
type=$1 folder=$2 source=$3 file=$4
host=$(hostname)
wrong() { echo "STORAGE: $host: $folder: $*" >&2; exit 1; }
mounted=$(findmnt --noheadings --output FSTYPE,SOURCE --mountpoint "$folder") || wrong 'is not mounted'
read -r its_type its_source <<<"$mounted"
[[ $its_type == "$type" || ($type == nfs && $its_type == nfs4) ]] || wrong "expected a mount of type $type, found $its_type"
[[ $its_source == "$source" ]] || wrong "expected a mount of $source, found $its_source"
mark=${file##*/}
if [[ ${5:-} == write ]]; then
  echo "$mark" >"$file" || wrong 'cannot be written'
  sync "$file" || wrong 'cannot be synchronised'
else
  [[ $(cat "$file" 2>&1) == "$mark" ]] || wrong "cannot read the file that another node wrote: $(cat "$file" 2>&1 | head -c 200)"
fi
