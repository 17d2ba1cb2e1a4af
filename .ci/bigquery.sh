#!/usr/bin/env bash
# Tests the GoogleSQL of statements and views with bqemulator, which translates GoogleSQL for the engine DuckDB.
set -euo pipefail
skip() { echo "skipped: statements and views with an engine, because $*"; exit 77; }
requirements=tests/fakes/bigquery/requirements.txt
venv=.tools/bqemulator
type -P python3 >/dev/null || skip "python3 is missing"
# Reinstall if the requirements changed.
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
  rm -rf "$venv"
  { python3 -m venv --clear "$venv" && timeout 600 "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"; } ||
    skip "$requirements cannot be installed"
  cp "$requirements" "$venv/requirements.txt"
fi
# Builds the tests before the engine starts.
. .ci/built.sh

bed=$(mktemp -d "${TMPDIR:-/tmp}/burnin-bigquery.XXXXXX")
# DuckDB loads its extension from this folder instead of downloading it; a Python package contains the extension.
read -r version extension < <("$venv/bin/python" -c '
import duckdb, duckdb_extension_spatial, pathlib
folder = pathlib.Path(duckdb_extension_spatial.__file__).parent
print("v" + duckdb.__version__, next(folder.rglob("spatial.duckdb_extension")))')
extensions=$bed/home/.duckdb/extensions/$version/linux_amd64
mkdir -p "$extensions" "$bed/buckets"
cp "$extension" "$extensions/"
port=$("$venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
HOME=$bed/home BQEMU_GCS_LOCAL_ROOT=$bed/buckets "$venv/bin/bqemulator" start --rest-port "$port" --grpc-port 0 >"$bed/log" 2>&1 &
engine=$!
trap 'kill "$engine" 2>/dev/null; wait "$engine" 2>/dev/null; rm -rf "$bed"' EXIT
url=http://127.0.0.1:$port
until "$venv/bin/python" -c "import urllib.request; urllib.request.urlopen('$url/bigquery/v2/projects/p/datasets')" 2>/dev/null; do
  kill -0 "$engine" 2>/dev/null || { tail -n 20 "$bed/log"; echo "bqemulator ended before it responded"; exit 1; }
  sleep 0.2
done
echo "bqemulator $("$venv/bin/pip" show bqemulator 2>/dev/null | sed -n 's/^Version: //p') on DuckDB $version"
status=0
BURNIN_BIGQUERY_ENGINE=$url BURNIN_BIGQUERY_BUCKETS=$bed/buckets \
  timeout 600 cargo nextest run "${built[@]}" --no-fail-fast --run-ignored only \
  -E 'package(warehouse)' || status=$?
[[ $status == 0 ]] || grep -E '"level": "(error|critical)"' "$bed/log" | tail -n 20 || true
exit "$status"
