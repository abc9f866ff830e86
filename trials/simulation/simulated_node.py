"""
One simulated machine and the broker process on it.

The process is the real one: journal with recovery, writer's turn, driver, store, broker,
conductor's turn, checkpoints. What is replaced is what waits: the event loop is a timeline, the
writer's thread is an event after a simulated sync, sockets are streams in memory. The disk and the
clocks outlive the process.

Invariants:
    Nothing of an earlier process runs after a later one was started.
    A paused process does nothing; everything comes when it is resumed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import (
    BallotLostError,
    CorruptEntryError,
    FencedError,
    HoldfastError,
    StoreError,
)
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.damage import Damage
from holdfast.journal.entry import Entry
from holdfast.journal.jobs import WriteJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.scrub import Scrubber
from holdfast.journal.writer import ROOM_RETRY_SECONDS, JournalWriter
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.policies import NO_POLICIES
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.replication.driver import Driver
from holdfast.replication.format_levels import KNOWN
from holdfast.replication.membership import Member, Membership
from holdfast.replication.settings import ReplicationSettings
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.server.checkpoints import Checkpoints
from holdfast.server.connection import ClientConnection
from holdfast.server.loop import Conductor
from holdfast.server.protocols import served
from holdfast.server.restoring import restore
from holdfast.sessions.context import SessionContext
from holdfast.sessions.credentials import Credential
from holdfast.sessions.session import Session
from holdfast.store.contract import CommittedEntry
from holdfast.store.replicated_store import ReplicatedStore
from trials.simulation.cuts import watch_cuts
from trials.simulation.mixed_housekeeper import MixedHousekeeper
from trials.simulation.simulated_clock import SimulatedClock
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk
from trials.simulation.simulated_network import NodeLinks
from trials.simulation.sureness import Sureness

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

DIRECTORY = Path("/simulated")
_STOMP = StompSettings()
_FLOOR_IDLE_SECONDS = 0.05
_FLOOR_BUSY_SECONDS = 0.25
_CHECKPOINT_CHANCE = 0.4
"""That a checkpoint that is due is begun in this tick."""
_CHECKPOINT_WORK = 2
"""Queues and chunks of it that are written down in one tick: few, so that it takes many."""


class SeededRandomness:
    """Chance from the world's seed, as a contract for the driver."""

    __slots__ = ("_random",)

    def __init__(self, chance: random.Random) -> None:
        self._random = chance

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return self._random.uniform(low, high)

    def bytes(self, count: int) -> bytes:
        """Return `count` bytes."""
        return self._random.randbytes(count)


class SimulatedConnection(ClientConnection):
    """A client connection whose place in a set depends on its number, not on its address."""

    __slots__ = ("serial",)

    def __init__(self, conductor: Conductor, serial: int) -> None:
        super().__init__(conductor.clients)
        self.serial = serial

    def __hash__(self) -> int:
        return self.serial

    def __eq__(self, other: object) -> bool:
        return self is other


class _TurnLoop:
    """What the conductor needs of an event loop: `call_soon`."""

    __slots__ = ("_node",)

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call on this node's process after a moment in which more may come."""
        node = self._node
        seconds = node.chance.random() * node.world.plan.turn_seconds
        node.post(seconds, node.take_turn, callback)


class _WatchedStore(ReplicatedStore):
    """The store, with every applied entry shown to the checkers."""

    node: SimulatedNode

    def applied(self, entry: CommittedEntry, cleaned_through: int) -> None:
        """Note it, and let the checkers look."""
        assert isinstance(entry, Entry), "what this store gave"
        super().applied(entry, cleaned_through)
        self.node.world.checkers.on_applied(self.node, entry)
        self.node.world.levels.on_applied(self.node, entry)
        if self.node.world.places is not None:
            self.node.world.places.on_applied(self.node, entry)


class SimulatedNode:
    """A machine of the world; `start` runs a broker on it."""

    def __init__(self, world: Simulation, name: str, bootstrap: Membership) -> None:
        self.world = world
        self._after = world.timeline.after
        self.name = name
        self.bootstrap = bootstrap
        self.chance = random.Random(f"{world.seed}:{name}")  # noqa: S311 - to be repeated
        self.clock = SimulatedClock(world.timeline, start=self.chance.uniform(10.0, 5000.0))
        self.disk = self._new_disk()
        self.disk_number = 0
        """Counts the machine's disks: a wiped one is another one."""
        self.is_alive = False
        self.is_built = False
        """The process that runs has come as far as having a driver."""
        self.has_lost_power = False
        """Its power failed, and no process has read since what that left of its log."""
        self.is_paused = False
        self.slept_seconds = 0.0
        """How long its processes were stopped without their noticing, all in all."""
        self._slept_from = 0.0
        self.is_ending = False
        self._kept_disk = -1
        """The process ends and is not to be started again on this disk: it was shut out."""
        self.started_as_it_is = -1
        """The disk it was started on once more although it was shut out on it."""
        self.site = ""
        self.known_format_level = NEWEST_LEVEL
        self.file_policies = NO_POLICIES
        """What its configuration file says of destinations, read at each start."""
        """What its processes know of the log's format: those of an older version know less."""
        self.life = 0
        self.mistaken_settings: ReplicationSettings | None = None
        """What it is started with instead of what the others have."""
        self.slowness = 1.0
        self.is_writing_slowly = False
        """A write that began while its disk was slow is not done yet."""
        """How many times slower than usual its disk is."""
        self.is_disk_hanging = False
        """Nothing that its disk was asked to write is done, until `thaw_disk`."""
        self._is_write_held = False
        self._mixed: MixedHousekeeper | None = None
        self._is_turning = False
        self._shut_out_by: FencedError | None = None
        """Told in this turn: the process ends when it is over."""
        self.ended_by = ""
        self.writing: list[WriteJob] = []
        """What the simulated writer's thread is doing."""
        self._waiting: list[WriteJob] = []
        self._backlog: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._written_at = self._floor_at = 0.0
        self.pipes: dict[int, Any] = {}
        self.journal: Journal
        self.writer: JournalWriter
        self.driver: Driver
        self.links: NodeLinks
        self.store: _WatchedStore
        self.broker: Broker
        self.conductor: Conductor
        self.checkpoints: Checkpoints
        self.scrubber: Scrubber
        self.sureness: Sureness

    def _new_disk(self) -> SimulatedDisk:
        disk = SimulatedDisk(self.chance.getrandbits(30))
        disk.happened = self.world.faults
        return disk

    @property
    def is_removed(self) -> bool:
        """Whether a committed change took it out of the cluster."""
        return self.name in self.world.checkers.left

    # Events ---------------------------------------------------------------------------------------

    def whom_to_join(self) -> Membership:
        """Whom the operator names to a node that is to join this one: whoever it knows, and it."""
        known = self.bootstrap.members
        if self.bootstrap.get(self.name) is None:
            known = (*known, Member(self.name, f"{self.name}:1"))
        return Membership(known)

    def follow(self, copy: SimulatedNode) -> None:
        """
        Do what the operator does for another node, where a copy has been forced to go on.

        Its next process on an empty disk is told whom to join. Who knows no such member, since the
        copy was removed before, would never hear of it: once it rules, that disk is emptied.
        """
        self.bootstrap = copy.whom_to_join()
        known = {view.name for view in self.driver.status().members}
        is_ruling = copy.driver.generation == self.world.checkers.generations.ruling
        is_before = is_ruling and self.driver.generation < copy.driver.generation
        if copy.name in known or not is_before or self.is_ending:
            return
        self.stop(power=False)
        self.replace_disk()
        self.world.count("operator empties a disk")
        self.start()

    @property
    def is_shut_out(self) -> bool:
        """Whether it was shut out, also where its process only has yet to end by it."""
        return self.is_ending or (self.is_alive and bool(self.driver.fenced_reason))

    @property
    def is_kept_from_clients(self) -> bool:
        """
        Whether an operator lets no client reach it, so that it confirms nothing in vain.

        The only voter of a former generation needs nobody's vote: it may lead before it hears that
        others go on. So it is, on the disk that it was started with, until it has heard.
        """
        return self._kept_disk == self.disk_number and self._is_of_a_former_generation()

    def _is_of_a_former_generation(self) -> bool:
        return self.driver.generation < self.world.checkers.generations.ruling

    def _may_lead_in_vain(self) -> bool:
        if not hasattr(self, "driver") or not self._is_of_a_former_generation():
            return False
        views = self.driver.status().members
        return [view.name for view in views if view.kind == "voter"] == [self.name]

    @property
    def is_running(self) -> bool:
        """Whether a process is there and not stopped."""
        return self.is_alive and not self.is_paused

    @property
    def is_listening(self) -> bool:
        """Whether clients can connect."""
        return self.is_running and self.conductor.is_serving

    def post(self, seconds: float, action: Callable[..., object], *arguments: object) -> None:
        """Plan something for the process that runs now."""
        self._after(seconds, self._happen, self.life, action, arguments)

    def _happen(
        self, life: int, action: Callable[..., object], arguments: tuple[object, ...]
    ) -> None:
        if life != self.life or not self.is_alive:
            return
        if self.is_paused:
            self._backlog.append((action, arguments))
            return
        try:
            action(*arguments)
        except PowerCut:
            self.stop(power=True)

    def take_turn(self, callback: Callable[[], None]) -> None:
        """Let the conductor turn, and look whether all promises hold."""
        self._is_turning = True
        try:
            callback()
        finally:
            self._is_turning = False
        error, self._shut_out_by = self._shut_out_by, None
        if error is not None:
            self._end(error)
        if self.is_alive:
            self.world.checkers.after_turn(self)
            self.sureness.check(self)

    def _tick(self) -> None:
        self.take_turn(self.conductor.tick)
        if not self.is_alive:
            return
        if not self.is_disk_hanging:
            self._tend_disk()
        self.post(self.world.tick_seconds, self._tick)

    def _tend_disk(self) -> None:
        """Do what other threads do with the disk now and then."""
        self._checkpoint()
        self.tell_damage(self.scrubber.turn(self.clock.monotonic()))
        self.journal.housekeeper.turn()

    def tell_damage(self, found: list[Damage]) -> None:
        """Report what the scrubber has found."""
        for damage in found:
            if any(known.index == damage.index for known in self.journal.damage):
                continue
            self.journal.report_damage(damage)
            self.driver.report_damage(damage.index)

    def _checkpoint(self) -> None:
        """Take a checkpoint piece by piece, while the broker goes on."""
        checkpoints = self.checkpoints
        if checkpoints.snapshot is None:
            if not checkpoints.is_due() or self.chance.random() >= _CHECKPOINT_CHANCE:
                return
            if not checkpoints.begin():
                return
        write = checkpoints.advance(_CHECKPOINT_WORK)
        if write is not None:
            write()

    # The process ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process on what the disk holds."""
        assert not self.is_alive, "started twice"
        if self._may_lead_in_vain():
            self._kept_disk = self.disk_number
        self.life += 1
        self.is_alive, self.is_paused = True, False
        self.is_built = False
        self.is_disk_hanging = self._is_write_held = False
        self.world.network.forget_half_open(self)
        self.writing, self._waiting = [], []
        self.is_writing_slowly = False
        self._backlog = []
        self.pipes = {}
        self._shut_out_by = None
        self.ended_by = ""
        self.world.note(self.name, "starts")
        try:
            self._build()
            self.driver.start(self.clock.monotonic())
            self.take_turn(self.conductor.turn)
        except PowerCut:
            self.stop(power=True)
            return
        except (StoreError, BallotLostError) as error:
            self._end(error)
            return
        self.post(self.chance.random() * self.world.tick_seconds, self._tick)
        self.world.network.dial_soon(self)

    def _build(self) -> None:
        world = self.world
        clock = self.clock
        is_alone = len(self.bootstrap.members) < 2
        self.journal = journal = Journal.open(
            DIRECTORY, self.disk, world.journal_settings, resolve_unknown_tail=is_alone
        )
        files = CheckpointStore(DIRECTORY, self.disk)
        settings = self._broker_settings
        # A node alone does not start on damage that it has to apply; here it does, and then may not
        # serve: what it does when it meets the damage is tried as well.
        state, applied_index = restore(journal, files, settings, is_alone=False)
        self.broker = Broker(settings, state)
        self.broker.follow()
        self.writer = JournalWriter(journal, self._stored, clock=clock)
        self._mixed = MixedHousekeeper(self) if world.plan.is_housekeeping_mixed else None
        self.links = NodeLinks(world.network, self)
        self.driver = Driver(
            settings=self.mistaken_settings or world.replication_settings,
            name=self.name,
            journal=journal,
            ballot_file=journal.ballot_file,
            writer=self,
            links=self.links,
            randomness=SeededRandomness(self.chance),
            bootstrap=self.bootstrap,
            applied_index=applied_index,
            metadata={KNOWN: str(self.known_format_level)},
            on_fenced=self._on_fenced,
        )
        self.store = _WatchedStore(self.driver, journal)
        self.store.node = self
        context = SessionContext(node=self.name, version="simulated")
        context.check = self._let_in
        self.conductor = Conductor(
            broker=self.broker,
            store=self.store,
            context=context,
            clock=clock,
            settings=world.server_settings,
            protocols=served(_STOMP),
            policies=self.file_policies,
            on_role_change=self._on_role_change,
            on_damage=self._on_damage,
            on_failure=self._end,
        )
        self.conductor.loop = cast("Any", _TurnLoop(self))
        self.checkpoints = Checkpoints(self.broker, self.store, files)
        self.scrubber = Scrubber(journal)
        self.is_built, self.has_lost_power = True, False
        watch_cuts(self)
        world.checkers.on_start(self)
        self.sureness = Sureness(self)

    @property
    def _broker_settings(self) -> BrokerSettings:
        return replace(self.world.broker_settings, known_format_level=self.known_format_level)

    def _let_in(self, _session: Session, credential: Credential) -> Principal:
        """
        Let clients in: as the user whose name they give, or, who shows nothing, as nobody, with the
        role that clients have once there are users.
        """
        book = self.broker.access_book
        if credential.name and (user := book.principal(credential.name)) is not None:
            return user
        assert book.anonymous is not None, "they have a role"
        return book.anonymous if book.is_guarded else ANONYMOUS

    def connection(self, serial: int) -> SimulatedConnection:
        """Take a client's connection."""
        return SimulatedConnection(self.conductor, serial)

    def stop(self, *, power: bool) -> None:
        """Kill the process; with `power` the disk also loses what was not synced."""
        if not self.is_alive:
            return
        self.is_alive = False
        if self.writing:
            # The writer's thread was in the middle of it; if its power failed, it is there still.
            self.disk.cut_at = self.disk.operations + self.chance.randrange(1, 5)
            try:
                self._take_writers_turn()
            except PowerCut:
                pass
        self.disk.cut_at = 0
        if power:
            self.disk.power_cut()
            self.has_lost_power = True
        else:
            self.disk.kill_process()
        self.world.note(self.name, "loses power" if power else "is dead")
        self.world.checkers.on_stop(self)
        self.world.network.unlink_all(self, closed=not power)
        for pipe in list(self.pipes.values()):
            pipe.node_died(is_told=not power)
        self.pipes = {}

    def pause(self) -> None:
        """Stop the process without its noticing."""
        if not self.is_paused:
            self._slept_from = self.world.timeline.now
        self.is_paused = True

    def resume(self) -> None:
        """Let a stopped process go on with all that came meanwhile."""
        if not self.is_paused:
            return
        self.is_paused = False
        self.slept_seconds += self.world.timeline.now - self._slept_from
        backlog, self._backlog = self._backlog, []
        if self.chance.random() < 0.5:
            # Which an event loop takes first, what came or what is due, is its own affair.
            backlog.sort(key=lambda item: item[0] == self._tick)
        for action, arguments in backlog:
            self._happen(self.life, action, arguments)

    @property
    def is_write_late(self) -> bool:
        """Whether it still feels a disk that was slow or full."""
        journal = self.journal
        is_out_of_space = journal.is_out_of_room or journal.housekeeper.is_out_of_space
        return self.is_writing_slowly or is_out_of_space

    def hang_disk(self) -> None:
        """Let its disk get nothing more done, and not say so."""
        self.is_disk_hanging = True
        self.world.note(self.name, "has a disk that hangs")

    def thaw_disk(self) -> None:
        """Let its disk go on where it stopped."""
        if not self.is_disk_hanging:
            return
        self.is_disk_hanging = False
        self.world.note(self.name, "has a disk that answers again")
        if self._is_write_held:
            self._is_write_held = False
            self.post(0.0, self._write)

    @property
    def knows_its_end(self) -> bool:
        """Whether it can tell what its log held at the end; a power cut may have left that open."""
        return not self.has_lost_power and (not self.is_built or self.driver.hello.end_known)

    def replace_disk(self) -> None:
        """Give a dead machine an empty disk."""
        assert not self.is_alive
        self.has_lost_power = False
        self.disk = self._new_disk()
        self.disk_number += 1
        self.is_ending = False

    def _on_fenced(self, error: FencedError) -> None:
        """Go on until the turn is over, as a process does that was told to stop."""
        if self._is_turning:
            self._shut_out_by = error
        else:
            self._end(error)

    def _end(self, error: Exception) -> None:
        """The process ends by itself."""
        if not self.is_alive:
            return
        self.ended_by = type(error).__name__
        self.world.note(self.name, f"ends: {error}")
        if isinstance(error, FencedError | BallotLostError):
            self.is_ending = True
        self.stop(power=False)
        if not self.world.levels.is_excused(self, error):
            self.world.checkers.on_end(self, error)
        if not isinstance(error, HoldfastError):
            raise error

    # The writer's thread --------------------------------------------------------------------------

    def submit(self, job: WriteJob) -> None:
        """Take a job for the simulated writer's thread."""
        self._waiting.append(job)
        if not self.writing:
            self._write_soon()

    def _write_soon(self) -> None:
        self.writing, self._waiting = self._waiting, []
        self.is_writing_slowly = self.slowness > 1.0
        low, high = self.world.sync_seconds
        self.post((low + self.chance.random() * (high - low)) * self.slowness, self._write)

    def _write(self) -> None:
        if self.is_disk_hanging:
            self._is_write_held = True
            return
        self._take_writers_turn()
        self.writing = []
        self.is_writing_slowly = False
        self._written_at = self.world.timeline.now
        if self._written_at - self._floor_at > _FLOOR_BUSY_SECONDS:
            self._floor_at = self._written_at
            self.writer.save_floor()
        if self._waiting:
            self._write_soon()
        elif self.writer.is_waiting:
            self.post(ROOM_RETRY_SECONDS, self._look_for_room)
        else:
            self.post(_FLOOR_IDLE_SECONDS, self._save_floor, self._written_at)

    def _look_for_room(self) -> None:
        """Let the writer go on with what found no room, unless it is about to do so anyway."""
        if self.writer.is_waiting and not self.writing:
            self._write()

    def _take_writers_turn(self) -> None:
        mixed = self._mixed
        if mixed is not None:
            mixed.is_writing = True
        try:
            self.writer.turn(self.writing)
        finally:
            if mixed is not None:
                mixed.is_writing = False

    def _save_floor(self, written_at: float) -> None:
        if written_at == self._written_at and not self.writing and not self.is_disk_hanging:
            self._floor_at = self.world.timeline.now
            self.writer.save_floor()

    def _stored(self, result: WriteResult) -> None:
        if not self.is_alive:
            return
        failure = result.failure
        if failure is not None:
            self.world.checkers.on_write_failure(self, failure)
        self.post(0.0001, self._tell_stored, result)

    def _tell_stored(self, result: WriteResult) -> None:
        self.take_turn(lambda: self.conductor.stored(result))

    # What the conductor tells ---------------------------------------------------------------------

    def _on_role_change(self) -> None:
        self.conductor.context.cluster = self.driver.status().cluster_id[:8]
        self.broker.moving.cluster = self.conductor.context.cluster
        serves = "serves" if self.conductor.is_serving else "does not serve"
        self.world.note(self.name, f"{serves} in term {self.driver.term}")

    def _on_damage(self, error: CorruptEntryError) -> None:
        self.store.report_damage(error)
