"""Checks that docs/PROCEDURES.md names every code block of the four procedures: procedures.py FOLDER.

The procedures are not part of this repository. A block's name is the letter of its document, its number and the first eight hex
digits of the SHA-256 of its text, so that changes of a procedure are detected. Exit code 1 lists the blocks that the page does not name,
and the names on the page that no block has.
"""

import hashlib
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "PROCEDURES.md"
# First line of each document, which identifies it.
DOCUMENTS = {
    "A": "# 6.4. Deploy AI/ML Workloads on A3 Mega Slurm Cluster",
    "B": "# Slurm with Lustre (DDN EXAScaler)",
    "C": "# High-Performance Multi-Node Cluster Deployment Guide",
    "D": "# A4 GPU Testbed on GKE",
}
BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```|((?:^    \S[^\n]*\n|^    [ \t]+\S[^\n]*\n){3,})", re.S | re.M)


def blocks(text):
    """Fenced code blocks, and indented code blocks of three lines or more."""
    for found in BLOCK.finditer(text):
        lines = (found.group(1) or found.group(2)).strip().splitlines()
        yield "\n".join(line.strip() for line in lines)


def main():
    named = {}
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        text = path.read_text(encoding="utf-8")
        letters = [letter for letter, title in DOCUMENTS.items() if text.startswith(title)]
        if len(letters) != 1:
            sys.exit(f"{path}: expected one of the four procedures, found {text.splitlines()[0][:80]!r}")
        for number, block in enumerate(blocks(text), 1):
            digest = hashlib.sha256(block.encode()).hexdigest()[:8]
            named[f"{letters[0]}{number}-{digest}"] = block
    page = set(re.findall(r"\b[A-D]\d+-[0-9a-f]{8}\b", PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""))
    for name in named:
        if name not in page:
            print(f"docs/PROCEDURES.md does not name {name}: {named[name].splitlines()[0][:90]!r}")
    for name in sorted(page - set(named)):
        print(f"docs/PROCEDURES.md names {name}, which no document of the procedures contains")
    if page != set(named):
        sys.exit(1)
    print(f"docs/PROCEDURES.md names all {len(named)} code blocks of the procedures")


if __name__ == "__main__":
    main()
