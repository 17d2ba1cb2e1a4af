#!/usr/bin/env bash
# Builds the files of a release into target/release-VERSION: a static program, a container image, a Debian package, a bill of
# materials, checksums, and a manifest, signed if KEY names a private Ed25519 key in PEM:
#   packaging/release.sh [KEY]
# Needs root or installed musl-tools and buildah. Files that cannot be built are listed at the end, and the exit status is then 1.
set -euo pipefail
cd "$(dirname "$0")/.."
key=${1:-}
[[ -z $key || -r $key ]] || { echo "$key cannot be read; give a readable private Ed25519 key in PEM" >&2; exit 64; }
[[ -z $(git status --porcelain) ]] || { echo "the working tree has changes; commit them, because a release names its commit" >&2; exit 64; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
machine=$(uname -m)
target=$machine-unknown-linux-musl
out=$PWD/target/release-$version
rm -rf "$out"
mkdir -p "$out"
missing=()
. .ci/packages.sh
type -P musl-gcc >/dev/null || install_packages musl-tools || { echo "musl-tools is missing" >&2; exit 1; }
rustup target add "$target"
cargo build --locked --release --target "$target" --package burnin --package agent --features burnin/kubernetes,agent/gcp,agent/kubernetes
programs=${CARGO_TARGET_DIR:-target}/$target/release
name=burnin-$version-$machine-linux
tar --sort=name --mtime="@$(git show -s --format=%ct)" --owner=0 --group=0 --numeric-owner -C "$programs" -czf "$out/$name.tar.gz" burnin burnin-agent
bash packaging/deb.sh "$out" "$version" "$programs/burnin" "$programs/burnin-agent"

# The image contains only the program, for judging logs and for `--server`.
if type -P buildah >/dev/null || install_packages buildah; then
  export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
  container=$(buildah from scratch)
  buildah copy --quiet "$container" "$programs/burnin" /usr/bin/burnin >/dev/null
  buildah config --entrypoint '["/usr/bin/burnin"]' --user 65532:65532 --workingdir /work \
    --label org.opencontainers.image.version="$version" --label org.opencontainers.image.revision="$(git rev-parse HEAD)" "$container"
  buildah commit --quiet --timestamp "$(git show -s --format=%ct)" "$container" "oci-archive:$out/$name-image.tar:burnin:$version" >/dev/null
  buildah rm "$container" >/dev/null
else
  missing+=("the container image, because buildah cannot be installed")
fi

# Writes the bill of materials (CycloneDX) from the lock file.
if [[ -x .tools/bin/cargo-cyclonedx ]] || cargo install --quiet --locked --root .tools cargo-cyclonedx; then
  .tools/bin/cargo-cyclonedx cyclonedx --manifest-path cli/Cargo.toml --format json --features kubernetes --override-filename "$name.cdx" --quiet
  find . -path ./target -prune -o -name "$name.cdx.json" -print | while read -r file; do
    [[ $file != ./cli/* ]] || cp "$file" "$out/"
    rm "$file"
  done
else
  missing+=("the bill of materials, because cargo-cyclonedx cannot be installed")
fi

cd "$out"
# The manifest names each file with its digest, so one signature is enough.
sha256sum -- * >SHA256SUMS
{
  printf '{"schema":"burnin/release/v1","version":"%s","commit":"%s","rustc":"%s","files":[' \
    "$version" "$(git rev-parse HEAD)" "$(rustc --version)"
  sed 's/\([0-9a-f]*\)  \(.*\)/{"name":"\2","sha256":"\1"}/' SHA256SUMS | paste -sd,
  printf ']}\n'
} >manifest.json
if [[ -n $key ]]; then
  openssl pkeyutl -sign -rawin -inkey "$OLDPWD/$key" -in manifest.json -out manifest.json.sig 2>/dev/null ||
    openssl pkeyutl -sign -rawin -inkey "$key" -in manifest.json -out manifest.json.sig
else
  missing+=("the signature, because no key was given")
fi
ls -l
for what in "${missing[@]}"; do echo "missing: $what"; done
((${#missing[@]} == 0))
