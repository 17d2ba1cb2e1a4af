"""Extracts the declarations of Cluster Toolkit's modules: extract.py CHECKOUT VERSION OUT.json BLUEPRINT... -- EXAMPLE...

CHECKOUT is a work tree of github.com/GoogleCloudPlatform/cluster-toolkit at the tag VERSION; BLUEPRINT are our blueprints, whose
modules are extracted; EXAMPLE are upstream's blueprints and deployment files for the comparison. Needs the packages python-hcl2 and
PyYAML. OUT.json lists variables with type, default and whether they are required, outputs, and the conditions of validations,
preconditions and postconditions with their file.
"""

import json
import pathlib
import re
import sys

import hcl2
import yaml


# Messages identify a condition; links in them are not needed.
LINK = re.compile(r"(?:\\n)?https?://[^\s\"']+")


def clean(value):
    """Removes the quotes and the `${}` that the parser leaves around text and expressions."""
    if isinstance(value, str):
        value = value.removeprefix("${").removesuffix("}") if value.startswith("${") else value
        return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items() if not key.startswith("__")}
    return value


def conditions(block, place):
    """All conditions in a block, recursively."""
    found = []
    if isinstance(block, dict):
        for name, inner in block.items():
            if name in ("precondition", "postcondition", "validation"):
                for one in inner if isinstance(inner, list) else [inner]:
                    found.append({"kind": name, "place": place, "condition": " ".join(clean(one["condition"]).split()),
                                  "message": LINK.sub("", " ".join(str(clean(one["error_message"])).split()))[:160]})
            else:
                found += conditions(inner, place)
    elif isinstance(block, list):
        for item in block:
            found += conditions(item, place)
    return found


def on_one_line(text):
    """Removes line breaks inside interpolations, which the parser rejects."""
    out, depth = [], 0
    for at, letter in enumerate(text):
        if depth or text[at - 1:at + 1] == "${":
            depth += (letter == "{") - (letter == "}")
        out.append(" " if depth and letter == "\n" else letter)
    return "".join(out)


def parse(name, text):
    # The parser merges heredocs that have the same delimiter, so each one becomes a string.
    text = re.sub(r"<<-?([A-Z]+)\n(.*?)\n[ \t]*\1\b", lambda found: json.dumps(" ".join(found[2].split()).replace("${", "$${")), text, flags=re.S)
    try:
        parsed = hcl2.loads(text)
    except Exception:  # The parser defines no exception class.
        parsed = hcl2.loads(on_one_line(text))
    for kind in ("variable", "output"):
        stated, found = len(re.findall(rf'^{kind} "', text, re.M)), len(parsed.get(kind, []))
        if stated != found:
            sys.exit(f"{name}: expected {stated} blocks of {kind}, read {found}")
    return parsed


def module(root, source):
    variables, outputs, checks = {}, [], []
    for path in sorted((root / source).glob("*.tf")) + sorted((root / source).glob("*.pkr.hcl")):
        with open(path, encoding="utf-8") as file:
            parsed = parse(path.name, file.read())
        for block in parsed.get("variable", []):
            for name, body in clean(block).items():
                raw = next(iter(block.values()))
                variables[name] = {"type": " ".join(str(body.get("type", "any")).split()), "required": "default" not in body}
                if "default" in body:
                    variables[name]["default"] = body["default"]
                checks += conditions(raw, path.name)
        for block in parsed.get("output", []):
            outputs += list(clean(block))
        checks += conditions({key: value for key, value in parsed.items() if key != "variable"}, path.name)
    return {"variables": variables, "outputs": sorted(outputs), "conditions": checks}


def modules_of(path):
    with open(path, encoding="utf-8") as file:
        blueprint = yaml.safe_load(file)
    for group in blueprint.get("deployment_groups", []):
        yield from group["modules"]


def main():
    checkout, version, out, *rest = sys.argv[1:]
    root, split = pathlib.Path(checkout), rest.index("--")
    sources = sorted({one["source"] for path in rest[:split] for one in modules_of(path)})
    examples = {}
    for path in rest[split + 1:]:
        with open(root / path, encoding="utf-8") as file:
            example = yaml.safe_load(file)
        of = [{key: one[key] for key in ("id", "source", "use", "settings") if key in one}
              for group in example.get("deployment_groups", []) for one in group["modules"]]
        # The text of scripts is not compared, only their existence.
        text = json.dumps({"vars": example.get("vars", {}), "modules": of})
        content = re.sub(r'"(content|data)": "(?:[^"\\]|\\.)*"', r'"\1": "..."', text)
        examples[path] = json.loads(content)
    data = {"version": version, "source": "https://github.com/GoogleCloudPlatform/cluster-toolkit",
            "modules": {source: module(root, source) for source in sources}, "examples": examples}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
