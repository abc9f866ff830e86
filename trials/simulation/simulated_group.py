"""
A replication group in memory: real drivers, real journals, simulated disks, network and time.

Everything is decided by a seed: when messages arrive, which are lost, doubled or late, how long
a sync takes, what a power cut leaves. So a failure is repeated by its seed, and a minute of trouble
takes a second. Transcripts drive it by hand with a perfect network; simulations let chance do it.

Invariants checked all the time (`Checker`):
    At most one leader per term.
    Two members that know an entry to be committed have the same entry there.
    What a leader commits is at that moment durable on a majority of voters and on enough copies.
    No committed entry is ever cut or lost.

Owned by the test that made it; one thread.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.environment.clock import Clock
from holdfast.errors import CorruptEntryError, HoldfastError, NotLeaderError
from holdfast.journal.jobs import WriteJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import ROOM_RETRY_SECONDS, JournalWriter
from holdfast.replication.driver import Driver
from holdfast.replication.formation import Refusal
from holdfast.replication.membership import Member, Membership
from holdfast.replication.message_codec import FRAME_HEADER, decode_message, encode_message
from holdfast.replication.messages import Hello, Message
from holdfast.replication.quorum import default_copies, majority
from holdfast.replication.settings import ReplicationSettings
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

DIRECTORY = Path("/simulated")
SEGMENT_BYTES = 64 * 1024


class ViolationError(AssertionError):
    """A promise was broken."""


class SeededRandomness:
    """Chance from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - to be repeated from a seed

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return self._random.uniform(low, high)

    def bytes(self, count: int) -> bytes:
        """Return `count` bytes."""
        return self._random.randbytes(count)


@dataclass(slots=True, kw_only=True)
class Trouble:
    """How bad network and disks are. The default is perfect and quick."""

    delay_seconds_min: float = 0.0005
    delay_seconds_max: float = 0.0005
    loss: float = 0.0
    """The share of messages that never arrive, although their link stays."""
    doubled: float = 0.0
    """The share of messages that arrive twice."""
    late: float = 0.0
    """The share of messages that arrive up to `late_seconds` late, overtaken by others."""
    late_seconds: float = 1.0
    sync_seconds_min: float = 0.001
    sync_seconds_max: float = 0.001


class SimulatedClock:
    """The group's time, as a contract for the writer."""

    def __init__(self, group: SimulatedGroup) -> None:
        self._group = group

    def monotonic(self) -> float:
        """Return the group's time."""
        return self._group.now

    def thread_cpu(self) -> float:
        """Return 0: no simulated time passes in a turn."""
        return 0.0

    def wall_microseconds(self) -> int:
        """Return the group's time in microseconds."""
        return int(self._group.now * 1e6) + 1


class _Links:
    """The links of one node: puts messages on the group's network."""

    def __init__(self, group: SimulatedGroup, name: str) -> None:
        self._group = group
        self._name = name
        self.addresses: dict[str, str] = {}

    def send(self, peer: str, messages: list[Message]) -> None:
        """Give the messages to the network."""
        for message in messages:
            self._group.carry(self._name, peer, message)

    def set_peers(self, addresses: dict[str, str]) -> None:
        """Note who is to be linked."""
        self.addresses = dict(addresses)
        self._group.connect_soon(self._name)

    def drop(self, peer: str) -> None:
        """Close the link to this peer."""
        self._group.unlink(self._name, peer, closed=False)


class SimulatedNode:
    """One node: its disk outlives its processes."""

    def __init__(self, group: SimulatedGroup, name: str, bootstrap: Membership) -> None:
        self.group = group
        self.name = name
        self.bootstrap = bootstrap
        self.disk = SimulatedDisk(group.random.randrange(1 << 30))
        self.is_alive = False
        self.is_paused = False
        self.life = 0
        """Counts processes; what belongs to an earlier one is ignored."""
        self.waiting: list[WriteJob] = []
        self.is_writing = False
        self.taken: list[bytes] = []
        """Bodies of the record entries that were given out, in order."""
        self.epoch = 0
        self.fenced = ""
        self.refusals: list[str] = []
        self.journal: Journal
        self.driver: Driver
        self.links: _Links

    def submit(self, job: WriteJob) -> None:
        """Take a job for the simulated writer thread."""
        self.waiting.append(job)
        self._write_soon()

    def start(self) -> None:
        """Start a process on what the disk holds."""
        group = self.group
        self.life += 1
        self.is_alive, self.is_paused = True, False
        self.waiting, self.is_writing = [], False
        self.taken = []
        self.journal = Journal.open(
            DIRECTORY,
            self.disk,
            JournalSettings(segment_bytes=group.segment_bytes),
            resolve_unknown_tail=len(self.bootstrap.members) < 2,
        )
        clock: Clock = SimulatedClock(group)
        self._results: list[WriteResult] = []
        self._writer = JournalWriter(self.journal, self._results.append, clock=clock)
        self.links = _Links(group, self.name)
        self.driver = Driver(
            settings=group.settings,
            name=self.name,
            journal=self.journal,
            ballot_file=self.journal.ballot_file,
            writer=self,
            links=self.links,
            randomness=SeededRandomness(group.random.randrange(1 << 30)),
            bootstrap=self.bootstrap,
            on_fenced=self._on_fenced,
        )
        self.epoch = 0
        self.driver.start(group.now)
        group.turn(self)
        group.connect_soon(self.name)

    def stop(self, *, power: bool) -> None:
        """Kill the process; with `power` the disk also loses what was not synced."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.is_writing = False
        if power:
            self.disk.power_cut()
        else:
            self.disk.kill_process()

    def holds(self, index: int, chain: bytes) -> bool:
        """Whether the entry is durable here, alive or not."""
        journal = self.journal
        if journal.first_index > index:
            return journal.durable_index >= journal.first_index
        return (
            journal.durable_index >= index
            and journal.last_index >= index
            and journal.chain_at(index) == chain
        )

    def _on_fenced(self, error: HoldfastError) -> None:
        self.fenced = str(error)

    def _write_soon(self) -> None:
        is_short_of_room = self._writer.is_waiting
        if self.is_writing or not (self.waiting or is_short_of_room) or not self.is_alive:
            return
        self.is_writing = True
        life = self.life
        trouble = self.group.trouble
        pause = self.group.random.uniform(trouble.sync_seconds_min, trouble.sync_seconds_max)
        if is_short_of_room and not self.waiting:
            pause = ROOM_RETRY_SECONDS
        self.group.after(pause, lambda: self._write(life))

    def _write(self, life: int) -> None:
        if not self.is_alive or life != self.life:
            return
        jobs, self.waiting = self.waiting, []
        self.is_writing = False
        try:
            self._writer.turn(jobs)
        except PowerCut:
            self.group.crashed(self)
            return
        if not self.is_paused:
            self._report()
        self._write_soon()

    def _report(self) -> None:
        for result in self._results:
            self.driver.stored(result)
        self._results.clear()
        self.group.turn(self)


class Checker:
    """What must be true of any run; raises ViolationError where it is not."""

    def __init__(self, group: SimulatedGroup) -> None:
        self._group = group
        self.leaders: dict[int, str] = {}
        self.committed: dict[int, bytes] = {}
        """The chain of each entry that somebody knew to be committed."""
        self.confirmed: dict[int, bytes] = {}
        """Body by index of the records whose proposer saw them committed."""
        self._seen: dict[str, tuple[int, int]] = {}

    def check(self, node: SimulatedNode) -> None:
        """Look at a node after its turn."""
        driver = node.driver
        if driver.is_leader:
            other = self.leaders.setdefault(driver.term, node.name)
            if other != node.name:
                raise ViolationError(f"term {driver.term} has two leaders: {other}, {node.name}")
        life, seen = self._seen.get(node.name, (-1, 0))
        start = seen if life == node.life else 0
        commit = driver.commit_index
        if commit < start and driver.log_epoch == node.epoch:
            raise ViolationError(f"commit index of {node.name} fell from {start} to {commit}")
        for index in range(max(start + 1, node.journal.first_index), commit + 1):
            self._check_committed(node, index)
        self._seen[node.name] = (node.life, commit)

    def _check_committed(self, node: SimulatedNode, index: int) -> None:
        chain = node.journal.chain_at(index)
        known = self.committed.setdefault(index, chain)
        if known != chain:
            raise ViolationError(f"entry {index} on {node.name} is not the one that was committed")
        if node.driver.is_leader and index not in self.confirmed:
            self._check_copies(node, index, chain)
            self.confirmed[index] = bytes(node.journal.entry(index).body)

    def _check_copies(self, leader: SimulatedNode, index: int, chain: bytes) -> None:
        group = self._group
        members = group.membership_of(leader)
        voters = [member.name for member in members if member.is_voter]
        holders = [name for name in voters if group.nodes[name].holds(index, chain)]
        data = [member.name for member in members if member.kind == "voter"]
        copies = group.settings.copies or default_copies(len(data), len(voters))
        held = len(set(holders) & set(data))
        if len(holders) < majority(len(voters)) or held < min(copies, len(data)):
            raise ViolationError(
                f"{leader.name} committed entry {index}, which is durable on {holders} only;"
                f" {majority(len(voters))} of {voters} and {copies} of {data} are needed"
            )

    def check_end(self) -> None:
        """After everything was healed: whoever is up to date has every committed entry."""
        group = self._group
        leader = group.leader()
        if leader is None:
            raise ViolationError("nobody leads although everything was healed")
        last = max(self.committed, default=0)
        for node in group.nodes.values():
            if not node.is_alive or node.fenced:
                continue
            if node.driver.commit_index < last:
                raise ViolationError(f"{node.name} did not catch up to entry {last}")
            first = max(node.journal.first_index, 1)
            for index, chain in self.committed.items():
                if index >= first and node.journal.chain_at(index) != chain:
                    raise ViolationError(f"{node.name} lost the committed entry {index}")


class SimulatedGroup:
    """Nodes, a network between them, and time."""

    def __init__(
        self,
        members: list[Member],
        *,
        seed: int = 0,
        settings: ReplicationSettings | None = None,
        trouble: Trouble | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.random = random.Random(seed)  # noqa: S311 - to be repeated from a seed
        self.seed = seed
        self.settings = settings or ReplicationSettings()
        self.trouble = trouble or Trouble()
        self.segment_bytes = segment_bytes
        self.now = 1.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._event_count = 0
        self._linked: set[frozenset[str]] = set()
        self._arrivals: dict[tuple[str, str], float] = {}
        self.cut: set[tuple[str, str]] = set()
        """Directed pairs between which nothing passes."""
        bootstrap = Membership(tuple(members))
        self.nodes = {
            member.name: SimulatedNode(self, member.name, bootstrap) for member in members
        }
        self.checker = Checker(self)
        self.trace: Callable[[str, str, Message], None] | None = None

    # Time -----------------------------------------------------------------------------------------

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later."""
        self._event_count += 1
        heapq.heappush(self._events, (self.now + seconds, self._event_count, action))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            due = self._next_due()
            if due > end:
                break
            self.now = max(self.now, due)
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            for node in self.nodes.values():
                if self._is_running(node) and node.driver.next_deadline() <= self.now:
                    self.turn(node)
        self.now = end

    def run_until(self, condition: Callable[[], bool], seconds: float) -> float:
        """Let time pass until something holds; return how long it took, or raise."""
        start = self.now
        while not condition():
            if self.now - start > seconds:
                raise ViolationError(f"did not happen within {seconds} s (seed {self.seed})")
            self.run(0.005)
        return self.now - start

    def _next_due(self) -> float:
        due = self._events[0][0] if self._events else float("inf")
        for node in self.nodes.values():
            if self._is_running(node):
                due = min(due, node.driver.next_deadline())
        return due

    def turn(self, node: SimulatedNode) -> None:
        """Give a node a turn and look whether all promises hold."""
        if self._is_running(node):
            try:
                self._turn(node)
            except PowerCut:
                self.crashed(node)

    def _turn(self, node: SimulatedNode) -> None:
        driver = node.driver
        driver.turn(self.now)
        if driver.log_epoch != node.epoch:
            node.taken.clear()
        self.checker.check(node)
        node.epoch = driver.log_epoch
        try:
            while entries := driver.take_committed(1 << 20):
                node.taken.extend(bytes(entry.body) for entry in entries if entry.kind == 0)
        except CorruptEntryError:
            pass  # A peer is asked for its copy; later turns try again.

    @staticmethod
    def _is_running(node: SimulatedNode) -> bool:
        return node.is_alive and not node.is_paused

    # Nodes ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every node."""
        for node in self.nodes.values():
            node.start()

    def add(self, member: Member) -> SimulatedNode:
        """One more machine, not started; it is told of every member there is."""
        known = tuple(node.bootstrap.get(name) for name, node in self.nodes.items())
        members = tuple(other for other in known if other is not None)
        node = SimulatedNode(self, member.name, Membership((*members, member)))
        self.nodes[member.name] = node
        return node

    def crash(self, name: str, *, power: bool = False) -> None:
        """Kill a process; the others' systems notice that its links closed."""
        node = self.nodes[name]
        node.stop(power=power)
        self._unlink_all(name, closed=not power)

    def crashed(self, node: SimulatedNode) -> None:
        """The power failed in the middle of a write."""
        node.stop(power=True)
        self._unlink_all(node.name, closed=False)

    def restart(self, name: str) -> None:
        """Start a process again on what its disk holds."""
        node = self.nodes[name]
        if not node.is_alive:
            try:
                node.start()
            except PowerCut:
                self.crashed(node)

    def wipe(self, name: str) -> None:
        """Give a dead node an empty disk."""
        node = self.nodes[name]
        assert not node.is_alive
        node.disk = SimulatedDisk(self.random.randrange(1 << 30))

    def pause(self, name: str) -> None:
        """Stop a process without its noticing; its links stay."""
        self.nodes[name].is_paused = True

    def resume(self, name: str) -> None:
        """Let a stopped process go on."""
        node = self.nodes[name]
        node.is_paused = False
        if node.is_alive:
            node._report()  # noqa: SLF001 - the node is a part of the group

    def leader(self) -> SimulatedNode | None:
        """The serving leader with the highest term, if any."""
        serving = [
            node
            for node in self.nodes.values()
            if self._is_running(node) and node.driver.is_serving
        ]
        return max(serving, key=lambda node: node.driver.term, default=None)

    def propose(self, name: str, body: bytes) -> int:
        """Propose one record's bytes on a node; the index, or 0 if it does not lead."""
        node = self.nodes[name]
        try:
            wall = int(self.now * 1e6)
            index = node.driver.propose([body], 1, now=self.now, wall_microseconds=wall).index
        except NotLeaderError:
            return 0
        self.turn(node)
        return index

    @staticmethod
    def membership_of(node: SimulatedNode) -> tuple[Member, ...]:
        """The members as a node has them."""
        views = node.driver.status().members
        return tuple(
            Member(view.name, view.address, view.kind, view.site)  # type: ignore[arg-type]
            for view in views
        )

    # Network --------------------------------------------------------------------------------------

    def partition(self, *sides: set[str]) -> None:
        """Nothing passes between the sides any more; the links stay and are silent."""
        self.cut = {
            (one, other) for side in sides for one in side for other in set(self.nodes) - side
        }
        self.cut |= {(other, one) for one, other in self.cut}

    def heal(self) -> None:
        """Everything passes again."""
        self.cut = set()
        for name in self.nodes:
            self.connect_soon(name)

    def carry(self, source: str, target: str, message: Message) -> None:
        """Take a message to its target, as well as the network does."""
        if self.trace is not None:
            self.trace(source, target, message)
        if frozenset((source, target)) not in self._linked:
            return
        trouble = self.trouble
        chance = self.random.random
        if chance() < trouble.loss:
            return
        data = b"".join(encode_message(message))
        lives = self.nodes[source].life, self.nodes[target].life
        pause = self.random.uniform(trouble.delay_seconds_min, trouble.delay_seconds_max)
        if chance() < trouble.late:
            pause += self.random.uniform(0, trouble.late_seconds)
        else:
            # Those that are not late keep their order, as on one connection.
            pair = source, target
            arrival = max(self.now + pause, self._arrivals.get(pair, 0.0))
            self._arrivals[pair] = arrival
            pause = arrival - self.now
        copies = 2 if chance() < trouble.doubled else 1
        for _ in range(copies):
            self.after(pause, lambda: self._arrive(source, target, data, lives))
            pause += self.random.uniform(0, trouble.late_seconds)

    def _arrive(self, source: str, target: str, data: bytes, lives: tuple[int, int]) -> None:
        node = self.nodes[target]
        if (source, target) in self.cut or not node.is_alive or node.life != lives[1]:
            return
        if frozenset((source, target)) not in self._linked:
            return
        _, kind = FRAME_HEADER.unpack_from(data)
        message = decode_message(kind, data, FRAME_HEADER.size, len(data))
        node.driver.receive(source, message)
        self.turn(node)

    def connect_soon(self, name: str) -> None:
        """Dial whoever is to be linked and is not."""
        self.after(0.002, lambda: self._connect(name))

    def _connect(self, name: str) -> None:
        node = self.nodes[name]
        if not node.is_alive:
            return
        wanted = set(node.links.addresses)
        for peer in [*self.nodes]:
            pair = frozenset((name, peer))
            if peer == name or not self.nodes[peer].is_alive or (name, peer) in self.cut:
                continue
            theirs = self.nodes[peer].links.addresses
            if pair in self._linked and peer not in wanted:
                self.unlink(name, peer, closed=False)
            elif pair not in self._linked and (peer in wanted or name in theirs):
                self._introduce(node, self.nodes[peer])

    def _introduce(self, one: SimulatedNode, other: SimulatedNode) -> None:
        for node, peer in ((one, other), (other, one)):
            refusal = node.driver.judge(replace(peer.driver.hello))
            if refusal is not None:
                self._refuse(peer, node.name, refusal)
                return
        self._linked.add(frozenset((one.name, other.name)))
        hellos: list[tuple[SimulatedNode, Hello]] = [
            (one, replace(other.driver.hello)),
            (other, replace(one.driver.hello)),
        ]
        for node, hello in hellos:
            node.driver.link_up(hello.name, hello)
        for node, _ in hellos:
            self.turn(node)

    def _refuse(self, node: SimulatedNode, peer: str, refusal: Refusal) -> None:
        node.refusals.append(refusal.reason)
        node.driver.refused(peer, refusal)
        if node.driver.fenced_reason:
            self.turn(node)  # As real links do, with every news.
        else:
            self.after(0.2, lambda: self._connect(node.name))

    def _unlink_all(self, name: str, *, closed: bool) -> None:
        for peer in self.nodes:
            if peer != name:
                self.unlink(name, peer, closed=closed)

    def unlink(self, name: str, peer: str, *, closed: bool) -> None:
        """Drop a link; both ends are told soon."""
        pair = frozenset((name, peer))
        if pair not in self._linked:
            return
        self._linked.discard(pair)
        for here, there in ((name, peer), (peer, name)):
            node = self.nodes[here]
            if not node.is_alive:
                continue
            pause = self.random.uniform(0.0001, 0.002)
            life = node.life
            self.after(pause, lambda h=here, t=there, n=life: self._told(h, t, n, closed))  # type: ignore[misc]

    def _told(self, here: str, there: str, life: int, closed: bool) -> None:
        node = self.nodes[here]
        if node.is_alive and node.life == life and frozenset((here, there)) not in self._linked:
            node.driver.link_down(there, closed=closed)
            self.turn(node)
            self.after(0.05, lambda: self._connect(here))
