#!/usr/bin/env bash
# Builds the services' images: the program, its C library and certificates. Creates them as folders, prints their sizes, and
# starts each service with its folder as root; `docker build` only copies the folders.
#   .ci/images.sh [PROFILE]    default: dev; `dist` for deployment
set -euo pipefail
profile=${1:-dev}
# Folder that the Dockerfile copies from, independent of the target directory.
images=target/images/$profile
mapfile -t services < <(ls services)
if [[ $profile == dev ]]; then
  type -P python3 >/dev/null && python3 -B tests/delivery/test_delivery.py
  . .ci/built.sh
else
  packages=()
  . .ci/features.sh
  for service in "${services[@]}"; do packages+=(--package "$service"); done
  packages+=(--features "$(service_features)")
  cargo build --quiet --locked --profile "$profile" "${packages[@]}"
  programs=${CARGO_TARGET_DIR:-target}/$profile
fi

rm -rf "$images"
for service in "${services[@]}"; do
  root=$images/$service
  mkdir -p "$root"/{etc/ssl/certs,proc,tmp}
  cp "$programs/burnin-$service" "$root/service"
  [[ $profile != dev ]] || strip "$root/service"
  # Copies the loader and the libraries to the paths where the loader searches.
  while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done < <(ldd "$programs/burnin-$service" | grep -o '/[^ ]*')
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
  echo 'burnin:x:65532:65532::/:/' >"$root/etc/passwd"
  # Archives are reproducible: times, owners and order are fixed.
  chmod -R u=rwX,go=rX "$root" && chmod 1777 "$root/tmp"
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$root" -cf "$root.tar" .
  size=$(du -sb "$root" | cut -f1)
  printf '%-12s %5.1f MB  %5.1f MB packed  sha256 %s\n' "$service" \
    "$(awk "BEGIN {print $size / 1e6}")" "$(gzip -c "$root.tar" | wc -c | awk '{print $1 / 1e6}')" \
    "$(sha256sum "$root.tar" | cut -c1-16)"
  [[ $profile != dist ]] || ((size <= 30000000)) || { echo "$service: expected at most 30000000 bytes, found $size"; exit 1; }
done

# Skips starting the images. They are already built, so with profile `dist` the script succeeds; otherwise the gate is reported as skipped.
without() {
  echo "skipped: starting the images, because $*"
  [[ $profile == dist ]] || exit 77
  exit 0
}
[[ $(id -u) == 0 ]] || without "chroot needs root"
unshare --mount true 2>/dev/null || without "mounts are not allowed"
type -P python3 >/dev/null || without "python3 is missing"
for service in "${services[@]}"; do
  root=$images/$service
  # A service without environment variables must report every missing variable.
  status=0
  output=$(env -i /usr/sbin/chroot "$root" /service 2>&1) || status=$?
  [[ $status == 64 && $output == *BURNIN_AUTH* && $output == *BURNIN_PROJECT* ]] ||
    { echo "$service without variables: exit status $status, $output"; exit 1; }
  python3 .ci/start.py "$service" "$root" "$profile"
done
