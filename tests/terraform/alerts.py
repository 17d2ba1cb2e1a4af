"""Evaluates each alert policy of the plan on metrics and log lines: alerts.py PLAN PROGRAMS. Each alert must fire on the lines or
measurements of its cause, and must not fire on others. Log lines are printed by the services in PROGRAMS, or constructed from the statement
in their source that logs them; lines of Cloud Run's request log have its documented fields.
"""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
# Metric types and their labels, from Google's list.
METRICS = json.loads((HERE / "metrics.json").read_text())
USER = "logging.googleapis.com/user/"
LEVELS = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL")
SEVERITY = {"info": "INFO", "warn": "WARNING", "error": "ERROR"}
# Aligners that Cloud Monitoring permits for the kinds of metrics used here.
ALIGNERS = {"GAUGE": {"ALIGN_MAX"}, "DELTA": {"ALIGN_DELTA"}}


class Filter:
    """A filter of Cloud Logging or Cloud Monitoring: comparisons with AND, OR, NOT and parentheses. Other syntax is an error."""

    TOKEN = re.compile(r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<op>=~|>=|=)|(?P<mark>[()])|(?P<word>[\w./-]+))')

    def __init__(self, text):
        self.tokens, at = [], 0
        while text[at:].strip():
            found = self.TOKEN.match(text, at)
            if not found:
                raise ValueError(f"unsupported: {text[at:]!r}")
            self.tokens.append((found.lastgroup, found.group(found.lastgroup)))
            at = found.end()
        self.at = 0
        self.comparisons = []
        self.tree = self.any_of()
        if self.at != len(self.tokens):
            raise ValueError(f"unexpected {self.tokens[self.at][1]!r} in {text!r}")

    def take(self, *expected):
        kind, value = self.tokens[self.at] if self.at < len(self.tokens) else (None, None)
        if expected and value not in expected and kind not in expected:
            raise ValueError(f"expected {expected}, found {value!r}")
        self.at += 1
        return kind, value

    def peek(self):
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def any_of(self):
        terms = [self.all_of()]
        while self.peek() == "OR":
            self.take()
            terms.append(self.all_of())
        return lambda get: any(term(get) for term in terms)

    def all_of(self):
        terms = [self.term()]
        while self.peek() == "AND":
            self.take()
            terms.append(self.term())
        return lambda get: all(term(get) for term in terms)

    def term(self):
        if self.peek() == "NOT":
            self.take()
            inner = self.term()
            return lambda get: not inner(get)
        if self.peek() == "(":
            self.take()
            inner = self.any_of()
            self.take(")")
            return inner
        _, field = self.take("word")
        _, operator = self.take("op")
        kind, value = self.take("text", "word")
        if kind == "word" and value == "starts_with":
            self.take("(")
            operator, (_, value) = "starts_with", self.take("text")
            self.take(")")
            kind = "text"
        if kind == "text":
            value = json.loads(value)
        self.comparisons.append((field, operator, value))
        return lambda get: compare(get(field), operator, value)

    def __call__(self, get):
        return self.tree(get)


def compare(found, operator, value):
    """A comparison with an absent field is false."""
    if found is None:
        return False
    match operator:
        case "=":
            return str(found) == str(value)
        case "=~":
            return re.search(value, str(found)) is not None
        case ">=":
            return found >= int(value) if value.isdigit() else LEVELS.index(found) >= LEVELS.index(value)
        case "starts_with":
            return str(found).startswith(value)
    raise ValueError(operator)


def field(entry):
    """Reads a field of a log entry by its path. A name may contain dots, as `run.id` does."""
    def get(path, value=entry):
        if path in value:
            return value[path]
        head, _, rest = path.partition(".")
        return get(rest, value[head]) if rest and isinstance(value.get(head), dict) else None
    return get


def entry(line, service="burnin-conductor", resource="cloud_run_revision"):
    """A log entry of a service, as Cloud Run's agent stores it: special fields are moved out of the payload."""
    payload = dict(line)
    severity = payload.pop("severity")
    for name in ("time", "logging.googleapis.com/trace", "logging.googleapis.com/spanId", "logging.googleapis.com/trace_sampled"):
        payload.pop(name, None)
    assert set(payload) != {"message"}, "such a line is stored as textPayload"
    return {"severity": severity, "jsonPayload": payload, "resource": {"type": resource, "labels": {"service_name": service}}}


def request(status, service="burnin-judge"):
    """An entry of Cloud Run's request log."""
    severity = "ERROR" if status >= 500 else "WARNING" if status >= 400 else "INFO"
    return {"severity": severity, "httpRequest": {"status": status, "requestMethod": "POST"},
            "resource": {"type": "cloud_run_revision", "labels": {"service_name": service}}}


# Sources of log lines.

MACRO = re.compile(r"\b(?:tracing::)?(info|warn|error)!\s*\(")
TEXT = re.compile(r'(?<![=\w] )"((?:[^"\\]|\\.)*)"', re.S)


def statements():
    """Every log statement of the services: file, level, message, names of the fields."""
    for path in sorted([*(ROOT / "services").glob("*/src/**/*.rs"), *(ROOT / "crates").glob("*/src/**/*.rs")]):
        text = path.read_text()
        for found in MACRO.finditer(text):
            depth, end = 1, found.end()
            while depth:
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            body = text[found.end():end - 1]
            message = TEXT.search(body)
            if message:
                before = body[:message.start()]
                fields = re.findall(r"[%?]?([\w.]+)(?:\s*=[^,]*)?,", before)
                # Placeholders may have any value, so each becomes an ellipsis.
                words = re.sub(r"\\\n\s*", "", message.group(1)).replace('\\"', '"')
                yield path.relative_to(ROOT), found.group(1), re.sub(r"\{[^}]*\}", "…", words), fields


def logged(path, message):
    """An entry with the level, message and fields of the only statement in `path` whose message begins with `message`."""
    found = [statement for statement in STATEMENTS if str(statement[0]) == path and statement[2].startswith(message)]
    assert len(found) == 1, f"{path}: expected one log statement that begins with {message!r}, found {found}"
    _, level, words, fields = found[0]
    return entry({"severity": SEVERITY[level], "message": words, "target": "t", **{name: "x" for name in fields}})


STATEMENTS = list(statements())


@contextlib.contextmanager
def running(program, folder):
    """A service on this host over folders. Yields its address and its log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = ("LEDGER", "ARTEFACTS", "HINTS", "BUILDS", "CLUSTERS", "WAREHOUSE", "WORKFLOWS")
    environment = {f"BURNIN_{place}": f"{folder}/{place.lower()}" for place in places} | {
        "PORT": str(port), "BURNIN_AUTH": "platform", "BURNIN_LOG": "warn", "BURNIN_PROJECT": "p", "PUBSUB_EMULATOR_HOST": "127.0.0.1:9"}
    log = pathlib.Path(folder) / "log"
    with log.open("w") as out, subprocess.Popen([program], env=environment, stdout=out, stderr=out) as process:
        try:
            began = time.monotonic()
            while status(f"http://127.0.0.1:{port}/healthz") != 200:
                assert process.poll() is None and time.monotonic() - began < 20, f"{program} does not respond: {log.read_text()}"
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port}", log
        finally:
            process.terminate()


def status(address, body=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data=body), timeout=10) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def lines(log, service):
    return [entry(json.loads(line), service) for line in log.read_text().splitlines()]


def real_lines(programs):
    """A parked event and a failed task, as the programs log them."""
    with tempfile.TemporaryDirectory() as folder, running(programs / "burnin-conductor", folder) as (address, log):
        assert status(address + "/", b"no event") == 204
        (parked,) = lines(log, "burnin-conductor")
    with tempfile.TemporaryDirectory() as folder, running(programs / "burnin-gateway", folder) as (address, log):
        before = len(lines(log, "burnin-gateway"))
        pathlib.Path(folder, "workflows").is_dir() and pathlib.Path(folder, "workflows").rmdir()
        assert status(address + "/chores/schedule", b"") == 503
        failed = lines(log, "burnin-gateway")[before:][-1]
    return parked, failed


# Evaluation of a policy.

def points_of(metrics, entries):
    """The time series of log-based metrics: entries are (minute, entry)."""
    series = defaultdict(lambda: defaultdict(int))
    for minute, item in entries:
        for metric in metrics:
            if metric["matches"](field(item)):
                labels = tuple(sorted((name, str(field(item)(path))) for name, path in metric["labels"].items()))
                series[USER + metric["name"], item["resource"]["type"], tuple(sorted(item["resource"]["labels"].items())), labels][minute] += 1
    return [{"metric": {"type": kind, "labels": dict(labels)}, "resource": {"type": resource, "labels": dict(of)}, "points": dict(points)}
            for (kind, resource, of, labels), points in series.items()]


def measured(kind, points, resource, **labels):
    """A time series of one of Google's metrics."""
    return {"metric": {"type": kind, "labels": labels}, "resource": resource, "points": points}


def plural(path):
    """Cloud Monitoring accepts both spellings of a label."""
    return re.sub(r"^(metric|resource)\.label\.", r"\1.labels.", path)


def fires(condition, series):
    """Whether the condition is met at some minute and for its whole duration."""
    threshold = condition["condition_threshold"][0]
    (aggregation,) = threshold["aggregations"]
    matches = Filter(threshold["filter"])
    chosen = [one for one in series if matches(lambda path, one=one: field(one)(plural(path)))]
    period = seconds(aggregation["alignment_period"]) // 60
    lasting = seconds(threshold["duration"]) // 60
    aligner = {"ALIGN_MAX": max, "ALIGN_DELTA": sum}[aggregation["per_series_aligner"]]
    reducer = {"REDUCE_SUM": sum, "REDUCE_MAX": max}[aggregation["cross_series_reducer"]]
    groups = defaultdict(list)
    for one in chosen:
        groups[tuple(field(one)(plural(path)) for path in aggregation["group_by_fields"] or ())].append(one["points"])
    assert threshold["comparison"] == "COMPARISON_GT"
    for members in groups.values():
        met = 0
        for minute in range(period, 180):
            windows = [[points[at] for at in range(minute - period + 1, minute + 1) if at in points] for points in members]
            values = [aligner(window) for window in windows if window]
            met = met + 1 if values and reducer(values) > threshold["threshold_value"] else 0
            if met > lasting:
                return True
    return False


def seconds(text):
    return int(text.removesuffix("s"))


class Deployment:
    """The metrics and policies of a plan."""

    def __init__(self, plan):
        planned = [resource for resource in plan["planned_values"]["root_module"]["resources"] if resource["mode"] == "managed"]
        of = lambda kind: [resource["values"] for resource in planned if resource["type"] == kind]
        self.metrics = [{"name": metric["name"], "matches": Filter(metric["filter"]),
                         "labels": {name: re.fullmatch(r"EXTRACT\((.*)\)", how).group(1) for name, how in (metric.get("label_extractors") or {}).items()},
                         "declared": {label["key"] for label in metric["metric_descriptor"][0]["labels"]}} for metric in of("google_logging_metric")]
        self.policies = {policy["display_name"].removeprefix("Burnin: "): policy for policy in of("google_monitoring_alert_policy")}
        self.subscriptions = {subscription["name"] for subscription in of("google_pubsub_subscription")}
        self.services = {service["name"] for service in of("google_cloud_run_v2_service")}

    def check_types(self):
        """Checks that metric types, labels, resources and aligners exist and match each other."""
        for metric in self.metrics:
            assert set(metric["labels"]) == metric["declared"], f"{metric['name']}: labels {metric['declared']}, extractors {set(metric['labels'])}"
        own = {metric["name"]: metric for metric in self.metrics}
        used = set()
        for name, policy in self.policies.items():
            threshold = policy["conditions"][0]["condition_threshold"][0]
            stated = Filter(threshold["filter"]).comparisons
            (kind,) = (value for path, _, value in stated if path == "metric.type")
            (resource,) = (value for path, _, value in stated if path == "resource.type")
            if kind.startswith(USER):
                assert kind.removeprefix(USER) in own, f"{name}: no metric {kind}"
                used.add(kind.removeprefix(USER))
            known = METRICS.get(USER if kind.startswith(USER) else kind)
            assert known, f"{name}: {kind} is not in metrics.json"
            labels = set(known["labels"]) | (own[kind.removeprefix(USER)]["declared"] if kind.startswith(USER) else set())
            paths = [path for path, *_ in stated] + (threshold["aggregations"][0]["group_by_fields"] or [])
            for path in map(plural, paths):
                assert not path.startswith("metric.labels.") or path.removeprefix("metric.labels.") in labels, f"{name}: {kind} has no {path}"
            assert resource == known["resource"], f"{name}: {kind} is written for {known['resource']}"
            assert threshold["aggregations"][0]["per_series_aligner"] in ALIGNERS[known["kind"]], name
        assert used == set(own), f"metrics without an alert: {set(own) - used}"

    def fires(self, name, entries=(), series=()):
        return any(fires(condition, [*points_of(self.metrics, entries), *series]) for condition in self.policies[name]["conditions"])


def subscription(name, kind, points):
    return measured(f"pubsub.googleapis.com/subscription/{kind}", points, {"type": "pubsub_subscription", "labels": {"subscription_id": name}})


def requests(service, points, code="5xx"):
    resource = {"type": "cloud_run_revision", "labels": {"service_name": service}}
    return measured("run.googleapis.com/request_count", points, resource, response_code_class=code)


def throughout(value, minutes=range(20, 60)):
    return {minute: value for minute in minutes}


def cases(deployment, parked, failed):
    """For each alert the cases that must fire it, and those that must not, by description. A case is a pair of log entries and time series."""
    at = lambda item, *minutes: ([(minute, item) for minute in minutes], [])
    only = lambda *series: ([], list(series))
    age, count = "oldest_unacked_message_age", "num_undelivered_messages"
    chore = lambda name: {**failed, "jsonPayload": {**failed["jsonPayload"], "chore": name}}
    deleted = logged("services/provisioner/src/sweep.rs", "deleted after its lease expired")
    dropped = logged("services/notifier/src/deliver.rs", "notice dropped")
    elsewhere = lambda item: {**item, "resource": {"type": "cloud_run_revision", "labels": {"service_name": "shop"}}}
    busy = [subscription(name, age, throughout(100)) for name in sorted(deployment.subscriptions) if name != "burnin-dead"]
    assert len(busy) > 6 and "burnin-replies-team" in deployment.subscriptions
    return {
        "dead-letters": (
            {"one dead letter": only(subscription("burnin-dead", count, throughout(1)))},
            {"none": only(subscription("burnin-dead", count, throughout(0))),
             "events of another subscription": only(subscription("burnin-judge", count, throughout(40)))}),
        "old-events": (
            {"a service is down": only(*busy, subscription("burnin-facts", age, {minute: 60 * minute for minute in range(60)}))},
            {"ages of 100 s": only(*busy), "an event that waits for 9 minutes": only(subscription("burnin-judge", age, throughout(540))),
             "an old dead letter": only(subscription("burnin-dead", age, throughout(90000))),
             "a listener that is off": only(subscription("burnin-replies-team", age, throughout(90000)))}),
        "parked-events": (
            {"one parked event": at(parked, 30)},
            {"another service's line": at(elsewhere(parked), 30), "an event that cannot be parked": at(logged("crates/service/src/push.rs", "the event cannot be parked"), 30)}),
        "zombie-cost": (
            {"one deletion": at(deleted, 30)},
            {"a cluster without label": at(logged("services/provisioner/src/sweep.rs", "no expiry label"), 30)}),
        "refused-callers": (
            {"a wrong audience": at(request(403), *[30] * 25), "forged tokens": at(request(401), *[30] * 25),
             "wrong signatures of webhooks": at(request(401, "burnin-hooks"), *[30] * 25)},
            {"a few": at(request(403), *[30] * 10), "unknown paths": at(request(404), *[30] * 90), "another service": at(request(403, "shop"), *[30] * 90),
             "served requests": at(request(204), *[30] * 900)}),
        "untold": (
            {"one dropped notice": at(dropped, 30)},
            {"a failed attempt": at(logged("services/notifier/src/deliver.rs", "delivery failed"), 30),
             "a delivered notice": at(logged("services/notifier/src/deliver.rs", "notice delivered"), 30)}),
        "errors": (
            {"a parked event": at(parked, 30), "a panic": at(logged("crates/service/src/push.rs", "the handler panicked"), 30)},
            {"warnings": at(failed, *range(60)), "another service's error": at(elsewhere(parked), 30), "a retried request": at(request(503), *range(60))}),
        "failing-chores": (
            {"the sweeper fails for 15 minutes": at(chore("sweep"), 30, 35, 40), "ticks fail for 3 minutes": at(chore("tick"), 30, 31, 32)},
            {"every task fails once": ([(30, chore(name)) for name in ("tick", "schedule", "refs", "requests", "sweep", "notices")], []),
             "the sweeper fails twice": at(chore("sweep"), 30, 35),
             "failed attempts of notices": at(logged("services/notifier/src/deliver.rs", "delivery failed"), *range(60))}),
        "failing-requests": (
            {"a service is down": only(requests("burnin-loader", throughout(20)))},
            {"a load waits for its batch": only(requests("burnin-loader", {30: 60})), "refused requests": only(requests("burnin-gateway", throughout(50), "4xx")),
             "another service": only(requests("shop", throughout(50))), "a task fails": only(requests("burnin-provisioner", throughout(1)))}),
    }


def problems(deployment, parked, failed):
    """Every case whose result differs from the expected one."""
    found = []
    for name, (causes, others) in cases(deployment, parked, failed).items():
        for what, (entries, series) in causes.items():
            if not deployment.fires(name, entries, series):
                found.append(f"{name} does not fire: {what}")
        for what, (entries, series) in others.items():
            if deployment.fires(name, entries, series):
                found.append(f"{name} fires: {what}")
    return found


# Log statements that a metric counts, in addition to all errors. Any other statement that matches is an error.
COUNTED = {
    "burnin/parked": ["crates/service/src/dead_letters.rs"],
    "burnin/overdue": ["services/provisioner/src/sweep.rs"],
    "burnin/untold": ["services/notifier/src/deliver.rs"],
    "burnin/chores": ["crates/service/src/serve.rs"],
    "burnin/denied": [],
}
# A text in the plan, its replacement, and a problem that must result.
PLANTED = (
    ("^deleted after its lease expired", "^deleted after the lease expired", "zombie-cost does not fire: one deletion"),
    ("(httpRequest.status=401 OR httpRequest.status=403)", "jsonPayload.message=~\\\"^caller rejected:\\\"", "refused-callers does not fire: a wrong audience"),
    ("REDUCE_MAX", "REDUCE_SUM", "old-events fires: ages of 100 s"),
    (" AND NOT resource.labels.subscription_id=starts_with(\\\"burnin-replies-\\\")", "", "old-events fires: a listener that is off"),
    ("metric.label.chore", "metric.type", "failing-chores fires: every task fails once"),
    ("severity>=ERROR", "severity>=WARNING", "errors fires: warnings"),
)
MISTYPED = (
    ("oldest_unacked_message_age", "oldest_unacked_message_seconds", "is not in metrics.json"),
    ("metric.labels.response_code_class", "metric.labels.code_class", "has no metric.labels.code_class"),
    ("user/burnin/untold", "user/burnin/untolds", "no metric"),
)


def check_page(deployment):
    page = (ROOT / "docs" / "RUNBOOK.md").read_text()
    for name, policy in deployment.policies.items():
        assert f"\n### {name}\n" in page, f"docs/RUNBOOK.md has no section {name}"
        assert f"`{name}`" in policy["documentation"][0]["content"]


def main():
    # Terraform escapes some characters that the planted errors contain.
    text, programs = json.dumps(json.loads(pathlib.Path(sys.argv[1]).read_text())), pathlib.Path(sys.argv[2])
    deployment = Deployment(json.loads(text))
    deployment.check_types()
    check_page(deployment)
    assert len(STATEMENTS) > 50, len(STATEMENTS)
    for metric in deployment.metrics:
        matching = {str(path) for path, level, words, fields in STATEMENTS
                    if metric["matches"](field(entry({"severity": SEVERITY[level], "message": words, "target": "t", **dict.fromkeys(fields, "x")})))}
        expected = COUNTED.get(metric["name"]) or {str(path) for path, level, *_ in STATEMENTS if level == "error"}
        assert metric["name"] not in COUNTED or matching == set(COUNTED[metric["name"]]), f"{metric['name']} counts lines of {matching}"
        assert metric["name"] in COUNTED or matching == expected, f"{metric['name']} counts lines of {matching ^ expected}"
    parked, failed = real_lines(programs)
    found = problems(deployment, parked, failed)
    if found:
        sys.exit("\n".join(found))
    differing = set(cases(deployment, parked, failed)) ^ set(deployment.policies)
    assert not differing, f"alerts without cases, or cases without an alert: {sorted(differing)}"
    for right, wrong, expected in PLANTED:
        right, wrong = (json.dumps(part.replace('\\"', '"'))[1:-1] for part in (right, wrong))
        assert right in text, f"the plan has no {right!r}"
        found = problems(Deployment(json.loads(text.replace(right, wrong))), parked, failed)
        assert expected in found, f"{wrong!r} instead of {right!r}: expected {expected!r}, found {found}"
    for right, wrong, expected in MISTYPED:
        assert right in text, f"the plan has no {right!r}"
        try:
            Deployment(json.loads(text.replace(right, wrong))).check_types()
        except AssertionError as error:
            assert expected in str(error), error
        else:
            sys.exit(f"the planted error {wrong!r} instead of {right!r} is not found")
    number = sum(len(causes) + len(others) for causes, others in cases(deployment, parked, failed).values())
    print(f"alerts: {len(deployment.policies)} policies, {number} cases, {len(STATEMENTS)} log statements, {len(PLANTED) + len(MISTYPED)} planted errors are found")


if __name__ == "__main__":
    main()
