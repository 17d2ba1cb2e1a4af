# Sourced by gates that run a benchmark on simulated machines.

# Runs the workflow $2 with the command `burnin` (an array), the data folder $1 and the arguments $3... under criteria that require hardware
# evidence. The machines have no GPU, so the run must be inconclusive. The stored evidence of each of the four nodes must contain the node's
# settings and list the parts missing before and after the job.
evidence_of_each_node() {
  local data=$1 code=0
  timeout 600 "${burnin[@]}" run "$2" "${@:3}" --data "$data" --set benchmark.criteria=criteria/correct-data-evidence.yaml \
    --output json >"$data.json" || code=$?
  [[ $code == 2 ]] || { cat "$data.json"; echo "evidence is missing: expected exit code 2, found $code"; return 1; }
  python3 - "$data" <<'SCRIPT'
import glob, json, sys
stored = [json.load(open(path)) for path in glob.glob(f"{sys.argv[1]}/artefacts/*/verdict/*/verdict.json")]
assert any(reason["code"] == "EVIDENCE_MISSING" for verdict in stored for reason in verdict["reasons"]), stored
nodes = {}
for path in glob.glob(f"{sys.argv[1]}/artefacts/*/verdict/*/measurements.json"):
    for log in json.load(open(path))["logs"]:
        nodes.update({node["node"]: node for node in log["reading"].get("evidence", [])})
assert len(nodes) == 4, f"expected evidence of 4 nodes, found {sorted(nodes)}"
for name, node in nodes.items():
    assert "kernel" in node["settings"], f"{name}: {node}"
    for moment in ["before", "after"]:
        assert any(part.startswith(f"GPUs {moment} the job: ") for part in node["missing"]), f"{name} {moment}: {node}"
print("evidence before and after the job of", ", ".join(sorted(nodes)))
SCRIPT
}
