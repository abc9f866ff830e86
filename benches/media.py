"""
The media on which Holdfast keeps its log, each with one broker over it, as benches measure them.

A broker is `holdfast serve` as a user starts it, with default settings but for where its log is.
The databases are servers of the bench's own on this machine, with synced commits, started once and
shared by all that want one: each log has a database of its own in it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from brokers import Broker

from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.testing.local_cluster import LocalNode
from holdfast.testing.shared_brokers import SharedBrokers
from trials.databases.galera import GaleraCluster, missing_galera
from trials.databases.mariadb import MariadbServer, missing_mariadb
from trials.databases.postgresql import PostgresqlServer, missing_postgresql
from trials.databases.server import DatabaseServer

_COPIES = 3
"""Databases in one RAIDb-1."""


class Servers:
    """The database servers of one bench, each started when it is wanted first."""

    def __init__(self, stack: ExitStack) -> None:
        """End them with this."""
        self._stack = stack

    @cached_property
    def postgresql(self) -> list[PostgresqlServer]:
        """So many as a RAIDb-1 has; the first one also serves whoever wants only one."""
        return [self._stack.enter_context(PostgresqlServer()) for _ in range(_COPIES)]

    @cached_property
    def mariadb(self) -> MariadbServer:
        """A server alone."""
        return self._stack.enter_context(MariadbServer())

    @cached_property
    def galera(self) -> GaleraCluster:
        """Three nodes that are one database."""
        return self._stack.enter_context(GaleraCluster())


Flags = Callable[[Servers, Path, str], list[str]]
"""What `holdfast serve` is told: of these servers, in this folder, for a log of this name."""


@dataclass(frozen=True)
class Medium:
    """One way to keep the log, and what is to be reached with it."""

    name: str
    title: str
    flags: Flags
    missing: Callable[[], str] = lambda: ""
    """Why it cannot be had here, after an attempt to install it; empty if it can."""

    reach: float = 0.0
    """Messages a second; with `against` the share of what that one does."""

    aim: float = 0.0
    against: str = ""
    """Which medium its speed is told as a share of."""


def _mirrored(_: Servers, folder: Path, name: str) -> list[str]:
    return ["--data", str(folder / f"{name}-mirror")]


def _shared(_: Servers, folder: Path, name: str) -> list[str]:
    return ["--shared", str(folder / f"{name}-shared")]


def _sqlite(_: Servers, folder: Path, name: str) -> list[str]:
    return ["--store", f"sqlite:///{folder}/{name}.db"]


def _one(server: DatabaseServer, name: str) -> list[str]:
    return ["--store", server.create(name.replace("-", "_"))]


def _several(servers: Servers, _: Path, name: str) -> list[str]:
    return [flag for server in servers.postgresql for flag in _one(server, name)]


MEDIA = (
    Medium("directory", "one directory", lambda *_: []),
    Medium("mirrored", "two mirrored directories", _mirrored, lambda: "", 0.6, 0.8, "directory"),
    Medium("shared", "shared directory", _shared),
    Medium("sqlite", "SQLite", _sqlite, lambda: "", 30e3, 50e3),
    Medium(
        "postgresql",
        "PostgreSQL",
        lambda servers, _, name: _one(servers.postgresql[0], name),
        missing_postgresql,
        *(15e3, 30e3),
    ),
    Medium(
        "raidb",
        "RAIDb-1 of three PostgreSQL",
        _several,
        missing_postgresql,
        *(0.4, 0.7, "postgresql"),
    ),
    Medium(
        "mariadb",
        "MariaDB",
        lambda servers, _, name: _one(servers.mariadb, name),
        missing_mariadb,
        *(10e3, 20e3),
    ),
    Medium(
        "galera",
        "Galera of three",
        lambda servers, *_: ["--store", servers.galera.url(servers.galera.create())],
        missing_galera,
        *(5e3, 9e3),
    ),
)
"""In the order of their lines in the table; what one is told as a share of comes before it."""


class Kept(Broker):
    """One broker whose log is on a medium."""

    brokers: SharedBrokers | None = None

    def __init__(self, directory: Path, medium: Medium, flags: list[str]) -> None:
        """Take the flags that say where the log is."""
        super().__init__(directory, 1)
        self.name = medium.name
        self.title = medium.title
        self._flags = flags

    def start(self) -> None:
        """Start it and wait until it serves at the newest level of the log's format."""
        self.brokers = SharedBrokers(self.directory, self._flags, names="a")
        self.brokers.__enter__()
        self.brokers.start().wait_until(
            lambda status: status["format_level"] >= NEWEST_LEVEL, "at the newest level"
        )

    def version_told(self) -> str:
        """What keeps its log, as it says itself, with the version of a database."""
        status = self._node.status()
        assert status is not None, "who serves answers"
        lease = status.get("lease") or {}
        return str(lease.get("kind") or "a journal of its own")

    def stop(self) -> None:
        """Kill it: nothing of it is needed any more."""
        if self.brokers is not None:
            self.brokers.__exit__(None, None, None)

    @property
    def _node(self) -> LocalNode:
        assert self.brokers is not None, "asked after start"
        return self.brokers.nodes["a"]

    @property
    def address(self) -> str:
        """Its client port."""
        return f"127.0.0.1:{self._node.stomp_port}"

    @property
    def pids(self) -> list[int]:
        """The broker, without the database's processes."""
        return [self._node.pid]
