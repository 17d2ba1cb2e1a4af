"""Name server of the cluster, for the pods of JobSets only: `names.py ADDRESS API TOKEN-FILE`.

`{hostname}.{subdomain}.{namespace}.svc.cluster.local` resolves to the pod's address as soon as the pod has one.
"""

import json, socket, ssl, struct, sys, time, urllib.request

address, api, token = sys.argv[1:]
trust = ssl._create_unverified_context()
known, refreshed = {}, 0.0


def refresh():
    global known, refreshed
    if time.monotonic() - refreshed < 0.5:
        return
    request = urllib.request.Request(f"{api}/api/v1/pods", headers={"Authorization": "Bearer " + open(token).read()})
    pods = json.load(urllib.request.urlopen(request, context=trust, timeout=5))["items"]
    known = {
        "{}.{}.{}.svc.cluster.local".format(pod["spec"]["hostname"], pod["spec"].get("subdomain"), pod["metadata"]["namespace"]): pod["status"]["podIP"]
        for pod in pods
        if "hostname" in pod["spec"] and "podIP" in pod["status"]
    }
    refreshed = time.monotonic()


def answer(query):
    name, at = [], 12
    while query[at]:
        name.append(query[at + 1 : at + 1 + query[at]].decode().lower())
        at += query[at] + 1
    kind = struct.unpack(">H", query[at + 1 : at + 3])[0]
    found = known.get(".".join(name))
    question = query[12 : at + 5]
    data = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(found) if found and kind == 1 else b""
    return query[:2] + struct.pack(">HHHHH", 0x8580 if found else 0x8583, 1, 1 if data else 0, 0, 0) + question + data


server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((address, 53))
while True:
    query, client = server.recvfrom(512)
    try:
        refresh()
        server.sendto(answer(query), client)
    except (OSError, IndexError, ValueError, KeyError) as error:
        print(error, file=sys.stderr, flush=True)
