#!/bin/bash
# prepare.sh PARTITION NODES CONTAINER DIGEST NCCL_TESTS_COMMIT STORAGE FOLDER SOURCE, on the login node: prepares the
# shared folder for jobs. Idempotent.
set -euo pipefail
partition=$1 nodes=$2 image=$3 digest=$4 commit=$5 storage=$6 data=$7 source=$8
here=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)
folder=${here%/*}
export SLURM_PARTITION=$partition SBATCH_PARTITION=$partition
# Slurm hides GPUs that a job does not request.
one=(srun --nodes=1 --ntasks=1 --gpus-per-node=8)
all=(srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --gpus-per-node=8 --label)
cd "$folder"

echo "== every node responds; the first job on a node pulls its containers"
"${all[@]}" hostname
echo "== preflight"
"${all[@]}" bash "$here/preflight.sh" job
echo "== storage"
type=nfs room=$folder
if [[ $storage == lustre ]]; then
  # Every user can write to this folder; the root of the file system belongs to root.
  type=lustre room=$data/burnin
  sudo -n install -d -m 1777 "$room"
fi
mark=$(date +%s)-$$
"${one[@]}" bash "$here/storage.sh" "$type" "$data" "$source" "$room/.burnin-$mark" write
"${all[@]}" bash "$here/storage.sh" "$type" "$data" "$source" "$room/.burnin-$mark"
"${one[@]}" rm -f "$room/.burnin-$mark"
echo "== container"
# Without a required digest the tag's current one is used; the file's name and the result record it.
[[ -n $digest ]] || digest=$("${one[@]}" python3 "$here/digest.py" "$image")
"${one[@]}" bash "$here/import.sh" "$image" "$digest" "$folder"
container=$folder/${digest#sha256:}.sqsh
echo "== nccl-tests"
bash "$here/build.sh" "$commit" "$container" "$folder"
{
  printf 'container=%q\nfolder=%q\n' "$container" "$folder"
  printf 'storage_type=%q\nstorage_folder=%q\nstorage_source=%q\nstorage_room=%q\n' "$type" "$data" "$source" "$room"
} >"$here/settings.sh"
echo "shared folder: $folder"
