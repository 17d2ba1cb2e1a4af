# Sourced by gates that need Debian packages. The setup gate installs the packages of all selected gates; a gate that
# runs alone installs its own packages.

packages_of() {
  case $1 in
    dashboard) echo chromium chromium-driver ;;
    hosts) echo openmpi-bin openssh-server openssh-client iproute2 util-linux procps sudo python3 ;;
    # Executes an example of docs/TRIGGERS.md. Debian's Go package contains the compiled standard library.
    rehearsal) echo golang-go ;;
    slurm) echo slurm-wlm slurmdbd munge iproute2 util-linux mariadb-server ;;
    ansible)
      echo slurm-wlm munge openssh-server openssh-client sudo libopenmpi3 libopenmpi-dev libpmix-dev git make iproute2 util-linux \
        procps python3 python3-venv
      ;;
  esac
}

# Installs the packages $1...; returns an error if the installation fails.
install_packages() {
  [[ $(id -u) == 0 ]] && type -P apt-get >/dev/null || return
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >/dev/null && apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
