"""
What stands between a store's client and an S3 server, for tests: it notes and spoils what passes.

    with S3Server() as server, StoreProxy(server) as proxy:
        place = Place("s3a://backup/x", proxy.options)
        proxy.rule = lambda request, ask: refused(403) if request.method == "PUT" else ask()

A rule is called for each request, in a thread of its connection; `ask` hands the request on and
gives the server's answer. None as an answer drops the connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from trials.pipeline.s3_server import S3Server

_HOP_BY_HOP: Final = ("connection", "transfer-encoding", "content-length", "keep-alive")
_POLL_SECONDS: Final = 0.02
"""How long it takes to notice that it is to stop."""
_CODES: Final = {
    403: "ExpiredToken",
    404: "NoSuchKey",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    500: "InternalError",
    503: "SlowDown",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks; `key` is without the bucket."""

    method: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """What S3 calls it, or nearly."""
        names = self.query.keys()
        if self.method == "GET":
            return "list" if "list-type" in names or not self.key else "get"
        if self.method == "POST":
            kinds = {"uploads": "begin-upload", "uploadId": "complete", "delete": "delete-many"}
            return next((kinds[it] for it in kinds if it in names), "post")
        if self.method == "PUT":
            copied = "x-amz-copy-source" in self.headers
            return "part" if "uploadId" in names else "copy" if copied else "put"
        if self.method == "DELETE":
            return "abort" if "uploadId" in names else "delete"
        return self.method.lower()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client is told; of a body that is cut off `sent` bytes come."""

    status: int
    headers: dict[str, str]
    body: bytes
    sent: int | None = None


Ask = Callable[[], Answer]
Rule = Callable[[Request, Ask], Answer | None]


def refused(status: int, code: str = "") -> Answer:
    """The store's own refusal, as XML."""
    text = f"<Error><Code>{code or _CODES[status]}</Code><Message>no</Message></Error>"
    return Answer(status, {"Content-Type": "application/xml"}, text.encode())


def flipped(answer: Answer, byte: int | None = None) -> Answer:
    """The same with one bit another, in the middle of the body if no byte is named."""
    body = bytearray(answer.body)
    if body:
        body[len(body) // 2 if byte is None else byte] ^= 1
    return replace(answer, body=bytes(body))


def cut_off(answer: Answer) -> Answer:
    """The same, whose connection is closed in the middle of the body."""
    return replace(answer, sent=len(answer.body) // 2)


class StoreProxy:
    """Hands requests on to a server by a rule; use as a context manager."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        self.rule: Rule = lambda _, ask: ask()
        self.requests: list[Request] = []
        handler = type("_Passing", (_Passing,), {"proxy": self, "server_port": server.port})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(_POLL_SECONDS,), daemon=True
        )

    @property
    def options(self) -> dict[str, str]:
        """How to reach the server through this, under Hadoop's names."""
        port = self._http.server_address[1]
        return self._server.options | {"fs.s3a.endpoint": f"http://127.0.0.1:{port}"}

    @property
    def kinds(self) -> list[str]:
        """What was asked for, in order."""
        return [it.kind for it in self.requests]

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; connections that are open end with the process."""
        self._http.shutdown()
        self._http.server_close()


class _Passing(BaseHTTPRequestHandler):
    proxy: StoreProxy
    server_port: int
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def _serve(self) -> None:
        body = self._body()
        parts = urlsplit(self.path)
        key = unquote(parts.path).lstrip("/").partition("/")[2]
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, key, query, headers, body)
        self.proxy.requests.append(request)
        answer = self.proxy.rule(request, lambda: self._asked(body))
        if answer is None:
            self.close_connection = True
            return
        self._tell(answer)

    def handle_expect_100(self) -> bool:
        """Say at once that the body may come: AWS's client waits for that, for a second at most."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - the module's names

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        found = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return found

    def _asked(self, body: bytes) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.server_port, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
        try:
            connection.request(
                self.command, self.path, body, headers | {"Content-Length": str(len(body))}
            )
            found = connection.getresponse()
            # A head tells a length of what does not come.
            told = dict(found.getheaders())
            return Answer(found.status, told, found.read())
        finally:
            connection.close()

    def _tell(self, answer: Answer) -> None:
        self.send_response(answer.status)
        kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
        length = str(len(answer.body))
        if self.command == "HEAD":
            length = next(
                (v for k, v in answer.headers.items() if k.lower() == "content-length"), "0"
            )
        for name, value in (kept | {"Content-Length": length}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: answer.sent])
        self.wfile.flush()
        if answer.sent is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
