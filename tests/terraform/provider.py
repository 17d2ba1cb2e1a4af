"""A stand-in for Terraform's providers, with their schemas (schemas.json) and without a cloud: plans, applies to the state, and reads
back what it applied. Terraform connects by TF_REATTACH_PROVIDERS, so that it fetches no provider. The bindings behind schemas.json state no
enumerations and conflicts; rules.json has those of the Go sources of google 6.50.0 (`google/services/*/resource_*.go`: `ValidateEnum`,
`StringInSlice`, `ConflictsWith`, `ExactlyOneOf`, `AtLeastOneOf`, `RequiredWith`).

    provider.py    prints its address and serves until its standard input ends
"""

import json
import pathlib
import re
import sys
from concurrent import futures

import grpc
import msgpack
from tf.gen import tfplugin_pb2 as pb
from tf.gen import tfplugin_pb2_grpc as rpc

SCHEMAS = json.loads((pathlib.Path(__file__).parent / "schemas.json").read_text())
RULES = json.loads((pathlib.Path(__file__).parent / "rules.json").read_text())
# Terraform's encoding of a value that is known only after the apply.
UNKNOWN = msgpack.ExtType(0, b"\0")
NESTING = {"single": pb.Schema.NestedBlock.SINGLE, "list": pb.Schema.NestedBlock.LIST, "set": pb.Schema.NestedBlock.SET}


def block(schema):
    """A block of the plugin protocol. Optional arguments are also treated as computed, because the bindings do not mark computed arguments."""
    attributes = [
        pb.Schema.Attribute(
            name=name, type=json.dumps(of["type"]).encode(), required=of.get("required", False),
            optional=not of.get("required") and not of.get("computed"), computed=not of.get("required"))
        for name, of in schema["attributes"].items()]
    blocks = [
        pb.Schema.NestedBlock(
            type_name=name, block=block(of), nesting=NESTING[of["nesting"]], min_items=int(of["required"] and of["nesting"] != "single"),
            max_items=int(of["single"] and of["nesting"] != "single"))
        for name, of in schema["blocks"].items()]
    return pb.Schema.Block(attributes=attributes, block_types=blocks)


def decode(value):
    return msgpack.unpackb(value.msgpack, raw=False, strict_map_key=False) if value.msgpack else None


def encode(value):
    return pb.DynamicValue(msgpack=msgpack.packb(value))


PROJECT = "my-project"


def names(kind, value):
    """Computed names that follow from a resource's arguments: the rehearsal reads accounts and resources from the plan."""
    name = lambda argument: value.get(argument) if isinstance(value.get(argument), str) else None
    if kind == "google_service_account" and name("account_id"):
        email = f"{name('account_id')}@{PROJECT}.iam.gserviceaccount.com"
        path = f"projects/{PROJECT}/serviceAccounts/{email}"
        return {"email": email, "member": f"serviceAccount:{email}", "name": path, "id": path}
    if kind in ("google_pubsub_topic", "google_pubsub_subscription") and name("name"):
        return {"id": f"projects/{PROJECT}/{kind.removeprefix('google_pubsub_')}s/{name('name')}"}
    if kind == "google_cloud_run_v2_service" and name("name"):
        return {"uri": f"https://{name('name')}.run.app"}
    if kind == "google_storage_bucket" and name("name"):
        return {"url": f"gs://{name('name')}"}
    if kind == "google_project_iam_custom_role" and name("role_id"):
        path = f"projects/{PROJECT}/roles/{name('role_id')}"
        return {"name": path, "id": path}
    return {}


def planned(kind, value, schema):
    """The planned value: computed attributes without a value or a name are unknown. Elements of nested blocks are unchanged."""
    computed = [name for name, of in schema["attributes"].items() if not of.get("required") and value.get(name) is None]
    known = {name: text for name, text in names(kind, value).items() if name in computed}
    return {**value, **dict.fromkeys(computed, UNKNOWN), **known}


def applied(value, of, path):
    """Replaces each unknown value with a known one."""
    if isinstance(value, msgpack.ExtType):
        return {"number": 1, "bool": False}.get(of, f"applied-{path}") if isinstance(of, str) else {"map": {}}.get(of[0], [])
    return value


def values(value, path):
    """The values at a path of a rule, in all blocks that exist."""
    if isinstance(value, list):
        return [found for element in value for found in values(element, path)]
    if not path or not isinstance(value, dict):
        return [] if path or value is None else [value]
    return values(value.get(path[0]), path[1:])


def is_set(value):
    """Whether a configuration has this argument or block; 0, false and an empty text are values."""
    return value is not None and value != []


def problems(kind, config):
    """Violations of the provider's own rules, with the texts of its SDK (`helper/schema/schema.go`, `helper/validation`). Unknown values
    count as valid. For enumerations an empty text counts as absent."""
    for path, rule in RULES.get(kind, {}).items():
        parts = path.split(".")
        for value in values(config, parts):
            known = not isinstance(value, msgpack.ExtType)
            if "enum" in rule and known and value not in rule["enum"]:
                yield f'expected {path} to be one of {rule["enum"]}, got {value}'
            if "pattern" in rule and known and not re.search(rule["pattern"], value):
                yield f"invalid value for {path}: {value}"
        given = any(is_set(value) for value in values(config, parts))
        paths = lambda name: [other.replace(".0", "") for other in rule.get(name, [])]
        present = lambda name: [other for other in paths(name) if any(map(is_set, values(config, other.split("."))))]
        if given and (others := [other for other in present("conflicts") if other != path]):
            yield f'Conflicting configuration arguments: "{path}": conflicts with {", ".join(others)}'
        if given and len(present("required_with")) < len(paths("required_with")):
            yield f'Missing required argument: "{path}": all of {", ".join(paths("required_with"))} must be specified'
        # The rule applies only if its block exists.
        if len(parts) > 1 and not any(map(is_set, values(config, parts[:-1]))):
            continue
        if "exactly_one" in rule and len(present("exactly_one")) != 1:
            yield f'Invalid combination of arguments: "{path}": one of {", ".join(paths("exactly_one"))} must be specified'
        if "at_least_one" in rule and not present("at_least_one"):
            yield f'Missing required argument: "{path}": one of {", ".join(paths("at_least_one"))} must be specified'


class Provider(rpc.ProviderServicer):
    """Protocol version 6."""

    def GetProviderSchema(self, request, context):
        provider = pb.Schema.Block(attributes=[
            pb.Schema.Attribute(name=name, type=b'"string"', optional=True) for name in ("project", "region", "zone")])
        made = lambda kind: {name: pb.Schema(version=0, block=block(of)) for name, of in SCHEMAS[kind].items()}
        return pb.GetProviderSchema.Response(
            provider=pb.Schema(version=0, block=provider), resource_schemas=made("resources"), data_source_schemas=made("data"))

    def ValidateProviderConfig(self, request, context):
        return pb.ValidateProviderConfig.Response()

    def ConfigureProvider(self, request, context):
        return pb.ConfigureProvider.Response()

    def ValidateResourceConfig(self, request, context):
        found = [pb.Diagnostic(severity=pb.Diagnostic.ERROR, summary=problem) for problem in problems(request.type_name, decode(request.config) or {})]
        return pb.ValidateResourceConfig.Response(diagnostics=found)

    def ValidateDataResourceConfig(self, request, context):
        return pb.ValidateDataResourceConfig.Response()

    def UpgradeResourceState(self, request, context):
        return pb.UpgradeResourceState.Response(upgraded_state=encode(json.loads(request.raw_state.json)))

    def ReadResource(self, request, context):
        return pb.ReadResource.Response(new_state=request.current_state)

    def ReadDataSource(self, request, context):
        schema = SCHEMAS["data"][request.type_name]
        config = decode(request.config)
        agents = {"google_storage_project_service_account": "gs-project-accounts", "google_bigquery_default_service_account": "bigquery-encryption"}
        known = {"member": f"serviceAccount:service-data-number@{agents[request.type_name]}.iam.gserviceaccount.com"} if request.type_name in agents else {}
        state = {name: known.get(name, f"data-{name}") if of["type"] == "string" and config.get(name) is None else config.get(name)
                 for name, of in schema["attributes"].items()}
        return pb.ReadDataSource.Response(state=encode({**config, **state}))

    def PlanResourceChange(self, request, context):
        proposed, prior = decode(request.proposed_new_state), decode(request.prior_state)
        if proposed is None or prior is not None:
            return pb.PlanResourceChange.Response(planned_state=request.proposed_new_state)
        return pb.PlanResourceChange.Response(planned_state=encode(planned(request.type_name, proposed, SCHEMAS["resources"][request.type_name])))

    def ApplyResourceChange(self, request, context):
        state = decode(request.planned_state)
        if state is None:
            return pb.ApplyResourceChange.Response(new_state=request.planned_state)
        attributes = SCHEMAS["resources"][request.type_name]["attributes"]
        state = {name: applied(value, attributes[name]["type"], name) if name in attributes else value for name, value in state.items()}
        return pb.ApplyResourceChange.Response(new_state=encode(state))

    def StopProvider(self, request, context):
        return pb.StopProvider.Response()


def main(servicer=Provider):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=[("grpc.max_receive_message_length", 64 << 20)])
    rpc.add_ProviderServicer_to_server(servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0)


if __name__ == "__main__":
    main()
