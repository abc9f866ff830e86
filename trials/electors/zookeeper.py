"""
A server of ZooKeeper of a test's own: alone, on a port of loopback, in a temporary folder.

Its tick is short, so that sessions may be; it needs Java, as Spark does.
"""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any, Final

from trials.databases.server import DatabaseServer, ServerFailedError, has_user, install

PACKAGES: Final = ("zookeeper",)
TICK_MILLISECONDS: Final = 400
_JARS: Final = Path("/usr/share/java")
_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_NEEDED: Final = (
    "zookeeper.jar",
    "zookeeper-jute.jar",
    "slf4j-api.jar",
    "slf4j-simple.jar",
    "netty-all.jar",
    "netty-handler.jar",
    "netty-common.jar",
    "netty-buffer.jar",
    "netty-transport.jar",
    "commons-io.jar",
    "commons-cli.jar",
    "metrics-core.jar",
    "snappy-java.jar",
    "jackson-databind.jar",
    "jackson-core.jar",
    "jackson-annotations.jar",
    "log4j-1.2.jar",
    "audience-annotations.jar",
)


class ZookeeperServer(DatabaseServer):
    """One server."""

    name = "zookeeper"
    user = "zookeeper"

    def prepare(self) -> None:
        settings = {
            "tickTime": TICK_MILLISECONDS,
            "dataDir": self.folder / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok",
        }
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        (self.folder / "zoo.cfg").write_text("".join(lines))

    def command(self) -> list[str]:
        jars = [str(_JARS / it) for it in _NEEDED if (_JARS / it).exists()]
        options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [
            "java",
            *options,
            "-cp",
            ":".join(jars),
            _CLASS,
            str(self.folder / "zoo.cfg"),
        ]

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def execute(self, statement: str, database: str = "") -> list[tuple[Any, ...]]:
        """Refuse: it knows no SQL."""
        raise ServerFailedError(f"{self.name} knows no SQL")

    def create(self, database: str) -> str:
        """Give the URL of a place that nobody used before."""
        return self.url(database)

    def url(self, database: str, port: int | None = None) -> str:
        """Where a line is, as an operator writes it; or behind another port."""
        return f"zookeeper://127.0.0.1:{port or self.port}/holdfast/{database}"


def missing_zookeeper() -> str:
    """Why there can be no server here, after an attempt to install one; nothing if there can."""
    for _ in range(2):
        has_java = shutil.which("java") is not None
        if has_java and (_JARS / "zookeeper.jar").exists() and has_user("zookeeper"):
            return ""
        if not install(*PACKAGES):
            break
    return "apt-get install zookeeper (and Java)"
