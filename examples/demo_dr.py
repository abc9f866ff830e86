"""
The disaster, rehearsed: a whole cluster and its disks are destroyed, and the service comes back.

First from the archive: three brokers under traffic are archived continuously by Spark, into a place
of its own. Then every broker gets SIGKILL and every disk is wiped; the archive is restored, the new
cluster starts, and the clients, which were never told anything, fail over to it. Then from a
far-site learner: the same cluster has one more member in another place, which holds the log but no
vote; the site is destroyed and the learner promoted.

Both end with the account: what was confirmed, what came back, what was lost and why (RPO), and how
long it took until the first message was stored again (RTO). Exit code 0: nothing is missing but
what the archive or the learner did not have yet, and nothing came back that was never sent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from holdfast.admin.remote import RemoteNode
from holdfast.client import connect
from holdfast.client.connection import Connection
from holdfast.client.message import Message
from holdfast.errors import HoldfastError, MembershipError
from holdfast.spark.archive.store import Archive
from holdfast.testing.local_cluster import LocalCluster, LocalNode

QUEUE = "/queue/dr.orders"
BODY_BYTES = 1024
WINDOW = 500
QUIET_SECONDS = 5.0
WAIT_SECONDS = 180.0
console = Console()


@dataclass(slots=True)
class Account:
    """What the clients know, told by nobody else. Times on this machine's clock, in seconds."""

    sent: int = 0
    confirmed: dict[int, float] = field(default_factory=dict)
    settling: dict[int, float] = field(default_factory=dict)
    """When the consumer began to acknowledge a message: from then on it may be settled."""

    settled: dict[int, float] = field(default_factory=dict)
    deliveries: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    unflagged: int = 0
    struck_at: float = 0.0
    gone_at: float = 0.0
    """Every broker is dead and all that it had said is heard; nothing serves yet."""

    back_at: float = 0.0
    is_back: asyncio.Event = field(default_factory=asyncio.Event)

    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something go on beside."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def deliver(self, message: Message) -> int:
        """A consumer was handed a message; gives the number in it."""
        number = int(message.body[:12])
        if self.deliveries[number] and not message.redelivered:
            self.unflagged += 1
        self.deliveries[number].append(time.time())
        return number

    def confirm(self, number: int) -> None:
        """The broker said "stored"."""
        now = time.time()
        self.confirmed.setdefault(number, now)
        if self.gone_at and not self.back_at:
            self.back_at = now
            self.is_back.set()


@dataclass(frozen=True, slots=True)
class Loss:
    """What of the messages confirmed before the disaster is where."""

    confirmed: int
    settled: int
    came_back: int
    came_back_settled: int
    """Acknowledged before, and back again: the acknowledgement was lost."""

    uncertain: int
    """Their acknowledgement was under way when it happened."""

    lost: tuple[int, ...]
    lost_seconds: float
    """From the first confirm that was lost to the disaster."""


def count_loss(account: Account) -> Loss:
    """Sort the messages that were confirmed before the disaster."""
    gone = account.gone_at
    before = {number for number, at in account.confirmed.items() if at < gone}
    back = {n for n in before if any(at > gone for at in account.deliveries.get(n, ()))}
    settled = {n for n in before if account.settled.get(n, gone) < gone}
    begun = {n for n in before if account.settling.get(n, gone) < gone} - settled
    lost = before - back - settled - begun
    first = min((account.confirmed[number] for number in lost), default=account.struck_at)
    return Loss(
        confirmed=len(before),
        settled=len(settled - back),
        came_back=len(back - settled),
        came_back_settled=len(back & settled),
        uncertain=len(begun - back),
        lost=tuple(sorted(lost)),
        lost_seconds=max(0.0, account.struck_at - first),
    )


# Clients ------------------------------------------------------------------------------------------


async def produce(connection: Connection, account: Account, rate: int, stop: asyncio.Event) -> None:
    """
    Send at a steady rate until told to stop; returns when all is confirmed.

    What is refused is sent again. After a disaster that happens: the new cluster lacks the last
    messages of this producer, so their successors do not fit any more.
    """
    again: list[int] = []
    producer = connection.producer(QUEUE, window=WINDOW)

    def outcome(number: int, done: asyncio.Future[None]) -> None:
        if not done.cancelled():
            if done.exception() is None:
                account.confirm(number)
            else:
                again.append(number)

    async def send(number: int) -> None:
        try:
            done = await producer.send(b"%012d" % number + b"x" * (BODY_BYTES - 12))
        except HoldfastError:
            again.append(number)  # an earlier one was refused; told once
        else:
            done.add_done_callback(lambda it, number=number: outcome(number, it))

    due_at = time.monotonic()
    while not stop.is_set() or again or producer.unconfirmed:
        while again:
            await send(again.pop(0))
        if not stop.is_set() and time.monotonic() >= due_at:
            number, account.sent = account.sent, account.sent + 1
            await send(number)
            due_at = max(due_at + 1 / rate, time.monotonic() - 0.1)
        else:
            await asyncio.sleep(0.002)


async def settle(message: Message, account: Account, number: int) -> None:
    """Acknowledge one message and wait until that is stored."""
    account.settling.setdefault(number, time.time())
    try:
        await message.acknowledge(confirm=True)
    except HoldfastError:
        return  # of the old cluster; the new one delivers it again
    account.settled[number] = time.time()


async def consume(connection: Connection, account: Account) -> None:
    """
    Take messages until cancelled. Until the disaster every third one is left unacknowledged.

    So there is a backlog when it comes, and acknowledged messages as well. Afterwards it subscribes
    anew, as an application does that was started again: only what the broker has is delivered.
    """
    left: list[Message] = []  # held, so that the client does not take them for dropped
    async with connection.subscribe(QUEUE, prefetch=20_000) as subscription:
        while not account.back_at:
            message = await subscription.receive(0.2)
            if message is not None:
                number = account.deliver(message)
                if number % 3:
                    account.start(settle(message, account, number))
                else:
                    left.append(message)
    async with connection.subscribe(QUEUE) as subscription:
        async for message in subscription:
            account.start(settle(message, account, account.deliver(message)))


async def quiet(account: Account) -> None:
    """Wait until no message has been delivered for a while."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        moved = sum(map(len, account.deliveries.values()))
        if moved != seen:
            seen, since = moved, time.monotonic()
        await asyncio.sleep(0.1)


async def rehearse(
    uri: str, rate: int, seconds: float, disaster: Callable[[Account], None]
) -> Account:
    """Run clients, let the disaster and the recovery happen in a thread, and settle the account."""
    account = Account()
    stop = asyncio.Event()
    async with connect(uri) as producing, connect(uri) as consuming:
        sending = asyncio.create_task(produce(producing, account, rate, stop))
        receiving = asyncio.create_task(consume(consuming, account))
        await asyncio.sleep(seconds)
        await asyncio.to_thread(disaster, account)
        await asyncio.wait_for(account.is_back.wait(), WAIT_SECONDS)
        console.print(
            f"[bold green]the clients are back[/], {account.back_at - account.struck_at:.1f} s"
            " after the disaster"
        )
        await asyncio.sleep(2.0)
        stop.set()
        await asyncio.wait_for(sending, WAIT_SECONDS)
        await quiet(account)
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
    return account


# From the archive ---------------------------------------------------------------------------------


def holdfast(*arguments: str, log: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a command as an operator does; its words go to a file, or are shown if it fails."""
    target = subprocess.PIPE if log is None else log.open("ab")
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "holdfast", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=target,
    )


def destroy(cluster: LocalCluster, account: Account) -> None:
    """Kill every broker without warning, and wipe every disk."""
    pids = ", ".join(f"{node.name} ({node.pid})" for node in cluster.nodes.values())
    account.struck_at = time.time()
    for node in cluster.nodes.values():
        node.signal(signal.SIGKILL)
    for node in cluster.nodes.values():
        node.wait()
        shutil.rmtree(node.data, ignore_errors=True)
    console.print(f"[bold red]kill -9[/] of {pids}; [bold red]rm -rf[/] of their disks")


def wait_archived(archive: Path, archiver: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the archiver has published something."""
    deadline = time.monotonic() + WAIT_SECONDS
    while Archive.open(str(archive)).catalogue().is_empty:
        if archiver.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the archiver does not work:\n{log.read_text()[-3000:]}")
        time.sleep(0.2)


def restore(archive: Path, directory: Path, node: LocalNode) -> dict[str, Any]:
    """Run `holdfast restore`; gives what it says."""
    running = holdfast(
        *("restore", "--archive", str(archive), "--to", str(directory), "--name", node.name),
        *("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2", "--json"),
    )
    out, errors = running.communicate(timeout=WAIT_SECONDS)
    if running.returncode != 0:
        raise RuntimeError(f"restore failed:\n{errors.decode()[-3000:]}")
    return dict(json.loads(out))


def from_archive(folder: Path, rate: int, seconds: float) -> bool:
    """Archive, destroy, restore, account; True if only what was not archived yet is missing."""
    archive, words = folder / "elsewhere" / "archive", folder / "archiver.log"
    spare = LocalNode("n1", folder / "new")
    with LocalCluster(folder / "old", "three") as cluster:
        cluster.start()
        urls = ",".join(f"http://{node.admin}" for node in cluster.nodes.values())
        console.print("three brokers serve; [bold]holdfast archive --continuous[/] is started")
        archiver = holdfast(
            *("archive", "--url", urls, "--to", str(archive), "--continuous"),
            *("--interval", "1", "--hold", "dr", "--master", "local[2]"),
            *("--secret-file", str(cluster.secret_path)),
            log=words,
        )
        try:
            wait_archived(archive, archiver, words)
            facts: dict[str, Any] = {}

            def disaster(account: Account) -> None:
                destroy(cluster, account)
                began = time.monotonic()
                archiver.kill()  # whatever it was writing does not count
                archiver.wait()
                facts["stop"] = time.monotonic() - began
                facts["through"] = last_archived(archive)
                console.print("[bold]holdfast restore[/] of the archive, which was elsewhere")
                began = time.monotonic()
                facts["plan"] = restore(archive, spare.data, spare)
                facts["restore"] = time.monotonic() - began
                began, account.gone_at = time.monotonic(), time.time()
                spare.start()
                spare.wait_until(lambda status: bool(status["serving"]), "serving", WAIT_SECONDS)
                facts["start"] = time.monotonic() - began
                console.print(f"[bold green]{spare.name}[/] serves what was restored")

            uri = uri_of([*cluster.nodes.values(), spare])
            account = uvloop.run(rehearse(uri, rate, seconds, disaster))
        finally:
            if archiver.poll() is None:
                archiver.kill()
                archiver.wait()
            spare.kill()
    loss = count_loss(account)
    # Whatever was confirmed before the archive's last entry was sealed must be in it.
    unexcused = [n for n in loss.lost if account.confirmed[n] < facts["through"]]
    rows = [
        ("archive was behind by", f"{account.struck_at - facts['through']:.1f} s"),
        ("restored, says the command", f"{facts['plan']['messages']:,}"),
        ("to kill the archiver", f"{facts['stop']:.1f} s"),
        ("to restore", f"{facts['restore']:.1f} s"),
        *((f"… {name}", f"{took:.1f} s") for name, took in facts["plan"]["steps"].items()),
        ("to start", f"{facts['start']:.1f} s"),
    ]
    return show("From the archive", account, loss, unexcused, rows)


def last_archived(archive: Path) -> float:
    """When the last entry in the archive was sealed, in seconds since the epoch."""
    end = Archive.open(str(archive)).catalogue().last
    assert end is not None, "something was archived"
    return end.last_timestamp / 1e6


# From the far site --------------------------------------------------------------------------------


def from_far_site(folder: Path, rate: int, seconds: float) -> bool:
    """Replicate to a learner elsewhere, destroy the site, promote, account."""
    with LocalCluster(folder / "near", "three") as cluster:
        leader = cluster.start()
        far = add_learner(cluster, leader, folder / "far")
        console.print("three brokers serve; [bold]far[/], a learner in another place, follows")
        near = {name: node for name, node in cluster.nodes.items() if node is not far}
        facts: dict[str, float] = {}

        def disaster(account: Account) -> None:
            cluster.nodes = dict(near)
            destroy(cluster, account)
            began, account.gone_at = time.monotonic(), time.time()
            command = ["cluster", "promote", far.name, "--force", "--yes", "--admin", far.admin]
            running = holdfast(*command, "--secret-file", str(cluster.secret_path))
            _, errors = running.communicate(timeout=WAIT_SECONDS)
            if running.returncode != 0:
                raise RuntimeError(f"promote failed:\n{errors.decode()[-3000:]}\n{far.log_tail()}")
            far.wait_until(lambda status: bool(status["serving"]), "serving", WAIT_SECONDS)
            facts["promote"] = time.monotonic() - began
            console.print(f"[bold green]{far.name}[/] is promoted and serves")

        try:
            uri = uri_of([*near.values(), far])
            account = uvloop.run(rehearse(uri, rate, seconds, disaster))
        finally:
            far.kill()
    loss = count_loss(account)
    # A learner is in no quorum: what was confirmed in the last moment may not have reached it.
    unexcused = [n for n in loss.lost if account.confirmed[n] < account.struck_at - 1.0]
    rows = [("to promote", f"{facts['promote']:.1f} s")]
    return show("From a far-site learner", account, loss, unexcused, rows)


def add_learner(cluster: LocalCluster, leader: LocalNode, folder: Path) -> LocalNode:
    """Start a learner, admit it, and wait until it has everything."""
    far = LocalNode("far", folder)
    listed = [f"{node.name}=127.0.0.1:{node.peer_port}" for node in cluster.nodes.values()]
    listed.append(f"far=127.0.0.1:{far.peer_port},learner")
    far.arguments += ["--peers", f"127.0.0.1:{far.peer_port}"]
    far.arguments += ["--secret-file", str(cluster.secret_path), "--site", "far"]
    for member in listed:
        far.arguments += ["--member", member]
    cluster.nodes["far"] = far
    far.start()
    body = {"name": "far", "address": f"127.0.0.1:{far.peer_port}", "kind": "learner"}
    deadline = time.monotonic() + 30
    while True:
        try:
            RemoteNode(leader.admin).change("POST", "/cluster/add", body)
            break
        except MembershipError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    far.wait_until(lambda status: status["role"] == "learner", "a learner")
    cluster.wait_level()
    return far


def uri_of(nodes: list[LocalNode]) -> str:
    """Where clients look: every broker there is, and the ones that may come."""
    inner = ",".join(f"stomp://127.0.0.1:{node.stomp_port}" for node in nodes)
    return f"failover:({inner})?initialReconnectDelay=10&maxReconnectDelay=100"


# The account --------------------------------------------------------------------------------------


def show(
    title: str,
    account: Account,
    loss: Loss,
    unexcused: list[int],
    more: list[tuple[str, str]],
) -> bool:
    """Print the account; True if it is as promised."""
    never_sent = [n for n in account.deliveries if n >= account.sent]
    after = account.confirmed.keys() - account.deliveries.keys() - set(loss.lost)
    good = not (unexcused or never_sent or after or account.unflagged)
    table = Table(title=title, show_header=False, title_style="bold")
    table.add_column()
    table.add_column(justify="right", style="bold")
    rows = [
        ("confirmed before the disaster", f"{loss.confirmed:,}"),
        ("of these acknowledged, and done with", f"{loss.settled:,}"),
        ("of these came back", f"{loss.came_back:,}"),
        ("acknowledged, and came back again", f"{loss.came_back_settled:,}"),
        ("acknowledgement was under way", f"{loss.uncertain:,}"),
        ("RPO: confirmed and lost", f"{len(loss.lost):,} messages, {loss.lost_seconds:.1f} s"),
        ("RTO: until a message was stored again", f"{account.back_at - account.struck_at:.1f} s"),
        *more,
        ("confirmed afterwards", f"{len(account.confirmed) - loss.confirmed:,}"),
        ("lost without an excuse", _verdict(len(unexcused) + len(after))),
        ("delivered again, not flagged", _verdict(account.unflagged)),
        ("delivered and never sent", _verdict(len(never_sent))),
    ]
    for label, value in rows:
        table.add_row(label, value)
    console.print(table)
    words = "Came back as promised." if good else "THE PROMISE WAS BROKEN."
    console.print(Panel(words, style="bold green" if good else "bold red", expand=False))
    return good


def _verdict(count: int) -> str:
    return f"[{'green' if not count else 'red'}]{count:,}[/]"


def main() -> int:
    """Run the rehearsal; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=15.0, help="traffic before the disaster")
    parser.add_argument("--rate", type=int, default=500, help="messages per second")
    parser.add_argument("--only", choices=("archive", "learner"), help="one of the two")
    arguments = parser.parse_args()
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)  # The story below tells the same.
    good = True
    with tempfile.TemporaryDirectory(prefix="holdfast-dr-") as name:
        folder = Path(name)
        if arguments.only != "learner":
            console.rule("[bold]Holdfast: lose the whole cluster, come back from the archive")
            good &= from_archive(folder, arguments.rate, arguments.seconds)
        if arguments.only != "archive":
            console.rule("[bold]Holdfast: lose the whole site, promote the learner elsewhere")
            good &= from_far_site(folder, arguments.rate, arguments.seconds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
