"""
A PostgreSQL server of a test's own.

Its superuser is `hf`, who needs no password from this machine; each test finds
an empty database in it. Its commits are synced, as an operator's would be.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, Final

import psycopg

from trials.databases.server import DatabaseServer, has_user, install

_ROOT: Final = Path("/usr/lib/postgresql")
SUPERUSER: Final = "hf"
PACKAGES: Final = ("postgresql",)


class PostgresqlServer(DatabaseServer):
    """One server."""

    name = "postgresql"
    user = "postgres"
    stop_signal = signal.SIGINT  # clients are not waited for

    def prepare(self) -> None:
        self.run(
            [
                str(binaries() / "initdb"),
                "-D",
                str(self._data),
                "-U",
                SUPERUSER,
                "--auth=trust",
                "--no-instructions",
                "-E",
                "UTF8",
                "--locale=C",
            ]
        )

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "shared_buffers": "64MB",
        }
        options = [word for name, it in settings.items() for word in ("-c", f"{name}={it}")]
        return [
            str(binaries() / "postgres"),
            "-D",
            str(self._data),
            "-p",
            str(self.port),
            *options,
        ]

    def is_ready(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Do this as the superuser; give what it gives."""
        with psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=SUPERUSER,
            dbname=database,
            autocommit=True,
            connect_timeout=5,
        ) as connection:
            # The waiting for a standby that some tests ask for is not meant for this session.
            connection.execute("SET synchronous_commit = local")
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def create(self, database: str) -> str:
        """Make a database, or empty it, whoever is connected to it; give its URL."""
        known = self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{database}'")
        if not known:
            self.execute(f"CREATE DATABASE {database}")
            return self.url(database)
        # A server that was killed looks at every file of every database before it is up again.
        self.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
        )
        self.execute(f"ALTER DATABASE {database} RESET ALL")
        self.execute("DROP SCHEMA public CASCADE", database)
        self.execute("CREATE SCHEMA public", database)
        return self.url(database)

    def url(self, database: str, port: int | None = None) -> str:
        """Where it is, as an operator writes it; or behind another port."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{port or self.port}/{database}"


def binaries() -> Path:
    """The folder of the newest version that is installed."""
    found = sorted(_ROOT.glob("*/bin"), key=lambda it: int(it.parent.name))
    return found[-1] if found else _ROOT


def missing_postgresql() -> str:
    """Why there can be no server here, after an attempt to install one; nothing if there can."""
    for _ in range(2):
        if (binaries() / "initdb").exists() and has_user("postgres"):
            return ""
        if not install(*PACKAGES):
            break
    return "apt-get install postgresql"
