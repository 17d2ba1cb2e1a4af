"""Registry for the images of image.py: `registry.py ADDRESS FOLDER`. For other images it returns MANIFEST_UNKNOWN."""

import http.server, os, sys

address, folder = sys.argv[1:]


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts == ["v2"]:
            return self.send(200, "application/json", b"{}", body)
        path = os.path.join(folder, *parts[-2:])
        if parts[:2] != ["v2", "burnin"] or parts[-2] not in ("blobs", "manifests") or not os.path.isfile(path):
            return self.send(404, "application/json", b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}', body)
        kind = "application/octet-stream" if parts[-2] == "blobs" else "application/vnd.oci.image.manifest.v1+json"
        with open(path, "rb") as file:
            self.send(200, kind, file.read(), body)

    def send(self, code, kind, data, body):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def do_GET(self):
        self.answer(True)

    def do_HEAD(self):
        self.answer(False)


http.server.ThreadingHTTPServer((address, 5000), Registry).serve_forever()
