"""Checks the build's parameters before anything is pulled. All problems are reported together, with the exit code 64. Parameters
are environment variables, the substitutions of image.yaml."""

import os
import re
import sys

NAME = r"[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)"
PARAMETERS = {
    "_REPOSITORY": (NAME + "{2,}", "an Artifact Registry repository as HOST/PROJECT/REPOSITORY"),
    "_BASE": (NAME + "+@sha256:[0-9a-f]{64}", "an image by digest, HOST/PATH@sha256:..., never a tag"),
    "_NCCL_TESTS_COMMIT": (r"[0-9a-f]{40}", "a commit, 40 hexadecimal digits"),
    "_CUDA_ARCHITECTURE": (r"[1-9][0-9]{1,2}a?", "a compute capability without the decimal point, such as 100"),
}


def main():
    problems = []
    for name, (pattern, wanted) in PARAMETERS.items():
        text = os.environ.get(name, "")
        if not re.fullmatch(pattern, text):
            problems.append(f"{name}: expected {wanted}, found {text[:200]!r}")
    if problems:
        print("invalid parameters; nothing was built:", *problems, sep="\n  ", file=sys.stderr)
    return 64 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
