"""The stand-in for Terraform's providers over the project in the folder $CLOUD: it creates and deletes there, reads services back from there,
and refuses requests as Google's API or the provider does. It prints its address, and serves until its standard input ends."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "terraform"))

import provider
from cloud import NONCE, Cloud, Refused
from provider import decode, encode, pb

FOLDER = os.environ["CLOUD"]
# APIs of data sources, which Terraform reads while it plans.
READS = {"google_project": "cloudresourcemanager", "google_storage_project_service_account": "storage", "google_bigquery_default_service_account": "bigquery"}


def refusal(error):
    return [pb.Diagnostic(severity=pb.Diagnostic.ERROR, summary=str(error))]


class CloudProvider(provider.Provider):
    def GetProviderSchema(self, request, context):
        """The provider computes neither labels nor the revision of a template: without a value in the configuration it removes them."""
        response = super().GetProviderSchema(request, context)
        (template,) = (block for block in response.resource_schemas["google_cloud_run_v2_service"].block.block_types if block.type_name == "template")
        for attribute in template.block.attributes:
            if attribute.name in ("labels", "revision"):
                attribute.computed = False
        return response

    def ReadDataSource(self, request, context):
        try:
            Cloud(FOLDER).needs(READS[request.type_name])
        except Refused as error:
            return pb.ReadDataSource.Response(diagnostics=refusal(error))
        return super().ReadDataSource(request, context)

    def ReadResource(self, request, context):
        kind, state, cloud = request.type_name, decode(request.current_state), Cloud(FOLDER)
        if kind.startswith("google_") and cloud.key(kind, state) not in cloud.state["resources"].get(kind, {}):
            return pb.ReadResource.Response(new_state=encode(None))
        if kind == "google_cloud_run_v2_service":
            service = cloud.service(state["name"])
            (template,) = state["template"]
            template["containers"][0]["image"] = service["revisions"][-1]["image"]
            # Version 2 of the API shows labels with this prefix.
            template["labels"] = {NONCE: service["nonce"]} if service["nonce"] else None
            return pb.ReadResource.Response(new_state=encode(state))
        return super().ReadResource(request, context)

    def ApplyResourceChange(self, request, context):
        response = super().ApplyResourceChange(request, context)
        if request.type_name.startswith("google_"):
            try:
                with Cloud.change(FOLDER) as cloud:
                    cloud.apply(request.type_name, decode(request.prior_state), decode(response.new_state))
            except Refused as error:
                return pb.ApplyResourceChange.Response(new_state=request.prior_state, diagnostics=refusal(error))
        return response


if __name__ == "__main__":
    provider.main(CloudProvider)
