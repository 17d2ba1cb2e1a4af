"""What has to stand in a test's output before it counts as done. Pure: text in, the first complaint out, or None.

Whether values and bandwidth are good is not said here: that is the verdict's, which reads the same text.
"""

import math
import re

# size, count, type, redop, root, and times and bandwidths of one placement at least; another rank's line may be before it.
ROW = re.compile(r"(?<!\d)(\d+)\s+\d+\s+[a-z]\w*\s+\w+\s+-?\d+(?:\s+[\d.e+-]+){3}\s")
BROKEN = (
    (re.compile(r"network gIB not found"), "NCCL cannot load gIB"),
    (re.compile(r"GLIBC_[\d.]+' not found|GLIBC_[\d.]+ not found"), "the image's C library is too old for gIB"),
    (re.compile(r"NET/gIB : No device found"), "gIB sees no RDMA device"),
    (re.compile(r"No plugin found \(libnccl-net"), "NCCL finds no network plugin"),
)


# The bus bandwidths of both placements, each behind time and algorithm bandwidth.
BANDWIDTHS = re.compile(r"(?<!\d)(\d+)\s+\d+\s+[a-z]\w*\s+\w+\s+-?\d+"
                        r"\s+[\d.e+-]+\s+[\d.e+-]+\s+([\d.e+-]+)\s+\S+(?:\s+[\d.e+-]+\s+[\d.e+-]+\s+([\d.e+-]+)\s)?")


def one_of(names):
    """A pattern of names, of which one may begin as another."""
    return "|".join(map(re.escape, sorted(names, key=len, reverse=True)))


def connectivity(text, names, per_node):
    """`hostname` under mpirun: each pod answers, once for each of its GPUs. Two answers may stand in one line."""
    alone = re.compile(f"(?:{one_of(names)})+")
    lines = filter(alone.fullmatch, map(str.strip, text.splitlines()))
    answers = [name for line in lines for name in re.findall(one_of(names), line)]
    found = {name: answers.count(name) for name in names}
    wrong = [f"{name} {count} times" for name, count in found.items() if count != per_node]
    if wrong:
        return f"expected each of {len(names)} hosts {per_node} times, found " + ", ".join(wrong[:8])
    return None


def transport(text, names):
    """gIB on every host, and nothing but gIB."""
    for pattern, meaning in BROKEN:
        found = pattern.search(text)
        if found:
            return f"{meaning}: {found.group(0)}"
    # mpirun prints two ranks' lines as one now and then: `Using network gIBhost-1:21:26 [0] NCCL INFO ...`.
    end = rf"(?=(?:{one_of(names)})[\w.-]*:\d+:\d+ |\s|$)"
    used = re.findall(rf"(?:([\w.-]+):\d+:\d+ \[\d+\] )?NCCL INFO Using network (\S*?){end}", text)
    others = sorted({network for _, network in used if network != "gIB"})
    if others:
        return f"expected gIB alone, found {', '.join(others)} in use"
    told = {host.split(".")[0] for host, _ in used}
    silent = [name for name in names if name.split(".")[0] not in told]
    if silent:
        return f"expected `Using network gIB` of every host, found none of {', '.join(silent[:8])}"
    return None


def sizes(test):
    """The sizes that nccl-tests goes through."""
    steps = math.floor(math.log(test["max_bytes"] / test["min_bytes"], test["step_factor"]) + 1e-9)
    return [test["min_bytes"] * test["step_factor"] ** n for n in range(steps + 1)]


def table(text, test):
    """Each size has its row, and the table its end. Output that stops early may come with exit status 0."""
    rows = {found.group(1) for found in map(ROW.search, text.splitlines()) if found}
    missing = [size for size in sizes(test) if str(size) not in rows]
    if missing:
        return f"expected {len(sizes(test))} sizes, found none of {', '.join(map(str, missing[:8]))} bytes"
    if not re.search(r"# Avg bus bandwidth\s*:\s*[\d.]+", text):
        return "the table has no end: `# Avg bus bandwidth` is missing"
    return None


def efficiency(text, collective, ranks, nodes, line_rate):
    """The best bus bandwidth, and its share of what the network permits, as Burnin's verdict states it (crates/verdict
    line_rate.rs): all_reduce sends between nodes only what the other nodes lack. None without a row."""
    rows = filter(None, map(BANDWIDTHS.search, text.splitlines()))
    found = [(float(busbw), int(row.group(1))) for row in rows for busbw in row.groups()[1:] if busbw]
    if not found:
        return None
    best, size = max(found)
    limit = line_rate * (ranks - 1) / ranks * nodes / (nodes - 1) if collective == "all_reduce" else line_rate
    return {"best_busbw": best, "at_bytes": size, "permitted_busbw": round(limit, 2), "efficiency_percent": round(100 * best / limit, 1)}
