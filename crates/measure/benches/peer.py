"""Reads a sample as test suites do, and prints the best speed in megabytes per second."""

import json
import re
import sys
import time
import xml.etree.ElementTree as xml

with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
    text = file.read()
PAIR = re.compile(r"(\w[\w /.]*?)\s*[:=]\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


def lines(text):
    """Names and numbers of each line."""
    return [(found[1], float(found[2] or found[3])) for line in text.splitlines() for found in PAIR.finditer(line)]


def reader():
    """The first reader that accepts the sample."""
    for read in (json.loads, xml.fromstring, lines):
        try:
            read(text)
        except (ValueError, xml.ParseError):
            continue
        return read
    raise AssertionError("`lines` accepts any text")


read = reader()
repeats = max(1, 262144 // len(text))
shortest = float("inf")
for _ in range(3):
    start = time.perf_counter()
    for _ in range(repeats):
        read(text)
    shortest = min(shortest, time.perf_counter() - start)
print(len(text.encode()) * repeats / 1e6 / shortest)
