"""Checks that a test's output is complete and used gIB only. Pure functions: each returns the first problem or None.

Data and bandwidth are not judged here: the verdict judges them from the same text.
"""

import math
import re

# Columns: size, count, type, redop, root, and the times and bandwidths of at least one placement. Another rank's line may precede them.
ROW = re.compile(r"(?<!\d)(\d+)\s+\d+\s+[a-z]\w*\s+\w+\s+-?\d+(?:\s+[\d.e+-]+){3}\s")
BROKEN = (
    (re.compile(r"network gIB not found"), "NCCL cannot load gIB"),
    (re.compile(r"GLIBC_[\d.]+' not found|GLIBC_[\d.]+ not found"), "the image's C library is too old for gIB"),
    (re.compile(r"NET/gIB : No device found"), "gIB finds no RDMA device"),
    (re.compile(r"No plugin found \(libnccl-net"), "NCCL finds no network plugin"),
)


# The bus bandwidths of both placements, each after time and algorithm bandwidth.
BANDWIDTHS = re.compile(r"(?<!\d)(\d+)\s+\d+\s+[a-z]\w*\s+\w+\s+-?\d+"
                        r"\s+[\d.e+-]+\s+[\d.e+-]+\s+([\d.e+-]+)\s+\S+(?:\s+[\d.e+-]+\s+[\d.e+-]+\s+([\d.e+-]+)\s)?")


def one_of(names):
    """A pattern that matches any of the names, longest first because one may be the prefix of another."""
    return "|".join(map(re.escape, sorted(names, key=len, reverse=True)))


def connectivity(text, names, per_node):
    """Output of `hostname` under mpirun: each pod prints its name once per GPU. One line may contain two names."""
    alone = re.compile(f"(?:{one_of(names)})+")
    lines = filter(alone.fullmatch, map(str.strip, text.splitlines()))
    printed = [name for line in lines for name in re.findall(one_of(names), line)]
    found = {name: printed.count(name) for name in names}
    wrong = [f"{name} {count} times" for name, count in found.items() if count != per_node]
    if wrong:
        return f"expected each of {len(names)} hosts {per_node} times, found " + ", ".join(wrong[:8])
    return None


def transport(text, names):
    """Checks that every host used gIB and no host used another network. Returns the problem, or None."""
    for pattern, meaning in BROKEN:
        found = pattern.search(text)
        if found:
            return f"{meaning}: {found.group(0)}"
    # mpirun sometimes joins two ranks' lines: `Using network gIBhost-1:21:26 [0] NCCL INFO ...`.
    end = rf"(?=(?:{one_of(names)})[\w.-]*:\d+:\d+ |\s|$)"
    used = re.findall(rf"(?:([\w.-]+):\d+:\d+ \[\d+\] )?NCCL INFO Using network (\S*?){end}", text)
    others = sorted({network for _, network in used if network != "gIB"})
    if others:
        return f"expected gIB only, found {', '.join(others)} in use"
    reported = {host.split(".")[0] for host, _ in used}
    silent = [name for name in names if name.split(".")[0] not in reported]
    if silent:
        return f"expected `Using network gIB` from every host, found none from {', '.join(silent[:8])}"
    return None


def sizes(test):
    """The sizes that nccl-tests measures, in bytes."""
    steps = math.floor(math.log(test["max_bytes"] / test["min_bytes"], test["step_factor"]) + 1e-9)
    return [test["min_bytes"] * test["step_factor"] ** n for n in range(steps + 1)]


def table(text, test):
    """Checks that each size has a row and the table its last line: output can be truncated with exit status 0. Returns the problem, or None."""
    rows = {found.group(1) for found in map(ROW.search, text.splitlines()) if found}
    missing = [size for size in sizes(test) if str(size) not in rows]
    if missing:
        return f"expected {len(sizes(test))} sizes, found no row for {', '.join(map(str, missing[:8]))} bytes"
    if not re.search(r"# Avg bus bandwidth\s*:\s*[\d.]+", text):
        return "the table is incomplete: `# Avg bus bandwidth` is missing"
    return None


def efficiency(text, collective, ranks, nodes, line_rate):
    """The best bus bandwidth and its share of the network's maximum, as in Burnin's verdict (crates/verdict line_rate.rs):
    all_reduce sends between nodes only the data that the other nodes lack. None without a row."""
    rows = filter(None, map(BANDWIDTHS.search, text.splitlines()))
    found = [(float(busbw), int(row.group(1))) for row in rows for busbw in row.groups()[1:] if busbw]
    if not found:
        return None
    best, size = max(found)
    limit = line_rate * (ranks - 1) / ranks * nodes / (nodes - 1) if collective == "all_reduce" else line_rate
    return {"best_busbw": best, "at_bytes": size, "permitted_busbw": round(limit, 2), "efficiency_percent": round(100 * best / limit, 1)}
