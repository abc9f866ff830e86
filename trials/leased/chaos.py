"""
Real brokers over one log, hurt for some minutes, and everything accounted for.

    python -m trials.leased.chaos --store postgres --minutes 2.5 --seed 7

Three brokers, a producer and a consumer that keep books, and one trouble after another, at times
two at once: brokers killed, stopped, paused past their lease; databases killed, paused, cut
off from one another, from one broker or from all, in one direction or both. After each the service
must come back. In the end nothing that was confirmed is lost, nothing is stored twice, nothing
comes back that was acknowledged, and every broker (and of several databases each) ends with the
same hash chain.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from holdfast.environment.clock import SystemClock
from holdfast.environment.disk import RealDisk
from holdfast.journal.entry import HEADER_BYTES, parse_header
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.leases.cache import CACHE_DIRECTORY
from holdfast.testing.local_cluster import LocalNode
from holdfast.testing.shared_brokers import SharedBrokers
from trials.clients.load import Load, LoadSettings
from trials.databases.cutting_proxy import CuttingProxy
from trials.databases.galera import GaleraCluster
from trials.databases.mariadb import MariadbServer
from trials.databases.postgresql import PostgresqlServer
from trials.databases.server import DatabaseServer
from trials.leased.pausing import pause

Trouble = Callable[[], None]
STORES = ("shared", "sqlite", "postgres", "mariadb", "galera", "raidb")
DATABASE = "chaos"
NAMES = "abc"
RATE = 1_000.0
BACK_SECONDS = 120.0
"""After each trouble messages must be confirmed again in this time."""
_BOTH = 0.3
"""How often a broker and a server have their trouble at the same time."""


@dataclass(slots=True)
class Stage:
    """What is hurt."""

    chance: random.Random
    console: Console
    flags: list[str]
    lease_seconds: float
    servers: list[DatabaseServer] = field(default_factory=list)
    ways: dict[str, list[CuttingProxy]] = field(default_factory=dict)
    """By which each broker reaches each server."""
    galera: GaleraCluster | None = None
    brokers: SharedBrokers = field(init=False)
    happened: Counter[str] = field(default_factory=Counter)

    def note(self, what: str) -> None:
        """Tell of a trouble, and count it."""
        self.happened[what] += 1
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {what}")

    # Brokers --------------------------------------------------------------------------------------

    def kill_holder(self) -> None:
        """Its process is gone, and comes back."""
        self._away(self.brokers.leader(60.0), LocalNode.kill, "holder killed")

    def stop_holder(self) -> None:
        """It gives the lease back."""
        self._away(self.brokers.leader(60.0), LocalNode.stop, "holder stopped")

    def kill_standby(self) -> None:
        """One that waits is gone for a while."""
        self._away(self.brokers.standby(), LocalNode.kill, "standby killed")

    def kill_all(self) -> None:
        """Nobody is left; they begin again one after the other."""
        self.note("all brokers killed")
        for node in self.brokers.nodes.values():
            node.kill()
        for node in self.brokers.nodes.values():
            node.start()

    def pause_holder(self) -> None:
        """It is stopped for longer than its lease, and wakes up."""
        holder = self.brokers.leader(60.0)
        self.note("holder paused")
        pause(holder, self.flags)
        time.sleep(self.lease_seconds * self.chance.uniform(0.5, 2.5))
        holder.signal(signal.SIGCONT)

    def _away(self, node: LocalNode, end: Callable[[LocalNode], object], what: str) -> None:
        self.note(what)
        end(node)
        time.sleep(self.chance.uniform(0.0, 4.0))
        node.start()

    # Servers --------------------------------------------------------------------------------------

    def kill_server(self) -> None:
        """One server of a database is gone, and comes back."""
        server = self.chance.choice(self.servers)
        self.note(f"{server.name} killed")
        server.kill()
        time.sleep(self.chance.uniform(0.0, 4.0))
        server.start()

    def pause_server(self) -> None:
        """One server stands still for a while."""
        server = self.chance.choice(self.servers)
        self.note(f"{server.name} paused")
        server.pause()
        time.sleep(self.chance.uniform(0.3, 6.0))
        server.resume()

    def cut_off_server(self) -> None:
        """One server is reached by nobody for a while, or not by one broker, or answers nobody."""
        place = self.chance.randrange(len(self.servers))
        names = self.chance.choice([[*self.ways], [self.chance.choice([*self.ways])]])
        there, back = self.chance.choice([(True, True), (True, False), (False, True)])
        what = "cut off" if there and back else "hears nothing" if there else "is not heard"
        whom = "by all" if len(names) > 1 else "by one broker"
        self.note(f"{self.servers[place].name} {what}, {whom}")
        for name in names:
            self.ways[name][place].hold(there=there, back=back)
        time.sleep(self.chance.uniform(0.3, 8.0))
        for name in names:
            self.ways[name][place].release()

    def kill_node(self) -> None:
        """One node of the cluster is gone, and comes back with what it missed."""
        assert self.galera is not None
        node = self.chance.choice(self.galera.nodes)
        self.note("node of Galera killed")
        node.kill()
        time.sleep(self.chance.uniform(0.0, 4.0))
        node.launch()
        self.galera.await_whole()

    def pause_node(self) -> None:
        """One node stands still, but not for so long that it is put out."""
        assert self.galera is not None
        node = self.chance.choice(self.galera.nodes)
        self.note("node of Galera paused")
        node.pause()
        time.sleep(self.chance.uniform(0.3, 2.5))
        node.resume()
        self.galera.await_whole()

    def cut_off_node(self) -> None:
        """One node is alone, and comes back."""
        assert self.galera is not None
        node = self.chance.choice(self.galera.nodes)
        self.note("node of Galera cut off")
        node.cut_off()
        time.sleep(self.chance.uniform(0.3, 6.0))
        node.join_again()
        self.galera.await_whole()

    def of_brokers(self) -> list[Trouble]:
        """What may happen to brokers."""
        common = [self.kill_holder, self.kill_holder, self.pause_holder, self.stop_holder]
        return [*common, self.kill_standby, self.kill_all]

    def of_servers(self) -> list[Trouble]:
        """What may happen to databases."""
        if self.galera is not None:
            return [self.kill_node, self.pause_node, self.cut_off_node]
        if not self.servers:
            return []
        return [self.kill_server, self.pause_server, self.cut_off_server]

    def flags_of(self, name: str) -> list[str]:
        """Say where the log is for this broker, which has ways of its own to the servers."""
        ways = zip(self.servers, self.ways[name], strict=True)
        urls = [server.url(DATABASE, way.port) for server, way in ways]
        return [*(flag for url in urls for flag in ("--store", url)), *self.flags]


@contextmanager
def staged(store: str, folder: Path, seed: int, console: Console) -> Iterator[Stage]:
    """Set up a store of this kind, and brokers over it; all ends with it."""
    with ExitStack() as stack:
        stage = Stage(random.Random(seed), console, [], 2.0)  # noqa: S311 - to be repeated
        urls: list[str] = []
        if store == "galera":
            stage.galera = stack.enter_context(GaleraCluster())
            stage.lease_seconds = 8.0
            urls.append(stage.galera.url(stage.galera.create()))
        kinds: dict[str, list[type[DatabaseServer]]] = {
            "postgres": [PostgresqlServer],
            "mariadb": [MariadbServer],
            "raidb": [PostgresqlServer, MariadbServer],
        }
        for kind in kinds.get(store, []):
            server = stack.enter_context(kind())
            stage.servers.append(server)
            server.create(DATABASE)
        if store in ("sqlite", "raidb"):
            urls.append(f"sqlite:///{folder}/log.db")
        stage.flags = [flag for url in urls for flag in ("--store", url)]
        if store == "shared":
            stage.flags = ["--shared", str(folder / "shared")]
        stage.ways = {
            name: [stack.enter_context(closing(CuttingProxy(it.port))) for it in stage.servers]
            for name in NAMES
        }
        lease = ["--lease-seconds", str(stage.lease_seconds)]
        stage.brokers = stack.enter_context(SharedBrokers(folder / "brokers", (), NAMES))
        for name, node in stage.brokers.nodes.items():
            node.arguments[:] = [*stage.flags_of(name), *lease]
        stage.brokers.start()
        yield stage


def hurt(stage: Stage, load: Load, seconds: float) -> None:
    """One trouble after another, until the time is over; the service comes back after each."""
    until = time.monotonic() + seconds
    chance = stage.chance
    while time.monotonic() < until:
        time.sleep(chance.uniform(0.2, 2.0))
        brokers, servers = stage.of_brokers(), stage.of_servers()
        if servers and chance.random() < _BOTH:
            with ThreadPoolExecutor(1) as beside:
                other = beside.submit(chance.choice(brokers))
                chance.choice(servers)()  # In this thread: a server ends with its starter's.
            other.result()
        else:
            chance.choice(brokers + servers)()
        load.wait_confirmed(100, BACK_SECONDS)


def ends(stage: Stage) -> dict[str, str]:
    """The hash chain at the last entry that all have, of each broker and each of the databases."""
    journals = {
        name: Journal.open(node.data / CACHE_DIRECTORY, RealDisk(), JournalSettings())
        for name, node in stage.brokers.nodes.items()
    }
    try:
        index = min(it.last_index for it in journals.values())
        found = {f"broker {name}": it.chain_at(index).hex() for name, it in journals.items()}
    finally:
        for journal in journals.values():
            journal.close()
    statement = f"SELECT raw FROM holdfast_entries WHERE idx = {index} AND part = 0"  # noqa: S608
    for server in stage.servers:
        ((raw,),) = server.execute(statement, DATABASE)
        found[server.name] = _chain_of(bytes(raw))
    return found


def _chain_of(head: bytes) -> str:

    return parse_header(head[:HEADER_BYTES]).chain.hex()


def run(store: str, minutes: float, seed: int, console: Console) -> bool:
    """Hurt one store for so long; whether all was kept."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-chaos-") as folder,
        staged(store, Path(folder), seed, console) as stage,
    ):
        addresses = [f"127.0.0.1:{it.stomp_port}" for it in stage.brokers.nodes.values()]
        settings = LoadSettings(rate=RATE, body_bytes=256, deduplicated=True, settle_receipts=True)
        with Load(addresses, settings) as load:
            load.wait_confirmed(100, BACK_SECONDS)
            hurt(stage, load, minutes * 60)
            account = load.finish(BACK_SECONDS)
        stage.brokers.leader(60.0).wait_until(
            lambda status: all(it["state"] == "active" for it in status["store"]["mirrors"]),
            "all databases filled again",
            BACK_SECONDS,
        )
        stage.brokers.wait_level()
        for node in stage.brokers.nodes.values():
            node.stop()
        chains = ends(stage)
    bad = (
        *(account.lost, account.unconfirmed, account.stored_twice, account.unflagged),
        *(account.resurrected, account.corrupt, account.foreign),
    )
    is_kept = not any(bad) and account.confirmed > 0 and len(set(chains.values())) == 1
    console.print(f"[bold]{store}[/], seed {seed}: {account}")
    console.print(", ".join(f"{what} {count}" for what, count in stage.happened.most_common()))
    console.print(f"hash chains of {', '.join(chains)}: {len(set(chains.values()))} different")
    console.print("[green]kept[/]" if is_kept else f"[red]BROKEN[/] {chains}")
    return is_kept


def main() -> int:
    """Run the stores that are asked for, one after the other; gives the exit code."""
    parser = argparse.ArgumentParser(description="Hurt brokers over one log, and account for all.")
    parser.add_argument("--store", action="append", choices=STORES, help="all, if none is named")
    parser.add_argument("--minutes", type=float, default=2.5, help="for each store")
    parser.add_argument("--seed", type=int, default=SystemClock().wall_microseconds() // 1_000_000)
    arguments = parser.parse_args()
    console = Console()
    kept = [
        run(store, arguments.minutes, arguments.seed, console)
        for store in arguments.store or STORES
    ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
