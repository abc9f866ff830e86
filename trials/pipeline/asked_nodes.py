"""
What stands before the admin ports of nodes, for tests: `AtRequest` hears of all that passes.

By itself it hears of what its own process asks. Spark plans and reads in processes of its own, and
whoever is given these addresses asks through here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from holdfast.testing.local_cluster import LocalNode
from trials.pipeline.at_request import AtRequest

_POLL_SECONDS: Final = 0.02
"""How long it takes to notice that it is to stop."""
_TIMEOUT_SECONDS: Final = 20.0
_HEADERS: Final = ("Authorization", "Content-Type")


class AskedNodes:
    """One port before each node; use as a context manager."""

    def __init__(self, nodes: Iterable[LocalNode], at: AtRequest) -> None:
        self._at = at
        self._lock = threading.Lock()
        self._servers = [self._server_for(node) for node in nodes]
        self._threads = [
            threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
            for server in self._servers
        ]

    @property
    def url(self) -> str:
        """All of them, as the data source is told of a cluster."""
        return ",".join(f"http://127.0.0.1:{it.server_address[1]}" for it in self._servers)

    def __enter__(self) -> Self:
        """Begin to listen."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()

    def _server_for(self, node: LocalNode) -> ThreadingHTTPServer:
        note = self._note

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True  # who asked is gone

            def _hand_on(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                note(self.command, self.path)
                headers = {it: self.headers[it] for it in _HEADERS if it in self.headers}
                connection = HTTPConnection(node.admin, timeout=_TIMEOUT_SECONDS)
                try:
                    connection.request(self.command, self.path, data or None, headers)
                    response = connection.getresponse()
                    content = response.read()
                except (OSError, HTTPException):
                    self.close_connection = True  # as a node that died, without an answer
                    return
                finally:
                    connection.close()
                self.send_response(response.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = _hand_on  # noqa: N815 - names of Python's library

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        server.daemon_threads = True
        return server

    def _note(self, method: str, path: str) -> None:
        with self._lock:  # several ask at once
            self._at.note(method, path)
