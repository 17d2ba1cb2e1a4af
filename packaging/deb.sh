#!/usr/bin/env bash
# Builds the Debian package from a compiled burnin, and burnin-agent if given, into FOLDER:
#   packaging/deb.sh FOLDER VERSION BURNIN [AGENT]
# BURNIN_DEB_COMPRESSION: xz, or none for tests.
set -euo pipefail
(($# == 3 || $# == 4)) || { echo "usage: $0 FOLDER VERSION BURNIN [AGENT]" >&2; exit 64; }
out=$(realpath "$1") version=$2 burnin=$(realpath "$3") agent=${4:+$(realpath "$4")}
cd "$(dirname "$0")/.."
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
install -D "$burnin" "$root/usr/bin/burnin"
install -D -m 644 -t "$root/lib/systemd/system" packaging/systemd/burnin-up.service
install -D -m 644 packaging/debian/sysusers.conf "$root/usr/lib/sysusers.d/burnin.conf"
if [[ -n $agent ]]; then
  install -D "$agent" "$root/usr/bin/burnin-agent"
  install -D -m 644 -t "$root/lib/systemd/system" packaging/systemd/burnin-agent.service
  install -D -m 640 packaging/debian/agent.env "$root/etc/burnin/agent.env"
fi
install -d "$root/etc/burnin/workflows"
install -D -m 644 -t "$root/usr/share/doc/burnin" README.md LICENSE SECURITY.md docs/*.md
mv "$root/usr/share/doc/burnin/LICENSE" "$root/usr/share/doc/burnin/copyright"
# Workflows serve as examples; they refer to each other and to schemas by relative paths.
mkdir -p "$root/usr/share/burnin"
cp -r workflows schemas "$root/usr/share/burnin/"
"$burnin" man --save "$root/usr/share/man/man1" >/dev/null
gzip -9n "$root/usr/share/man/man1/"*.1
complete() { mkdir -p "$root/$(dirname "$2")" && "$burnin" completions "$1" >"$root/$2"; }
complete bash usr/share/bash-completion/completions/burnin
complete zsh usr/share/zsh/vendor-completions/_burnin
complete fish usr/share/fish/vendor_completions.d/burnin.fish
mkdir "$root/DEBIAN"
install -m 755 -t "$root/DEBIAN" packaging/debian/{postinst,prerm,postrm}
(cd "$root" && find etc -type f | sed 's|^|/|') >"$root/DEBIAN/conffiles"
# A static program needs no library; a dynamic one needs the libraries of the build machine.
depends="bash, coreutils, procps"
if ldd "$burnin" 2>/dev/null | grep -q 'libc\.so'; then
  depends+=", libc6 (>= $(dpkg-query --show --showformat '${Version}' libc6 | sed 's/-.*//')), libgcc-s1"
fi
cat >"$root/DEBIAN/control" <<CONTROL
Package: burnin
Version: $version
Architecture: $architecture
Maintainer: The Burnin maintainers <burnin@invalid>
Installed-Size: $(du -sk "$root" | cut -f1)
Depends: $depends
Recommends: openssh-client, git, adduser | systemd
Section: admin
Priority: optional
Description: validates GPU clusters with NCCL and other benchmarks
 A run brings up a cluster or uses an existing one (Slurm, Kubernetes, ssh), runs benchmarks,
 judges them against references, peers and history, and names bad nodes.
CONTROL
chmod -R u=rwX,go=rX "$root/usr" "$root/lib"
dpkg-deb --root-owner-group -Z"${BURNIN_DEB_COMPRESSION:-xz}" --build "$root" "$out/burnin_${version}_$architecture.deb" >/dev/null
echo "$out/burnin_${version}_$architecture.deb"
