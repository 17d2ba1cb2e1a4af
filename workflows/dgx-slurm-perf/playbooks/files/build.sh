#!/bin/bash
# build.sh REPOSITORY COMMIT FOLDER CUDA_HOME NCCL_HOME MPI_HOME, on a node with the compilers: builds nccl-tests at that commit
# with MPI. FOLDER appears only when it is complete, and an existing one is reused. Makefile variables: nccl-tests README, "Build".
set -euo pipefail
repository=$1 commit=$2 folder=$3 cuda=$4 nccl=$5 mpi=$6
if [[ -x $folder/build/all_reduce_perf ]]; then
  echo "nccl-tests: $commit exists already"
  exit 0
fi
for program in git make mpicc; do
  [[ -x $mpi/bin/$program ]] || type -P "$program" >/dev/null || { echo "$(hostname): $program is missing; the build of nccl-tests needs it" >&2; exit 1; }
done
draft=$(mktemp --directory "$folder-draft-XXXXXX")
trap 'rm -rf "$draft"' EXIT
git init --quiet "$draft"
git -C "$draft" fetch --quiet --depth 1 "$repository" "$commit"
git -C "$draft" checkout --quiet FETCH_HEAD
[[ $(git -C "$draft" rev-parse HEAD) == "$commit" ]] || { echo "nccl-tests: expected commit $commit" >&2; exit 1; }
# On Debian and DGX OS only MPI's compiler wrapper has the folders of its headers and libraries.
if [[ -z $mpi ]]; then
  flags=$(mpicc --showme:incdirs 2>/dev/null || true)
  export CPATH=${flags// /:}${CPATH:+:$CPATH}
  flags=$(mpicc --showme:libdirs 2>/dev/null || true)
  export LIBRARY_PATH=${flags// /:}${LIBRARY_PATH:+:$LIBRARY_PATH}
fi
options=(MPI=1 CUDA_HOME="$cuda")
[[ -z $nccl ]] || options+=(NCCL_HOME="$nccl")
[[ -z $mpi ]] || options+=(MPI_HOME="$mpi")
make --silent --jobs "$(nproc)" --directory "$draft" "${options[@]}"
[[ -x $draft/build/all_reduce_perf ]] || { echo "nccl-tests: the build created no build/all_reduce_perf" >&2; exit 1; }
rm -rf "$folder"
mv -T "$draft" "$folder"
echo "nccl-tests: $commit is built"
