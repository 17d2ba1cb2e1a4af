"""The GKE cluster: its name, its API's address, the networks that may reach that address, credentials for kubectl."""

import ipaddress

import tools
from tools import Failed


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


def own_network():
    """This machine's public address, as a network of one address: Google's name server returns the sender's address. Upstream's
    own builds of this cluster do the same (cluster-toolkit v1.82.0, tools/cloud-build/daily-tests/builds/gke-a4.yml)."""
    found = tools.run("dig", "-4", "+short", "TXT", "o-o.myaddr.l.google.com", "@ns1.google.com", shown=False).strip().strip('"')
    try:
        return f"{ipaddress.IPv4Address(found)}/32"
    except ValueError:
        raise Failed(f"dig: expected this machine's public IPv4 address, found {found[:80]!r}; is UDP to ns1.google.com allowed?") from None


def lasting_networks(values):
    """Networks that may reach the API by address as long as the cluster exists."""
    return [values["authorized_cidr"]] if values["authorized_cidr"] else []


def authorize(values, networks):
    """Sets the networks that may reach the API by address."""
    words = ["--master-authorized-networks", ",".join(networks)] if networks else []
    tools.run("gcloud", "container", "clusters", "update", cluster_name(values), *location(values), "--enable-master-authorized-networks", *words, limit_s=1800)


def access(found):
    """Value of `access` in cluster.json, without credentials: the agent obtains its own. A DNS name has a public authority's
    certificate."""
    name = dns_name(found)
    return {"gke": {"server": f"https://{name or found['endpoint']}",
                    "certificate_authority": "" if name else found["masterAuth"]["clusterCaCertificate"]}}
