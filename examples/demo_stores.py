"""
The same demonstration where several brokers share one log: in a directory or a database.

Three brokers wait on one log; the one that serves gets SIGKILL, the next one takes the lease and
goes on, the dead one comes back as a standby. Then the holder is paused for longer than its lease
and wakes up while another one serves: what it does then counts for nothing. A server of a database
is killed as well; of a cluster of them the node through which the holder writes. At the end every
message is accounted for, and what each broker has read of the log is compared by hash chain.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import uvloop
from rich.console import Console

from holdfast.testing.local_cluster import LocalNode
from holdfast.testing.shared_brokers import SharedBrokers

sys.path.insert(0, str(Path(__file__).parent.parent))  # What runs the servers is not installed.

from trials.databases.galera import GaleraCluster, missing_galera
from trials.databases.mariadb import MariadbServer, missing_mariadb
from trials.databases.postgresql import PostgresqlServer, missing_postgresql
from trials.leased.pausing import pause

LEASE_SECONDS = 2.0
LEASE_SECONDS_GALERA = 8.0
"""Longer than the cluster stands still over a node that is gone."""
TITLES = {
    "shared": "three brokers on one shared directory",
    "sqlite": "three brokers on one SQLite database",
    "postgres": "three brokers on PostgreSQL",
    "mariadb": "three brokers on MariaDB",
    "galera": "three brokers on three nodes of Galera",
    "raidb": "three brokers on PostgreSQL, MariaDB and SQLite, which hold the same",
}
TOPOLOGIES = tuple(TITLES)


class Server(Protocol):
    """What is killed of a database, and comes back."""

    name: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def create(self, database: str) -> str:
        """Make a database; give its URL."""
        ...

    def kill(self) -> None:
        """Kill it."""
        ...

    def launch(self) -> None:
        """Start it again; it ends with the thread that does so."""
        ...

    def await_ready(self) -> None:
        """Wait until it is of use."""
        ...


class FirstNode(GaleraCluster):
    """A cluster of which the node is killed that all brokers try first."""

    name = "first node of the cluster"

    def create(self, database: str | None = None) -> str:
        return self.url(super().create())

    def kill(self) -> None:
        self.nodes[0].kill()

    def launch(self) -> None:
        """Start it again."""
        self.nodes[0].launch()

    def await_ready(self) -> None:
        """Wait until it has all that it missed."""
        self.await_whole()


class ThreeDatabases:
    """A server of PostgreSQL, one of MariaDB and a file of SQLite; the second one is killed."""

    name = "MariaDB server, one of three databases"

    def __init__(self) -> None:
        self._postgresql, self._mariadb = PostgresqlServer(), MariadbServer()
        self._servers = ExitStack()

    def __enter__(self) -> Self:
        for server in (self._postgresql, self._mariadb):
            self._servers.enter_context(server)
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.close()

    def create(self, database: str) -> str:
        """Make a database on each server; their addresses, with a space between."""
        return f"{self._postgresql.create(database)} {self._mariadb.create(database)}"

    def kill(self) -> None:
        """Kill one of the servers."""
        self._mariadb.kill()

    def launch(self) -> None:
        """Start it again."""
        self._mariadb.launch()

    def await_ready(self) -> None:
        """Wait until it is of use."""
        self._mariadb.await_ready()


def missing_databases() -> str:
    """Why one of the servers cannot be had here; or nothing."""
    return missing_postgresql() or missing_mariadb()


SERVERS: dict[str, tuple[type[Server], Callable[[], str]]] = {
    "postgres": (PostgresqlServer, missing_postgresql),
    "mariadb": (MariadbServer, missing_mariadb),
    "galera": (FirstNode, missing_galera),
    "raidb": (ThreeDatabases, missing_databases),
}


def medium_flags(topology: str, folder: Path, server: Server | None) -> list[str]:
    """Say where the log is, as each broker is told."""
    urls = [] if server is None else server.create("holdfast").split()
    if topology in ("sqlite", "raidb"):
        urls.append(f"sqlite:///{folder}/log.db")
    if urls:
        return [flag for url in urls for flag in ("--store", url)]
    return ["--shared", str(folder / "shared")]


@contextmanager
def database(topology: str, console: Console) -> Iterator[Server | None]:
    """Run a server of its own for the databases that have one, in a temporary folder."""
    if topology not in SERVERS:
        yield None
        return
    make, missing = SERVERS[topology]
    if reason := missing():
        console.print(f"there is no such server here, and none could be installed: {reason}")
        raise SystemExit(2)
    with make() as server:
        yield server


async def killed(
    brokers: SharedBrokers,
    console: Console,
    seconds: float,
    flags: list[str],
    server: Server | None,
) -> float:
    """Kill the one that serves, then pause the next one past its lease; the time of the return."""
    await asyncio.sleep(seconds / 8)
    if isinstance(server, ThreeDatabases):
        await database_lost(server, brokers, console, seconds)
    elif server is not None:
        await server_killed(server, console)
    await asyncio.sleep(seconds / 8)
    holder = await asyncio.to_thread(brokers.leader)
    console.print(f"[bold red]kill -9[/] of [bold]{holder.name}[/], which holds the lease")
    holder.kill()
    successor = await asyncio.to_thread(brokers.leader, 30.0, holder)
    console.print(f"[bold green]{successor.name}[/] has taken the lease")
    await asyncio.sleep(seconds / 4)
    began = time.monotonic()
    holder.start()
    await asyncio.to_thread(brokers.wait_level)
    returned = time.monotonic() - began
    console.print(f"[bold green]{holder.name}[/] is back, as a standby")
    await paused(brokers, console, flags)
    return returned


async def server_killed(server: Server, console: Console) -> None:
    """Kill a server of the database, and start it again at once."""
    console.print(f"[bold red]kill -9[/] of the {server.name}, which is started again")
    server.kill()
    server.launch()
    await asyncio.to_thread(server.await_ready)
    console.print(f"[bold green]the {server.name}[/] is back")


async def database_lost(
    server: ThreeDatabases, brokers: SharedBrokers, console: Console, seconds: float
) -> None:
    """Lose one of several databases for a while: the others go on, and it is filled afterwards."""
    console.print(f"[bold red]kill -9[/] of the {server.name}")
    server.kill()
    await asyncio.to_thread(_wait_for, brokers, "failed")
    console.print("it is left out; the other two go on")
    await asyncio.sleep(seconds / 8)
    server.launch()
    await asyncio.to_thread(server.await_ready)
    await asyncio.to_thread(_wait_for, brokers, "active")
    console.print("[bold green]it is back[/], has what it missed, and counts again")


def _wait_for(brokers: SharedBrokers, state: str) -> None:
    """Wait until the database that is killed here is told to be so by who serves."""

    def is_so(status: dict[str, Any]) -> bool:
        told = {it["directory"]: it["state"] for it in status["store"]["mirrors"]}
        return any(place.startswith("mysql:") and it == state for place, it in told.items())

    brokers.leader().wait_until(is_so, f"told that it is {state}")


async def paused(brokers: SharedBrokers, console: Console, flags: list[str]) -> LocalNode:
    """Stop the holder for longer than its lease, and wake it up; gives who replaced it."""
    holder = await asyncio.to_thread(brokers.leader)
    console.print(f"[bold yellow]{holder.name}[/] is paused for longer than its lease (SIGSTOP)")
    await asyncio.to_thread(pause, holder, flags)
    try:
        other = await asyncio.to_thread(brokers.leader, 30.0, holder)
        console.print(f"[bold green]{other.name}[/] has taken the lease after the silence")
    finally:
        holder.signal(signal.SIGCONT)
    await asyncio.to_thread(
        holder.wait_until, lambda status: status["role"] == "standby", "a standby", 30.0
    )
    console.print(f"[bold]{holder.name}[/] woke up, found that out, and waits")
    return other


def run(
    topology: str,
    folder: Path,
    console: Console,
    seconds: float,
    traffic: Callable[[SharedBrokers, Callable[[], Any]], Any],
) -> tuple[SharedBrokers, Any, float]:
    """Play it; `traffic` runs the clients beside the disaster that it is given."""
    with database(topology, console) as server:
        flags = medium_flags(topology, folder, server)
        return _play(topology, folder, console, seconds, traffic, flags, server)


def _play(
    topology: str,
    folder: Path,
    console: Console,
    seconds: float,
    traffic: Callable[[SharedBrokers, Callable[[], Any]], Any],
    flags: list[str],
    server: Server | None,
) -> tuple[SharedBrokers, Any, float]:
    lease = LEASE_SECONDS_GALERA if topology == "galera" else LEASE_SECONDS
    with SharedBrokers(folder, [*flags, "--lease-seconds", str(lease)]) as brokers:
        console.rule(f"[bold]Holdfast: {TITLES[topology]}")
        holder = brokers.start()
        console.print(f"[bold green]{holder.name}[/] holds the lease and serves")
        account, returned = uvloop.run(
            traffic(brokers, lambda: killed(brokers, console, seconds, flags, server))
        )
        brokers.wait_level()
        for node in brokers.nodes.values():
            node.stop()
    return brokers, account, returned
