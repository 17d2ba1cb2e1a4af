"""The GKE cluster: its name, its API's address, credentials for kubectl."""

import tools


def cluster_name(values):
    """Cluster Toolkit names a GKE cluster after its deployment."""
    return values["existing"] or values["deployment"]


def location(values):
    return "--region", values["region"], "--project", values["project"]


def describe(values):
    return tools.read("gcloud", "container", "clusters", "describe", cluster_name(values), *location(values), "--format=json")


def dns_name(found):
    """The API's DNS name, if it accepts requests from outside the network."""
    endpoint = found.get("controlPlaneEndpointsConfig", {}).get("dnsEndpointConfig", {})
    return endpoint.get("endpoint") if endpoint.get("allowExternalTraffic") else None


def get_credentials(values, found):
    by_name = ["--dns-endpoint"] if dns_name(found) else []
    tools.run("gcloud", "container", "clusters", "get-credentials", cluster_name(values), *location(values), *by_name)


def access(found):
    """Value of `access` in cluster.json, without credentials: the agent obtains its own. A DNS name has a public authority's
    certificate."""
    name = dns_name(found)
    return {"gke": {"server": f"https://{name or found['endpoint']}",
                    "certificate_authority": "" if name else found["masterAuth"]["clusterCaCertificate"]}}
