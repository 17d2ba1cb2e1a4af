# Sourced by gates that simulate hosts with namespaces. Each function calls the gate's `skip REASON` if this host lacks a
# requirement.

. .ci/packages.sh

# Installs the packages of gate $2 unless command $1 succeeds.
need_packages() {
  local installed=$1 packages
  "$installed" && return
  read -ra packages <<<"$(packages_of "$2")"
  install_packages "${packages[@]}" || skip "these packages cannot be installed: ${packages[*]}"
  hash -r
}

need_network_namespaces() {
  local probe=bedprobe$$
  ip netns add "$probe" 2>/dev/null || skip "network namespaces cannot be created here"
  ip netns del "$probe"
}

need_overlays() {
  local folder mounts
  folder=$(mktemp -d)
  mounts='mount -t tmpfs tmpfs "$0" && mkdir "$0"/{u,w,a} &&
    mount -t overlay overlay -o "lowerdir=/,upperdir=$0/u,workdir=$0/w" "$0/a"'
  unshare --mount bash -c "$mounts" "$folder" 2>/dev/null || { rmdir "$folder"; skip "overlay file systems cannot be mounted here"; }
  rmdir "$folder"
}
