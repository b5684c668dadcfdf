"""A server with the requests of the Hugging Face Hub that an upload makes. It keeps what is committed."""

import base64
import contextlib
import http.server
import json
import threading


class FakeHub:
    def __init__(self, refuses: int = 0):
        self.refuses = refuses  # a status that answers all requests
        self.created: list[dict] = []
        self.files: dict[str, bytes] = {}
        self.commits: list[dict] = []
        self.tokens: set[str] = set()
        self.address = ""

    def answer(self, path: str, body: bytes) -> dict:
        if path == "/api/repos/create":
            self.created.append(json.loads(body))
            return {"url": f"{self.address}/{self.created[-1].get('organization', '')}/{self.created[-1]['name']}"}
        if "/preupload/" in path:
            return {"files": [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                              for file in json.loads(body)["files"]]}
        if "/commit/" in path:
            return self._commit(path, [json.loads(line) for line in body.splitlines()])
        return {"warnings": [], "errors": []}  # validate-yaml

    def _commit(self, path: str, lines: list[dict]) -> dict:
        self.commits.append({"path": path, **next(line["value"] for line in lines if line["key"] == "header")})
        for line in lines:
            if line["key"] == "file":
                self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        repository = path.removeprefix("/api/models/").partition("/commit/")[0]
        return {"success": True, "commitUrl": f"{self.address}/{repository}/commit/{'1' * 40}", "commitOid": "1" * 40, "hookOutput": ""}


def _handler(hub: FakeHub):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            hub.tokens.add(self.headers.get("Authorization", ""))
            reply = json.dumps({"error": "no"} if hub.refuses else hub.answer(self.path, body)).encode()
            self.send_response(hub.refuses or 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_):
            pass

    return Handler


@contextlib.contextmanager
def serving(refuses: int = 0):
    hub = FakeHub(refuses)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
