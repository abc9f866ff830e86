"""
A MariaDB server of a test's own.

Its superuser is `root`, who needs no password from this machine; each test finds
an empty database in it. Its commits are synced, as an operator's would be.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final

import pymysql

from trials.databases.server import DatabaseServer, has_user, install

PACKAGES: Final = ("mariadb-server",)


class MariadbServer(DatabaseServer):
    """One server."""

    name = "mariadb"
    user = "mysql"

    @property
    def data(self) -> Path:
        """The folder of its tables."""
        return self.folder / "data"

    def prepare(self) -> None:
        self.run(
            [
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={self.data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ]
        )

    def settings(self) -> dict[str, str]:
        """What stands in its file; nothing of the machine's own is read."""
        return {
            "bind-address": "127.0.0.1",
            "port": str(self.port),
            "socket": str(self.folder / "socket"),
            "datadir": str(self.data),
            "pid-file": str(self.folder / "pid"),
            "skip-name-resolve": "1",
            "skip-log-bin": "1",
            "performance_schema": "OFF",
            "innodb_buffer_pool_size": "64M",
            "innodb_log_file_size": "32M",
            "innodb_flush_log_at_trx_commit": "1",
            "max_allowed_packet": "16M",
        }

    def command(self) -> list[str]:
        file = self.folder / "my.cnf"
        lines = [f"{name}={it}" for name, it in self.settings().items()]
        file.write_text("\n".join(["[mysqld]", *lines, ""]))
        if os.getuid() == 0:
            shutil.chown(file, self.user)
        return [program(), f"--defaults-file={file}"]

    def is_ready(self) -> bool:
        try:
            self.execute("SELECT 1")
        except pymysql.OperationalError:
            return False
        return True

    def execute(self, statement: str, database: str = "mysql") -> list[tuple[Any, ...]]:
        """Do this as the superuser; give what it gives."""
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            database=database,
            autocommit=True,
            connect_timeout=5,
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def create(self, database: str) -> str:
        """Make a database, or empty it; give its URL."""
        self.execute(f"DROP DATABASE IF EXISTS {database}")
        self.execute(f"CREATE DATABASE {database}")
        return self.url(database)

    def url(self, database: str, port: int | None = None) -> str:
        """Where it is, as an operator writes it; or behind another port."""
        return f"mysql://root@127.0.0.1:{port or self.port}/{database}"


def program() -> str:
    """The server's program; it stands where an ordinary user's path does not lead."""
    return shutil.which("mariadbd") or "/usr/sbin/mariadbd"


def missing_mariadb() -> str:
    """Why there can be no server here, after an attempt to install one; nothing if there can."""
    for _ in range(2):
        if Path(program()).exists() and has_user("mysql"):
            return ""
        if not install(*PACKAGES):
            break
    return "apt-get install mariadb-server"
