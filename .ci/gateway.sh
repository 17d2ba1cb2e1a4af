#!/usr/bin/env bash
# Tests the gateway against its OpenAPI description: Schemathesis sends requests that the description allows, and many that it
# forbids.
set -euo pipefail
skip() { echo "skipped: the comparison of the API with its description, because $*"; exit 77; }
requirements=tests/gateway/requirements.txt
venv=.tools/schemathesis
type -P python3 >/dev/null || skip "python3 is missing"
# Reinstall if the requirements changed.
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
  rm -rf "$venv"
  { python3 -m venv "$venv" && timeout 600 "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"; } ||
    skip "$requirements cannot be installed"
  cp "$requirements" "$venv/requirements.txt"
fi
. .ci/built.sh
bed=$(mktemp -d "${TMPDIR:-/tmp}/burnin-gateway.XXXXXX")
trap 'kill "${server:-}" 2>/dev/null; wait "${server:-}" 2>/dev/null; rm -rf "$bed"' EXIT
"$programs/burnin" --data "$bed/data" up --port 0 --rates 10000,10000 \
  --workflows tests/gateway/workflows >"$bed/url" 2>"$bed/log" &
server=$!
until [[ -s $bed/url ]]; do
  kill -0 "$server" 2>/dev/null || { cat "$bed/log"; echo "burnin up ended before it responded"; exit 1; }
  sleep 0.1
done
url=$(<"$bed/url")
url=${url%%\?*} # removes the code of the sign-in link
port=${url##*:}
token=$(sed 's/^Authorization: Bearer //' "$bed/data/host/up/${port%/}.header")
export BURNIN_TOKEN=$token
# Creates a run, because the operations on one run need an existing run.
run=$("$venv/bin/python" - "$url" <<'PY'
import json, os, sys, time, urllib.request
url = sys.argv[1].rstrip("/")
def request(path, body=None):
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["BURNIN_TOKEN"]}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers)) as response:
        return json.load(response)
run = request("/api/v1/runs", {"workflow": "small"})["run"]
until = time.monotonic() + 60
while True:
    try:
        shown = request(f"/api/v1/runs/{run}")
        if shown["state"] == "closed":
            break
    except urllib.error.HTTPError as error:  # the run is not recorded yet
        assert error.code == 404, error
    assert time.monotonic() < until, "timeout: the run is not closed after 60 s"
    time.sleep(0.1)
print(run)
PY
)
echo "Schemathesis $("$venv/bin/python" -m schemathesis.cli --version | grep -o '[0-9.]*$') against $url, with the run $run"
status=0
here=$PWD
# Schemathesis creates a folder in its working directory. One worker: with more, Python 3.11 miscounts recursion depth.
(cd "$bed" && SCHEMATHESIS_RUN=$run timeout 600 "$here/$venv/bin/python" -m schemathesis.cli \
  --config-file "$here/tests/gateway/schemathesis.toml" run --url "${url%/}" --max-examples "${BURNIN_EXAMPLES:-40}" \
  --generation-deterministic --max-failures 5 --no-color --workers 1 "${url}api/v1/openapi.json") || status=$?
[[ $status == 0 ]] || tail -n 20 "$bed/log"
kill -0 "$server" || { echo "the server has ended"; exit 1; }
exit "$status"
