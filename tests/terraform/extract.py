"""Extracts the schemas of resources and data sources from a package of CDKTF's generated bindings, which state each
provider's schema: extract.py PACKAGE.tgz TYPE... (a data source as data.TYPE) > schemas.json

    npm pack @cdktf/provider-google@16.12.1 @cdktf/provider-time@11.0.1

Used parts of such a package: in `index.d.ts`, the interface of each block, where an argument without `?` is required; in
`index.js`, the functions that render a block, with each argument's type, and the constructors' notes on computed attributes.
The bindings do not state which optional arguments are computed as well (all count as such), enumerations and conflicts.
"""

import json
import re
import sys
import tarfile

ARGUMENT = re.compile(r"\{@link [^}]*#(\w+) \w+#\w+\}|readonly \w+(\??):")
RENDERED = re.compile(
    r"^\s+(\w+): \{\s+value: (.*),\s+isBlock: (true|false),\s+type: \"(\w+)\",\s+storageClassType: \"(\w+)\",\s+\}", re.M)
GETTER = re.compile(r"this\.get(String|Number|Boolean)Attribute\('(\w+)'\)")
SCALARS = {"string": "string", "number": "number", "boolean": "bool", "any": "string"}


def folder(word):
    """The folder of a type: `google_pubsub_topic` in pubsub-topic, a data source in data-google-project."""
    provider, _, short = word.removeprefix("data.").partition("_")
    return (f"data-{provider}-" if word.startswith("data.") else "") + short.replace("_", "-")


class Binding:
    """The generated files of one type."""

    def __init__(self, declared, code):
        # The source map behind the code is one word of about 100 kB.
        self.declared, self.code = declared, code.partition("//# sourceMappingURL")[0]

    def required(self, interface):
        """Names of the required arguments of an interface."""
        found = re.search(r"^export interface " + interface + r"\b.*?^\}", self.declared, re.S | re.M)
        required, name = set(), None
        for match in ARGUMENT.finditer(found.group(0)) if found else ():
            if match.group(1):
                name = match.group(1)
            elif not match.group(2):
                required.add(name)
        return required

    def block(self, rendered, interface):
        attributes, blocks = {}, {}
        required = self.required(interface)
        for name, value, is_block, nesting, storage in RENDERED.findall(rendered):
            if is_block == "true":
                inner = re.search(r"(\w+)ToHclTerraform", value).group(1)
                blocks[name] = {
                    "nesting": {"struct": "single"}.get(nesting, nesting),
                    "required": name in required,
                    "single": "listMapperHcl" not in value,
                    **self.block(self.function(inner), inner[0].upper() + inner[1:]),
                }
            else:
                attributes[name] = {"type": cty(nesting, storage), "required": name in required}
        return {"attributes": attributes, "blocks": blocks}

    def function(self, name):
        return re.search(r"^function " + name + r"ToHclTerraform\(struct\) \{.*?^\}", self.code, re.S | re.M).group(0)

    def schema(self, terraform_type):
        # The last class of the file is the resource or data source.
        start = self.code.rindex("extends cdktf.Terraform")
        own = self.code[start:]
        name = re.findall(r"class (\w+) extends cdktf.Terraform", self.code)[-1]
        schema = self.block(own[own.index("synthesizeHclAttributes"):], name + "Config")
        assert f"'{terraform_type}'" in own, terraform_type
        for kind, attribute in GETTER.findall(own):
            if attribute not in schema["attributes"] and attribute not in schema["blocks"]:
                schema["attributes"][attribute] = {"type": SCALARS[kind.lower()], "computed": True}
        return schema


def cty(nesting, storage):
    """The type of an argument, as the plugin protocol spells it."""
    scalar = SCALARS.get(storage.removesuffix("List").removesuffix("Map"))
    if nesting == "simple":
        return SCALARS[storage]
    if scalar is None:
        raise SystemExit(f"unsupported type: {nesting} of {storage}")
    return [nesting, scalar]


def main():
    packages = [path for path in sys.argv[1:] if path.endswith(".tgz")]
    types = {word: folder(word) for word in sys.argv[1:] if not word.endswith(".tgz")}
    schemas = {"resources": {}, "data": {}, "from": []}
    files = {}
    for path in packages:
        # Reads the archive in one pass: a compressed archive has no random access.
        with tarfile.open(path, "r|gz") as package:
            for member in package:
                place, _, name = member.name.rpartition("/")
                if member.name == "package/package.json":
                    about = json.load(package.extractfile(member))
                    schemas["from"].append(f"{about['name']} {about['version']}")
                elif name in ("index.d.ts", "index.js") and place.removeprefix("package/lib/") in types.values():
                    files[place.removeprefix("package/lib/"), name] = package.extractfile(member).read().decode()
    for word, place in sorted(types.items()):
        if (place, "index.js") not in files:
            raise SystemExit(f"{word}: no package has lib/{place}")
        name = word.removeprefix("data.")
        binding = Binding(files[place, "index.d.ts"], files[place, "index.js"])
        schemas["data" if word.startswith("data.") else "resources"][name] = binding.schema(name)
    # One line for each type, so that a diff shows which type changed.
    lines = lambda kind: ",\n".join(f"  {json.dumps(name)}: {json.dumps(schema, sort_keys=True)}" for name, schema in sorted(schemas[kind].items()))
    print(f'{{"from": {json.dumps(schemas["from"])},\n "resources": {{\n{lines("resources")}\n }},\n "data": {{\n{lines("data")}\n }}\n}}')


if __name__ == "__main__":
    main()
