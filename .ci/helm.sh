# Sourced by gates that render charts: installs Helm's engine and checkers of rendered charts in $venv. On failure the status is not 0, and
# $helm contains the reason.
requirements=tests/chart/requirements.txt
venv=$PWD/.tools/chart
helm=
if ! type -P python3 >/dev/null; then
  helm="python3 is missing"
elif ! python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
  helm="the packages are pinned for Python 3.11, found $(python3 --version)"
# Reinstall if the requirements changed.
elif ! cmp -s "$requirements" "$venv/requirements.txt"; then
  rm -rf "$venv"
  if python3 -m venv --clear "$venv" && timeout 600 "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"; then
    cp "$requirements" "$venv/requirements.txt"
  else
    helm="$requirements cannot be installed"
  fi
fi
[[ -z $helm ]]
