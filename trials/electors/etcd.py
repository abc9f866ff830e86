"""
A server of etcd of a test's own: one member, on ports of loopback, in a temporary folder.

It elects quickly, so that sessions may be short; what it stores is synced, as an operator's is.
"""

from __future__ import annotations

import http.client
import shutil
from typing import Any, Final

from holdfast.testing.free_ports import free_ports
from trials.databases.server import DatabaseServer, ServerFailedError, has_user, install

PACKAGES: Final = ("etcd-server",)
_HEARTBEAT_MILLISECONDS: Final = 50
_ELECTION_MILLISECONDS: Final = 300


class EtcdServer(DatabaseServer):
    """One server."""

    name = "etcd"
    user = "etcd"

    def __init__(self) -> None:
        super().__init__()
        (self._peer_port,) = free_ports(1)

    def prepare(self) -> None:
        """Nothing: it lays its folder out by itself."""

    def command(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{it}" for it in (self.port, self._peer_port))
        settings = {
            "name": "one",
            "data-dir": str(self.folder / "data"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"one={peer}",
            "heartbeat-interval": str(_HEARTBEAT_MILLISECONDS),
            "election-timeout": str(_ELECTION_MILLISECONDS),
        }
        return ["etcd", *(f"--{name}={value}" for name, value in settings.items())]

    def is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1.0)
        try:
            connection.request("GET", "/health")
            return b'"true"' in connection.getresponse().read(1_000)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def execute(self, statement: str, database: str = "") -> list[tuple[Any, ...]]:
        """Refuse: it knows no SQL."""
        raise ServerFailedError(f"{self.name} knows no SQL")

    def create(self, database: str) -> str:
        """Give the URL of a place that nobody used before."""
        return self.url(database)

    def url(self, database: str, port: int | None = None) -> str:
        """Where a line is, as an operator writes it; or behind another port."""
        return f"etcd://127.0.0.1:{port or self.port}/holdfast/{database}"


def missing_etcd() -> str:
    """Why there can be no server here, after an attempt to install one; nothing if there can."""
    for _ in range(2):
        if shutil.which("etcd") is not None and has_user("etcd"):
            return ""
        if not install(*PACKAGES):
            break
    return "apt-get install etcd-server"
