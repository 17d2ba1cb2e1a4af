#!/bin/bash
# build.sh COMMIT CONTAINER FOLDER, on a GPU node: builds nccl-tests at that commit with MPI, using the container's compilers.
# An existing build is reused; an incomplete one is never visible under its final path.
set -euo pipefail
commit=$1 container=$2 folder=$3
target=$folder/nccl-tests-$commit
if [[ -x $target/build/all_gather_perf && -x $target/build/all_reduce_perf ]]; then
  echo "nccl-tests: $commit is built already"
  exit 0
fi
draft=$(mktemp --directory "$folder/nccl-tests-draft-XXXXXX")
trap 'rm -rf "$draft"' EXIT
git init --quiet "$draft"
git -C "$draft" fetch --quiet --depth 1 "${NCCL_TESTS_FROM:-https://github.com/NVIDIA/nccl-tests.git}" "$commit"
git -C "$draft" checkout --quiet FETCH_HEAD
[[ $(git -C "$draft" rev-parse HEAD) == "$commit" ]] || { echo "nccl-tests: expected $commit" >&2; exit 1; }
srun --nodes=1 --ntasks=1 --gpus-per-node=8 --container-image="$container" --container-mounts="$folder:$folder" \
  --container-workdir="$draft" make --jobs MPI=1 CC=mpicc CXX=mpicxx
rm -rf "$target"
mv "$draft" "$target"
echo "nccl-tests: $commit is built"
