"""A tiny JSON-RPC server on loopback, for clients that must survive whatever a node answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Handler = Callable[[str, list[Any]], Any]
"""Called with method and params; returns the result, or raises :class:`NodeError`."""

Respond = Callable[["Exchange"], None]
"""Called for each POST; writes whatever it likes."""


@dataclass
class NodeError(Exception):
    """The error object that the node answers with."""

    code: int
    message: str
    data: Any = None

    def to_json(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}


@dataclass
class Exchange:
    """One POST: what was asked, and the handler to answer it with."""

    http: BaseHTTPRequestHandler
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    def send(self, body: bytes, status: int = 200, **headers: str) -> None:
        """A whole HTTP answer."""
        self.http.send_response(status)
        for name, value in headers.items():
            self.http.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.http.send_header("Content-Length", str(len(body)))
        self.http.end_headers()
        self.http.wfile.write(body)

    def send_json(self, document: Any) -> None:
        self.send(json.dumps(document).encode())


@dataclass
class Server:
    """A running server: its URL, what it was asked, and the headers that came with it."""

    url: str
    requests: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def methods(self) -> list[str]:
        """Every method called, batches taken apart."""
        calls = [
            call
            for document in self.requests
            for call in (document if isinstance(document, list) else [document])
        ]
        return [call["method"] for call in calls]


def answer(handler: Handler, call: dict[str, Any]) -> dict[str, Any]:
    """The JSON-RPC answer to one call."""
    head = {"jsonrpc": "2.0", "id": call["id"]}
    try:
        return head | {"result": handler(call["method"], call["params"])}
    except NodeError as error:
        return head | {"error": error.to_json()}


def honest(handler: Handler) -> Respond:
    """Answers calls and batches as JSON-RPC asks for."""

    def respond(exchange: Exchange) -> None:
        document = exchange.document
        if isinstance(document, list):
            exchange.send_json([answer(handler, call) for call in document])
        else:
            exchange.send_json(answer(handler, document))

    return respond


@contextmanager
def serve(respond: Respond) -> Iterator[Server]:
    """A server that lives as long as the block."""

    class Post(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body go out in two pieces; Nagle's algorithm would hold the second back for 40 ms.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.requests.append(json.loads(body))
            server.headers.append(dict(self.headers.items()))
            try:
                respond(Exchange(self, body))
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, *_args: Any) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Post) as http:
        http.daemon_threads = True
        http.block_on_close = False
        server = Server(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join(5)
