"""Computes the cost of a deployment without runs, and of a run, from prices.json, infra/ and figures that the documentation states:
costs.py [--write]. Without --write it fails if docs/RUNBOOK.md has other figures."""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
PRICES = json.loads((HERE / "prices.json").read_text())
PAGE = ROOT / "docs" / "RUNBOOK.md"
TESTING = (ROOT / "docs" / "TESTING.md").read_text()
RIGHTS = json.loads((ROOT / "infra" / "rights.json").read_text())
MINUTES = 365.25 * 24 * 60 / 12
# Assumptions; the page lists them.
REQUEST_SECONDS = 0.2
EVENT_BYTES = 2048
LOG_BYTES = 1024
QUERIES = 2
LOGS_GB = 0.05


def row(first, text=TESTING):
    """The cells of the table row that begins with `first`."""
    return [cell.strip() for cell in re.search(rf"^\| {re.escape(first)} \|(.*)\|$", text, re.M).group(1).split("|")]


def chores():
    """Executions of each periodic task in a month, by its schedule, and the memory of its service in GiB."""
    found = {}
    for service in RIGHTS["services"].values():
        for name, schedule in service["periodic_tasks"].items():
            minute = schedule.removesuffix(" * * * *")
            assert minute == "*" or minute.startswith("*/"), schedule
            found[name] = (MINUTES / int(minute.removeprefix("*/") if minute != "*" else 1), memory(service))
    return found


def memory(service):
    text = service.get("memory", "512Mi")
    return int(text[:-2]) / (1024 if text.endswith("Mi") else 1)


def images_gb():
    """Compressed size of all images, from the table of their start times, with the 20 versions that the registry keeps."""
    table = TESTING.partition("| service | time to the first response 200 |")[2].partition("\n\n")[0]
    sizes = [float(size) for size in re.findall(r"([\d.]+) MB \|$", table, re.M)]
    # The agent has an image and no service, webhooks have a service and no image.
    expected = len(RIGHTS["services"]) - 1 + 1
    assert len(sizes) == expected, f"docs/TESTING.md: expected {expected} image sizes, found {len(sizes)}"
    return sum(sizes) / 1000 * int(re.search(r"keep_count = (\d+)", (ROOT / "infra/build.tf").read_text()).group(1))


def lines(parts):
    """Rows of a table: item, quantity, price; each part is (item, price, quantity)."""
    return [(what, quantity, PRICES[price], quantity * PRICES[price]["usd"], max(0, quantity - PRICES[price]["free"]) * PRICES[price]["usd"])
            for what, price, quantity in parts]


def idle():
    runs = chores()
    executions = sum(count for count, _ in runs.values())
    seconds = executions * REQUEST_SECONDS
    conditions = len(re.findall(r"^      condition +=", (ROOT / "infra/alerts.tf").read_text(), re.M))
    return lines((
        ("Cloud Run, processors", "cpu", seconds),
        ("Cloud Run, memory", "memory", sum(count * REQUEST_SECONDS * gib for count, gib in runs.values())),
        ("Cloud Run, requests", "request", executions),
        ("Cloud Scheduler", "job", len(runs)),
        ("Cloud Storage, one list for each task", "class_a", executions),
        ("Artifact Registry, 20 versions", "images", images_gb()),
        ("Cloud Logging, requests", "logs", executions * LOG_BYTES / 2**30),
        ("Alerts, conditions", "condition", conditions),
        ("Alerts, evaluated every 30 s", "series", conditions * MINUTES * 2),
    ))


def run():
    """Costs of a run among a hundred concurrent runs, without its cluster and its builds."""
    creates, lists, reads, *_ = (int(cell) for cell in row("100", TESTING.partition("| runs | creates |")[2])[:3])
    total, events, *_ = row("1,000", TESTING.partition("| concurrent runs |")[2])
    handled = float(total.removesuffix(" s")) * float(events.replace(",", "")) / 1000
    artefact_reads = int(re.search(r"(\d+) reads of artefacts in that run", (ROOT / "docs/ARCHITECTURE.md").read_text()).group(1))
    seconds = handled * REQUEST_SECONDS
    return lines((
        ("Cloud Run, processors", "cpu", seconds),
        ("Cloud Run, memory", "memory", seconds * 0.5),
        ("Cloud Run, requests", "request", handled),
        ("Pub/Sub, published and delivered", "messages", 2 * handled * EVENT_BYTES / 2**40),
        ("Cloud Storage, creates and lists", "class_a", creates + lists),
        ("Cloud Storage, reads", "class_b", reads + artefact_reads),
        ("Logs of the benchmark, 30 days", "standard", LOGS_GB * 30 * 24 * 60 / MINUTES),
        ("Logs of the benchmark, 370 days", "nearline", LOGS_GB * 370 * 24 * 60 / MINUTES),
        ("BigQuery, queries of the judge", "query", QUERIES * 10e6 / 2**40),
    ))


def amount(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def usd(value):
    return f"{value:.2f}" if value >= 0.01 else f"{value:.5f}"


def table(rows, free):
    """A table of Markdown. `free`: with a column for the price above the free quantities."""
    yield f"| | quantity | unit | USD |{' above the free quantity |' if free else ''}"
    yield f"|---|---|---|---|{'---|' if free else ''}"
    for what, quantity, price, full, billed in rows:
        yield f"| {what} | {amount(quantity)} | {price['unit']} | {usd(full)} |" + (f" {usd(billed)} |" if free else "")
    yield f"| **total** | | | **{usd(sum(row[3] for row in rows))}** |" + (f" **{usd(sum(row[4] for row in rows))}** |" if free else "")


def section():
    rows, one = idle(), run()
    return "\n".join((
        f"A month without runs, at list price in {PRICES['region']}:", "", *table(rows, True), "",
        "A run, without its cluster and its builds:", "", *table(one, False), ""))


def main():
    page = PAGE.read_text()
    start, end = "<!-- costs.py -->\n", "<!-- end of costs.py -->\n"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    written = f"{before}{start}{section()}{end}{after}"
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(written)
    elif written != page:
        sys.exit("the costs in docs/RUNBOOK.md differ from the computed costs: run python3 tests/delivery/costs.py --write")
    else:
        total = lambda rows, column: sum(row[column] for row in rows)
        print(f"costs: {usd(total(idle(), 3))} USD a month without runs, {usd(total(run(), 3))} USD for a run")


if __name__ == "__main__":
    main()
