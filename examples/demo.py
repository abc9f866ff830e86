"""
The demonstration: a replicated cluster on this machine, real traffic, the leader killed.

Three brokers (or two and a witness) run as real processes. A producer and two consumers use the
failover client. In the middle the leader gets SIGKILL; its successor takes over; the dead one comes
back and catches up. At the end every message is accounted for, by ids that only this program knows.

The second act is second_act.py: workers in message groups die and join, a poison message becomes a
dead letter and is retried, reminders fire on time over the next leader's death.

Then the replicas' logs are compared by their hash chains, and Spark audits the same replicas:
segments by hash, entries by their proofs, and the fate of every message.

Exit code 0: nothing lost, nothing stored twice, every repeated delivery flagged, the second act as
promised, replicas equal, and the audit found nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import demo_mirrors
import demo_secure
import demo_stores
import uvloop
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from second_act import second_act

from holdfast.client import connect
from holdfast.client.connection import Connection
from holdfast.environment.disk import RealDisk
from holdfast.errors import UnknownDeliveryError
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.leases.cache import CACHE_DIRECTORY
from holdfast.testing.local_cluster import TOPOLOGIES, LocalCluster, LocalNode, NodeGroup

QUEUE = "/queue/demo.orders"
BODY_BYTES = 1024
WINDOW = 500
QUIET_SECONDS = 30.0
AUDIT_SECONDS = 150.0
console = Console()


@dataclass(slots=True)
class Account:
    """What the clients know, told by nobody else."""

    sent: int = 0
    confirmed: set[int] = field(default_factory=set)
    deliveries: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    message_ids: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    plain: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """How often each was delivered without a flag."""
    last_confirm: float = 0.0
    longest_gap: float = 0.0
    interruptions: int = 0

    def confirm(self, number: int) -> None:
        """The broker said "stored"."""
        now = time.monotonic()
        if self.last_confirm:
            self.longest_gap = max(self.longest_gap, now - self.last_confirm)
        self.last_confirm = now
        self.confirmed.add(number)

    def deliver(self, number: int, message_id: str, *, redelivered: bool) -> None:
        """A consumer was handed a message."""
        self.deliveries[number] += 1
        self.message_ids[number].add(message_id)
        self.plain[number] += not redelivered

    @property
    def repeated(self) -> int:
        """Deliveries beyond the first of each message."""
        return sum(self.deliveries.values()) - len(self.deliveries)

    @property
    def unflagged(self) -> int:
        """
        Of those, the ones without a flag: all deliveries of a message but one must have it.

        Which of two consumers looks first at what it was given says nothing of what was sent first.
        """
        return sum(count - 1 for count in self.plain.values() if count > 1)

    @property
    def lost(self) -> int:
        """Confirmed and never delivered."""
        return len(self.confirmed - self.deliveries.keys())

    @property
    def stored_twice(self) -> int:
        """One message of the producer under two identities of the broker."""
        return sum(len(ids) > 1 for ids in self.message_ids.values())


async def produce(connection: Connection, account: Account, rate: int, until: float) -> None:
    """Send at a steady rate until the time is over; returns when all is confirmed."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with connection.producer(QUEUE, window=WINDOW) as producer:
        while loop.time() < until:
            due = int((loop.time() - began) * rate)
            while account.sent < due and loop.time() < until:
                number = account.sent
                account.sent += 1
                confirmation = await producer.send(b"%012d" % number + b"x" * (BODY_BYTES - 12))
                confirmation.add_done_callback(
                    lambda done, number=number: (
                        None if done.cancelled() or done.exception() else account.confirm(number)
                    )
                )
            await asyncio.sleep(0.002)


async def consume(connection: Connection, account: Account) -> None:
    """Take messages and acknowledge each, until cancelled."""
    async with connection.subscribe(QUEUE, prefetch=200) as subscription:
        async for message in subscription:
            account.deliver(int(message.body[:12]), message.id, redelivered=message.redelivered)
            await message.acknowledge()


@asynccontextmanager
async def consuming(way: demo_secure.Way) -> AsyncIterator[Connection]:
    """
    A consumer's connection. One that comes back late after the failover finds that others have what
    it had: its acknowledgements are refused then, and the messages, delivered again, are counted.
    """
    with suppress(UnknownDeliveryError):
        async with connect(way[0], **way[1]) as connection:
            yield connection


async def settle(account: Account) -> None:
    """Wait until everything confirmed is delivered, or nothing has moved for a while."""
    seen, since = -1, time.monotonic()
    while account.lost or len(account.confirmed) < account.sent:
        moved = len(account.deliveries) + len(account.confirmed)
        if moved != seen:
            seen, since = moved, time.monotonic()
        elif time.monotonic() - since > QUIET_SECONDS:
            return
        await asyncio.sleep(0.05)


async def disaster(cluster: LocalCluster, seconds: float) -> float:
    """Kill the leader, see the successor, bring the dead one back; how long that takes to be."""
    await asyncio.sleep(seconds / 3)
    leader = await asyncio.to_thread(cluster.leader)
    console.print(f"[bold red]kill -9[/] of the leader [bold]{leader.name}[/] (pid {leader.pid})")
    leader.kill()
    successor = await asyncio.to_thread(cluster.leader, 30.0, leader)
    console.print(f"[bold green]{successor.name}[/] has taken over")
    await asyncio.sleep(seconds / 3)
    console.print(f"[bold]{leader.name}[/] is started again")
    began = time.monotonic()
    leader.start()
    await asyncio.to_thread(cluster.wait_level)
    caught_up = time.monotonic() - began
    console.print(f"[bold green]{leader.name}[/] has caught up")
    return caught_up


async def traffic(
    cluster: NodeGroup[LocalNode],
    seconds: float,
    rate: int,
    disaster: Callable[[], Coroutine[Any, Any, float]],
) -> tuple[Account, float]:
    """Run clients and disaster together; gives the account and the time to catch up."""
    ways = ((cluster.uri, {}), (cluster.uri, {}))
    return await traffic_of(ways, seconds, rate, lambda _account: disaster())


async def traffic_of(
    ways: tuple[demo_secure.Way, demo_secure.Way],
    seconds: float,
    rate: int,
    disaster: Callable[[Account], Coroutine[Any, Any, float]],
) -> tuple[Account, float]:
    """The same of a producer and of consumers that connect by ways of their own."""
    account = Account()
    async with (
        connect(ways[0][0], **ways[0][1]) as producing,
        consuming(ways[1]) as first,
        consuming(ways[1]) as second,
    ):
        consumers = [asyncio.create_task(consume(each, account)) for each in (first, second)]
        until = asyncio.get_running_loop().time() + seconds
        killing = asyncio.create_task(disaster(account))
        sending = asyncio.create_task(produce(producing, account, rate, until))
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as progress:
            bar = progress.add_task("", total=seconds)
            began = time.monotonic()
            while not (sending.done() and killing.done()):
                progress.update(
                    bar,
                    completed=time.monotonic() - began,
                    description=f"{len(account.confirmed):,} confirmed,"
                    f" {len(account.deliveries):,} delivered",
                )
                await asyncio.sleep(0.1)
        await sending
        caught_up = await killing
        await settle(account)
        for task in consumers:
            task.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)
    return account, caught_up


def compare_logs(folders: dict[str, Path]) -> tuple[dict[str, str], int]:
    """Give each log's chain hash at the last entry that all of them have; nobody uses them."""
    journals = {
        name: Journal.open(folder, RealDisk(), JournalSettings())
        for name, folder in folders.items()
    }
    try:
        index = min(journal.last_index for journal in journals.values())
        chains = {name: journal.chain_at(index).hex() for name, journal in journals.items()}
        return chains, index
    finally:
        for journal in journals.values():
            journal.close()


def show(account: Account, chains: dict[str, str], index: int, caught_up: float) -> bool:
    """Print the account; True if the promise was kept."""
    equal = len(set(chains.values())) == 1
    good = (
        not account.lost
        and not account.stored_twice
        and not account.unflagged
        and len(account.confirmed) == account.sent
        and equal
    )
    table = Table(title="The account", show_header=False, title_style="bold")
    table.add_column(justify="left")
    table.add_column(justify="right", style="bold")
    for label, value in (
        ("sent", f"{account.sent:,}"),
        ("confirmed", f"{len(account.confirmed):,}"),
        ("delivered", f"{len(account.deliveries):,}"),
        ("lost", _verdict(account.lost)),
        ("stored twice", _verdict(account.stored_twice)),
        ("delivered again, flagged", f"{account.repeated - account.unflagged:,}"),
        ("delivered again, not flagged", _verdict(account.unflagged)),
        ("longest time without confirms", f"{account.longest_gap * 1000:,.0f} ms"),
        ("restart and catch-up of the killed one", f"{caught_up:.1f} s"),
    ):
        table.add_row(label, value)
    table.add_section()
    for name, chain in sorted(chains.items()):
        style = "green" if equal else "red"
        table.add_row(f"chain hash of {name} at entry {index:,}", f"[{style}]{chain}[/]")
    console.print(table)
    verdict = "Nothing was lost." if good else "THE PROMISE WAS BROKEN."
    console.print(Panel(verdict, style="bold green" if good else "bold red", expand=False))
    return good


def _verdict(count: int) -> str:
    return f"[{'green' if not count else 'red'}]{count:,}[/]"


def audit(cluster: LocalCluster, topology: str) -> bool:
    """Have Spark prove the data nodes' replicas; True unless it found something."""
    names = [name for name, kind in TOPOLOGIES[topology] if kind != "witness"]
    command = [sys.executable, "-m", "holdfast", "audit", "--master", "local[2]"]
    for name in names:
        command += ["--path", name]
    command += ["--conf", "spark.sql.shuffle.partitions=4"]
    with console.status(f"Spark audits the replicas {', '.join(names)}"):
        done = subprocess.run(  # noqa: S603 - our own program
            command,
            cwd=cluster.directory,
            capture_output=True,
            text=True,
            timeout=AUDIT_SECONDS,
            check=False,
        )
    if done.returncode == 2:
        # No Java, and setup could not install it: the account above stands without the audit.
        console.print(f"not audited: {done.stderr.strip().splitlines()[-1]}", style="yellow")
        return True
    is_sound = done.returncode == 0
    console.print(
        Panel(
            done.stdout.strip() or done.stderr.strip()[-2000:],
            title="holdfast audit: the replicas of this run, proven by Spark",
            style="green" if is_sound else "red",
            expand=False,
        )
    )
    return is_sound


def shared_log(topology: str, seconds: float, rate: int) -> int:
    """Show brokers that share one log; gives the exit code."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        brokers, account, returned = demo_stores.run(
            topology,
            Path(folder),
            console,
            seconds,
            lambda brokers, disaster: traffic(brokers, seconds, rate, disaster),
        )
        chains, index = compare_logs(
            {name: node.data / CACHE_DIRECTORY for name, node in brokers.nodes.items()}
        )
    return 0 if show(account, chains, index, returned) else 1


def mirrored(seconds: float, rate: int) -> int:
    """Show one broker with two directories; gives the exit code."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        account, returned, directories = demo_mirrors.run(
            Path(folder),
            console,
            seconds,
            lambda node, disaster: traffic(node, seconds, rate, disaster),
        )
        chains, index = compare_logs({it.name: it for it in directories})
    return 0 if show(account, chains, index, returned) else 1


def secured(seconds: float, rate: int) -> int:
    """Show three nodes with TLS everywhere, users and grants; gives the exit code."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        cluster, account, returned, is_right = demo_secure.run(
            Path(folder),
            console,
            seconds,
            lambda ways, play: traffic_of(
                ways, seconds, rate, lambda account: play(_noting(account))
            ),
        )
        chains, index = compare_logs({name: node.data for name, node in cluster.nodes.items()})
    return 0 if show(account, chains, index, returned) and is_right else 1


def _noting(account: Account) -> Callable[[Any], None]:
    """What a further consumer tells of each message that it was handed."""

    def note(message: Any) -> None:
        account.deliver(int(message.body[:12]), message.id, redelivered=message.redelivered)

    return note


def main() -> int:
    """Run the demonstration; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else "")
    parser.add_argument(
        "--topology",
        choices=(
            *("three", "witness", demo_secure.TOPOLOGY, demo_mirrors.TOPOLOGY),
            *demo_stores.TOPOLOGIES,
        ),
        default="three",
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to send")
    parser.add_argument("--rate", type=int, default=3000, help="messages per second")
    arguments = parser.parse_args()
    logging.getLogger("holdfast").setLevel(logging.ERROR)  # The story below tells the same.
    if arguments.topology in demo_stores.TOPOLOGIES:
        return shared_log(arguments.topology, arguments.seconds, arguments.rate)
    if arguments.topology == demo_mirrors.TOPOLOGY:
        return mirrored(arguments.seconds, arguments.rate)
    if arguments.topology == demo_secure.TOPOLOGY:
        return secured(arguments.seconds, arguments.rate)
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        with LocalCluster(Path(folder), arguments.topology) as cluster:
            console.rule("[bold]Holdfast: kill the leader, lose nothing")
            names = ", ".join(
                f"{name} (stomp {node.stomp_port}, admin {node.admin_port})"
                for name, node in cluster.nodes.items()
            )
            console.print(f"starting {names}")
            leader = cluster.start()
            console.print(f"[bold green]{leader.name}[/] leads; sending {arguments.rate:,}/s")
            seconds, rate = arguments.seconds, arguments.rate
            account, caught_up = uvloop.run(
                traffic(cluster, seconds, rate, lambda: disaster(cluster, seconds))
            )
            cluster.wait_level()
            console.rule("[bold]A cluster of consumers, a poison message, reminders")
            is_right = uvloop.run(second_act(cluster, console))
            cluster.wait_level()
            for node in cluster.nodes.values():
                node.stop()
            chains, index = compare_logs({name: node.data for name, node in cluster.nodes.items()})
        is_kept = show(account, chains, index, caught_up) and is_right
        return 0 if audit(cluster, arguments.topology) and is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
