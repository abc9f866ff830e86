"""
Peer links on loopback: three real drivers with real journals and sockets in one process.

What the simulation cannot show: that the asyncio shell dials, proves, frames and notices a death.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import uvloop

from holdfast.environment.disk import RealDisk
from holdfast.environment.randomness import SystemRandomness
from holdfast.journal.jobs import WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.replication.driver import Driver
from holdfast.replication.membership import Member, Membership
from holdfast.replication.peer_links import PeerLinks
from holdfast.replication.peer_tls import PeerTls
from holdfast.replication.settings import ReplicationSettings
from holdfast.testing.free_ports import free_ports

MiB = 1024 * 1024
USUAL = ReplicationSettings()
# So long a wait for an election that nothing this machine does beside can be taken for one.
PATIENT = ReplicationSettings(election_seconds_min=10.0, election_seconds_max=15.0)
QUICK = ReplicationSettings(
    heartbeat_seconds=0.02, election_seconds_min=0.2, election_seconds_max=0.4
)


class Node:
    """One member: a turn after every input and at every deadline, as the server's loop does."""

    def __init__(
        self,
        directory: Path,
        member: Member,
        members: Membership,
        secret: bytes,
        settings: ReplicationSettings,
        tls: PeerTls | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.member, self.members = member, members
        self.journal = Journal.open(
            directory / member.name, RealDisk(), JournalSettings(segment_bytes=MiB)
        )
        self.writer = JournalWriter(self.journal, self._written)
        self.links = PeerLinks(
            secret=secret, randomness=SystemRandomness(), listen=member.address, tls=tls
        )
        self.driver = Driver(
            settings=settings,
            name=member.name,
            journal=self.journal,
            ballot_file=self.journal.ballot_file,
            writer=self.writer,
            links=self.links,
            randomness=SystemRandomness(),
            bootstrap=members,
        )
        self.links.attach(self.driver, self.wake)
        self.bodies: list[bytes] = []
        self.is_stopped = False
        self._is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        self.writer.start()
        self.driver.start(time.monotonic())
        await self.links.start()
        self.turn()

    async def stop(self) -> None:
        self.is_stopped = True
        if self._timer:
            self._timer.cancel()
        await self.links.close()
        self.writer.close()
        self.journal.close()

    def _written(self, result: WriteResult) -> None:
        self.loop.call_soon_threadsafe(self._stored, result)

    def _stored(self, result: WriteResult) -> None:
        self.driver.stored(result)
        self.wake()

    def wake(self) -> None:
        if not self._is_turn_due and not self.is_stopped:
            self._is_turn_due = True
            self.loop.call_soon(self.turn)

    def turn(self) -> None:
        self._is_turn_due = False
        if self.is_stopped:
            return
        now = time.monotonic()
        self.driver.turn(now)
        while entries := self.driver.take_committed(MiB):
            self.bodies += [bytes(entry.body) for entry in entries if entry.kind == 0]
        if self._timer:
            self._timer.cancel()
        pause = min(max(self.driver.next_deadline() - now, 0.0), 1.0)
        self._timer = self.loop.call_later(pause, self.wake)

    def propose(self, body: bytes) -> int:
        index = self.driver.propose(
            [body], 1, now=time.monotonic(), wall_microseconds=time.time_ns() // 1000
        ).index
        self.wake()
        return index


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> float:
    """Wait until something holds; return how long it took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, "did not happen in time"
        await asyncio.sleep(0.001)
    return time.monotonic() - start


@asynccontextmanager
async def cluster(
    directory: Path, settings: ReplicationSettings, **secrets: bytes
) -> AsyncIterator[dict[str, Node]]:
    named = [Member(n, f"127.0.0.1:{p}") for n, p in zip("abc", free_ports(3), strict=True)]
    members = Membership(tuple(named))
    nodes = {
        it.name: Node(directory, it, members, secrets.get(it.name, b"secret"), settings)
        for it in named
    }
    try:
        for node in nodes.values():
            await node.start()
        yield nodes
    finally:
        for node in nodes.values():
            if not node.is_stopped:
                await node.stop()


def leader_of(nodes: dict[str, Node]) -> Node | None:
    serving = [it for it in nodes.values() if not it.is_stopped and it.driver.is_serving]
    return serving[0] if serving else None


def test_entries_reach_everybody_and_a_dead_leader_is_replaced(tmp_path: Path) -> None:
    """Small entries and one of many frames' size; then the leader's links close."""

    async def scenario() -> None:
        async with cluster(tmp_path, PATIENT) as nodes:
            await until(lambda: leader_of(nodes) is not None)
            leader = leader_of(nodes)
            assert leader is not None
            bodies = [b"small %d" % number for number in range(200)] + [bytes(3 * MiB)]
            for body in bodies:
                leader.propose(body)
            await until(lambda: all(bodies == node.bodies for node in nodes.values()))

            await leader.stop()
            seconds = await until(lambda: leader_of(nodes) is not None)

            # The election timeout was not waited for, nor half of it.
            assert seconds < PATIENT.election_seconds_min / 2
            second = leader_of(nodes)
            assert second is not None
            second.propose(b"after")
            living = [node for node in nodes.values() if not node.is_stopped]
            await until(lambda: all(node.bodies[-1] == b"after" for node in living))

    uvloop.run(scenario())


def test_a_node_with_another_secret_stays_outside(tmp_path: Path) -> None:
    """Nothing is formed without it, and it hears nothing."""

    async def scenario() -> None:
        async with cluster(tmp_path, QUICK, c=b"another secret") as nodes:
            await asyncio.sleep(4 * QUICK.election_seconds_max)

            assert [None] * 3 == [node.driver.leader for node in nodes.values()]
            views = {view.name: view for view in nodes["a"].driver.status().members}
            assert not views

    uvloop.run(scenario())


def test_the_lead_is_handed_over_quickly(tmp_path: Path) -> None:
    """Within the time that a clean stop may cost."""

    async def scenario() -> None:
        async with cluster(tmp_path, PATIENT) as nodes:
            await until(lambda: leader_of(nodes) is not None)
            leader = leader_of(nodes)
            assert leader is not None
            target = leader.driver.transfer()
            leader.wake()

            seconds = await until(lambda: nodes[target].driver.is_serving)

            assert seconds < PATIENT.election_seconds_min / 2

    uvloop.run(scenario())


@contextmanager
def silence(ports: list[int], count: int) -> Iterator[None]:
    """So many connections to each port that never say anything; made again when they are closed."""
    stop = threading.Event()

    def keep() -> None:
        sockets: dict[socket.socket, int] = {}
        while not stop.is_set():
            for port in ports:
                for _ in range(count - sum(it == port for it in sockets.values())):
                    if stop.is_set():
                        break
                    with suppress(OSError):
                        sockets[socket.create_connection(("127.0.0.1", port), 1.0)] = port
            ready, _, _ = select.select([*sockets], [], [], 0.05)
            for it in ready:
                with suppress(OSError):
                    if it.recv(4096):
                        continue
                del sockets[it]
                it.close()
        for it in sockets:
            it.close()

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_silent_sockets_keep_no_restarted_node_out(tmp_path: Path) -> None:
    """Two hundred to the peer port of each node, from an address that members have too."""

    async def scenario() -> None:
        async with cluster(tmp_path, USUAL) as nodes:
            await until(lambda: leader_of(nodes) is not None)
            ports = [int(node.links.address.rpartition(":")[2]) for node in nodes.values()]
            with silence(ports, 200):
                old = nodes["c"]
                await old.stop()
                await until(lambda: leader_of(nodes) is not None)
                nodes["c"] = Node(tmp_path, old.member, old.members, b"secret", USUAL)
                await nodes["c"].start()

                await until(lambda: nodes["c"].driver.leader is not None)

                leader = leader_of(nodes)
                assert leader is not None
                leader.propose(b"after")
                await until(lambda: nodes["c"].bodies[-1:] == [b"after"])

    uvloop.run(scenario())
