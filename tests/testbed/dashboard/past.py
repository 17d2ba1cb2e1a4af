"""past.py DATA RUNS: adds RUNS earlier runs with complete ledgers to a data folder with one closed run.

They belong to four workflows, two hours apart. The newest ones are copies of the existing run with logs and verdicts: from one
run on the benchmark takes 4 % longer, with another driver, and one node's values of the other checks are 6 % lower. The older
ones were cancelled immediately and have three records each.
"""

import hashlib
import json
import random
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path

WORKFLOWS = ["quickstart", "a3-mega-slurm", "a4-gke-testbed", "dgx-slurm-perf"]
WITH_LOGS = 200  # the newest runs; a quarter of them per workflow
SLOWER = 44      # the newest of these runs, with the slower benchmark
ROW = re.compile(r"^(\s+\d+\s+\d+\s+\w+\s+\w+\s+-?\d+)((?:\s+[\d.]+){3}\s+\S+)((?:\s+[\d.]+){3}\s+\S+)\s*$")
MOMENT = re.compile(r'"(20\d\d-\d\d-\d\dT[\d:.]+Z)"')


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def slower(log, factor, noise):
    """Returns the log with times multiplied by `factor` and by noise, with four decimals: two would hide a change of 4 % on a slow machine."""
    def half(text):
        time, algbw, busbw, wrong = text.split()
        by = factor * noise()
        return f"  {float(time) * by:10.2f}  {float(algbw) / by:8.4f}  {float(busbw) / by:8.4f}  {wrong}"
    lines = []
    for line in log.splitlines():
        row = ROW.match(line)
        lines.append(row[1] + half(row[2]) + half(row[3]) if row else line)
    return "\n".join(lines) + "\n"


def other_check(data, names, records, factor):
    """Copies a check with stored measurements, whose values are multiplied by the factor of their node. Returns the records."""
    template, run, attempt = names
    source, target = (data / "artefacts" / name for name in (template, run))
    for log in (source / f"logs/{attempt}/{attempt}").iterdir():
        write(target / f"logs/{attempt}/{attempt}" / log.name, log.read_text())
    manifest = (source / f"logs/{attempt}/manifest.json").read_text().replace(template, run)
    write(target / f"logs/{attempt}/manifest.json", manifest)
    write(target / f"verdict/{attempt}/verdict.json", (source / f"verdict/{attempt}/verdict.json").read_text().replace(template, run))
    stored = json.loads((source / f"verdict/{attempt}/measurements.json").read_text().replace(template, run))
    stored["manifest_sha256"] = hashlib.sha256(manifest.encode()).hexdigest()
    for node, log in enumerate(sorted(stored["logs"], key=lambda it: it["log"])):
        by = factor(node)
        for metric in log["reading"].get("metrics", []):
            metric["value"] *= by
    body = json.dumps(stored)
    write(target / f"verdict/{attempt}/measurements.json", body)
    changed = []
    for text in records:
        record = json.loads(text)
        accepted = record["entry"].get("accepted", {})
        fact = accepted.get("fact", {})
        if accepted.get("attempt") == attempt and fact["type"] == "dev.burnin.logs.collected.v1":
            fact["data"]["sha256"] = stored["manifest_sha256"]
        if accepted.get("attempt") == attempt and fact["type"] == "dev.burnin.verdict.reached.v1":
            fact["data"]["measurements"]["sha256"] = hashlib.sha256(body.encode()).hexdigest()
        changed.append(json.dumps(record))
    return changed


def main(data, runs):
    data, runs, chance = Path(data), int(runs), random.Random(7)
    [ledger] = (data / "ledger").iterdir()
    template, records = ledger.name, [path.read_text() for path in sorted(ledger.iterdir())]
    # The verdict and the release of the cluster can be in either order.
    place = lambda kind: next(at for at, text in enumerate(records) if f"dev.burnin.{kind}.v1" in text)
    collected, reached = place("logs.collected"), place("verdict.reached")
    newest = datetime.fromisoformat(json.loads(records[0])["recorded_at"].rstrip("Z"))
    logs = {path.name: path.read_text() for path in (data / "artefacts" / template / "logs/1/1").iterdir()}
    manifest = (data / "artefacts" / template / "logs/1/manifest.json").read_text()
    verdict = (data / "artefacts" / template / "verdict/1/verdict.json").read_text()
    others = [folder.name for folder in (data / "artefacts" / template / "logs").iterdir() if folder.name != "1"]

    event = {"source": "//burnin/cli", "id": "enough"}
    fact = {"type": "dev.burnin.cancel.requested.v1", "data": {"by": "alice", "reason": "enough"}}
    cancelled = [(2, {"accepted": {"event": event, "attempt": 1, "fact": fact}}),
                 (3, {"closed": {"conclusion": {"how": "cancelled", "by": "alice"}}})]

    for number in range(1, runs + 1):
        workflow = WORKFLOWS[number % len(WORKFLOWS)]
        run, back = f"{workflow}-{number:05x}", timedelta(hours=2 * number)

        def moved_back(text):
            moved = lambda at: '"' + (datetime.fromisoformat(at[1].rstrip("Z")) - back).isoformat(timespec="milliseconds") + 'Z"'
            return MOMENT.sub(moved, text).replace(template, run)

        driver = '"driver": "CUDA 13.1"' if number <= SLOWER else '"driver": "CUDA 13.0"'
        measured_on = lambda text: text.replace('"collective"', f'{driver}, "collective"')
        new = [moved_back(text) for text in (records if number <= WITH_LOGS else records[:1])]
        requested = json.loads(new[0])
        definition = requested["entry"]["accepted"]["fact"]["data"]["workflow"]
        definition["name"], definition["cost"] = workflow, {"node_hour": "98.32", "currency": "USD"}
        new[0] = json.dumps(requested)
        if number > WITH_LOGS:
            new += [json.dumps({**requested, "seq": seq, "entry": entry}) for seq, entry in cancelled]
        else:
            factor, noise = 1.04 if number <= SLOWER else 1.0, lambda: chance.gauss(1, 0.003)
            objects = json.loads(manifest.replace(template, run))
            for entry in objects["objects"]:
                name = entry["name"].removeprefix("1/")
                body = slower(logs[name], factor, noise) if ROW.search(logs[name]) or "busbw" in logs[name] else logs[name]
                entry["size_bytes"], entry["sha256"] = len(body.encode()), hashlib.sha256(body.encode()).hexdigest()
                write(data / "artefacts" / run / "logs/1/1" / name, body)
            text = json.dumps(objects)
            write(data / "artefacts" / run / "logs/1/manifest.json", text)
            write(data / "artefacts" / run / "verdict/1/verdict.json", measured_on(verdict).replace(template, run))
            was = json.loads(records[collected])["entry"]["accepted"]["fact"]["data"]["sha256"]
            new[collected] = new[collected].replace(was, hashlib.sha256(text.encode()).hexdigest())
            # The copy has no stored measurements, so that the changed logs are parsed.
            judged = json.loads(measured_on(new[reached]))
            judged["entry"]["accepted"]["fact"]["data"].pop("measurements", None)
            new[reached] = json.dumps(judged)
            for attempt in others:
                new = other_check(data, (template, run, attempt), new, lambda node: noise() * (0.94 if factor > 1 and node == 2 else 1))
        if number == 3:
            failed = json.loads(new[reached])
            failed["entry"]["accepted"]["fact"]["data"]["verdict"] = "fail"
            new[reached] = json.dumps(failed)
        folder = data / "ledger" / run
        folder.mkdir()
        for at, text in enumerate(new, 1):
            (folder / f"{at:010}.json").write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
