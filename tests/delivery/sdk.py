"""Checks a command line against the commands and flags in sdk.json."""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
SDK = json.loads((HERE / "sdk.json").read_text())
TOOLS = sorted(set(SDK) - {"from"})


class Wrong(Exception):
    """A command line that its program would refuse."""


def parse(words):
    """The command's name, its arguments and its flags (each with a list of values; True for a flag without a value)."""
    tool, *words = words
    tree = SDK[tool]
    flags, arguments, name = {}, [], None
    known = dict(tree["flags"])
    if "" in tree["commands"]:
        name, known = "", known | tree["commands"][""]["flags"]
    path, index, plain = [], 0, False
    while index < len(words):
        word, index = words[index], index + 1
        if word.startswith("-") and word != "-" and not plain:
            if word == "--":
                plain = True
                continue
            flag, equals, value = word.partition("=")
            # `--no-FLAG` switches off a flag without a value.
            kind = known.get(flag) or ("bool" if known.get(flag.replace("--no-", "--", 1)) == "bool" else None)
            if kind is None:
                raise Wrong(f"{tool} {' '.join(path)}: unknown flag {flag}")
            if kind == "bool":
                flags.setdefault(flag, []).append(value or True)
                continue
            if not equals:
                if index == len(words):
                    raise Wrong(f"{tool} {' '.join(path)}: {flag} needs a value")
                value, index = words[index], index + 1
            if isinstance(kind, list) and value not in kind:
                raise Wrong(f"{tool} {' '.join(path)}: {flag} is one of {', '.join(kind)}, not {value}")
            flags.setdefault(flag, []).append(value)
        elif name is None:
            path.append(word)
            if not any(command == " ".join(path) or command.startswith(" ".join(path) + " ") for command in tree["commands"]):
                raise Wrong(f"{tool}: unknown command {' '.join(path)}")
            if " ".join(path) in tree["commands"] and not (index < len(words) and f"{' '.join(path)} {words[index]}" in tree["commands"]):
                name = " ".join(path)
                known |= tree["commands"][name]["flags"]
        else:
            arguments.append(word)
    if name is None:
        raise Wrong(f"{tool}: no command: {' '.join(path)}")
    return name, arguments, flags


def check(words, whole=True):
    """Parses like `parse`; with `whole` also checks the number of arguments and the required flags."""
    name, arguments, flags = parse(words)
    of = SDK[words[0]]["commands"][name]
    least, most = of["arguments"]
    if whole and (len(arguments) < least or (most is not None and len(arguments) > most)):
        raise Wrong(f"{words[0]} {name}: {len(arguments)} arguments ({' '.join(arguments)}), expected {least} to {most}")
    for flag in of["required"] if whole else ():
        if flag not in flags:
            raise Wrong(f"{words[0]} {name}: {flag} is required")
    return name, arguments, flags
