"""
One broker process: built from its configuration, run until it is told to stop.

Here everything is put together and nothing is decided. The leader listens for clients; every other
node keeps its client port closed, so that any failover client finds the leader by trying. The admin
port is open on all.

Invariants:
    The client port is open only while the conductor serves.
    After a failed write the process ends with a non-zero exit code and claims nothing more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence

import structlog
import uvloop

from holdfast import __version__
from holdfast.admin.access import Access, own_names
from holdfast.admin.http_api import build_application
from holdfast.admin.http_server import AdminPortSettings, AdminServer
from holdfast.admin.operations import Operations
from holdfast.admin.status import (
    AwaitedStatus,
    ConnectionStatus,
    HoldRequest,
    HoldStatus,
    LogPosition,
    LogSlice,
    MemberKind,
    NodeStatus,
    QueueDepth,
    QueueStatus,
    SegmentStatus,
)
from holdfast.admin.token_file import FILE_NAME, new_token, write_token
from holdfast.broker.broker import Broker
from holdfast.broker.checkpoint import decode_state
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.state import BrokerState
from holdfast.config.node import NodeConfig
from holdfast.environment.clock import SystemClock
from holdfast.environment.descriptors import RESERVE, raise_limit
from holdfast.environment.disk import RealDisk
from holdfast.environment.randomness import SystemRandomness
from holdfast.errors import (
    CorruptEntryError,
    FencedError,
    HoldfastError,
    NotLeaderError,
    QuorumLostError,
    StoreError,
)
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.jobs import WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.scan import MISSING_FILE
from holdfast.journal.scrub import Scrubber
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.model.records import HoldRecord
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.replication.driver import Driver
from holdfast.replication.membership import Member, Membership
from holdfast.replication.peer_link import PeerLinks, split_address
from holdfast.replication.promotion import LogEnd
from holdfast.replication.settings import LinkSettings, ReplicationSettings
from holdfast.server.checkpoints import Checkpoints
from holdfast.server.connection import ClientConnection
from holdfast.server.cycle_collector import CycleCollector
from holdfast.server.descriptors import SET_ASIDE, Shares, share_out
from holdfast.server.founding import FoundingWatch, awaited
from holdfast.server.listener import Listener
from holdfast.server.log_access import (
    HoldWatch,
    hold_record,
    hold_statuses,
    log_position,
    log_slice,
)
from holdfast.server.loop import Conductor
from holdfast.server.member_watch import MemberWatch
from holdfast.server.refusal_log import RefusalLog
from holdfast.server.requests import OperatorReply
from holdfast.server.segment_digests import SegmentDigests
from holdfast.server.settings import ServerSettings
from holdfast.server.status import (
    connection_statuses,
    node_status,
    queue_depths,
    queue_names,
    queue_statuses,
)
from holdfast.sessions.context import SessionContext
from holdfast.store.replicated_store import ReplicatedStore

log = structlog.get_logger("holdfast.server")

_COMMIT_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.005


class Node:
    """One broker of a cluster, or a single one."""

    is_disk_abandoned = False
    """The disk hung at the end: threads that wait for it are still there."""

    def __init__(self, config: NodeConfig) -> None:
        """
        Open the data directory and recover; nothing listens yet.

        Raises:
            StoreError: The directory is locked, foreign or damaged beyond what can be served.
        """
        self.config = config
        self.clock = SystemClock()
        self.started_at = self.clock.monotonic()
        self.metadata = {"admin": config.advertised_admin, "stomp": config.advertised_stomp}
        self.exit_code = 0
        self.stopping: asyncio.Event | None = None
        self.fenced: FencedError | None = None
        self.shares = _share_descriptors(config)
        self.access = _access(config)
        disk = RealDisk()
        self.journal = self._open_journal(disk)
        self.checkpoint_files = CheckpointStore(config.data, disk)
        settings = BrokerSettings(memory_bytes=config.memory_bytes)
        state, applied_index = self._restore(settings)
        self.broker = Broker(settings, state)
        self.broker.follow()
        self.writer = JournalWriter(self.journal, self._notify)
        randomness = SystemRandomness()
        self.links = self._make_links(randomness)
        self.driver = Driver(
            settings=ReplicationSettings(
                heartbeat_seconds=config.heartbeat_seconds,
                election_seconds_min=config.election_seconds_min,
                election_seconds_max=config.election_seconds_max,
                copies=config.copies,
                sites=config.sites,
            ),
            name=config.name,
            journal=self.journal,
            ballot_file=self.journal.ballot_file,
            writer=self.writer,
            links=self.links,
            randomness=randomness,
            bootstrap=_bootstrap(config),
            applied_index=applied_index,
            metadata=self.metadata,
            on_fenced=self._on_fenced,
        )
        self.store = ReplicatedStore(self.driver, self.journal)
        self.context = SessionContext(
            node=config.name, version=__version__, default_persistent=config.default_persistent
        )
        self.context.refusals.tell = RefusalLog(self.clock)
        self.conductor = Conductor(
            broker=self.broker,
            store=self.store,
            context=self.context,
            clock=self.clock,
            settings=ServerSettings(
                connection_count_max=self.shares.clients,
                learner_hold_bytes_max=config.learner_hold_bytes,
                reader_hold_bytes_max=config.reader_hold_bytes,
            ),
            stomp_settings=StompSettings(is_strict=config.stomp_strict),
            on_role_change=self._on_role_change,
            on_damage=self._on_damage,
            on_failure=self.fail,
        )
        self.listener = self._make_listener()
        self.checkpoints = Checkpoints(self.broker, self.store, self.checkpoint_files)
        self.scrubber = Scrubber(self.journal)
        self.hold_watch = HoldWatch(self)
        self.segment_digests = SegmentDigests(self.journal, self.clock)
        self.seen_role = ""
        self.founding_watch = FoundingWatch(self._awaited)
        self.member_watch = MemberWatch(config.name, self.driver)
        self.loop: asyncio.AbstractEventLoop | None = None

    def _open_journal(self, disk: RealDisk) -> Journal:
        settings = JournalSettings(
            segment_bytes=self.config.segment_bytes,
            spare_segments=2,
            open_files_max=self.shares.read_files,
        )
        is_alone = not self.config.members
        return Journal.open(self.config.data, disk, settings, resolve_unknown_tail=is_alone)

    def _make_links(self, randomness: SystemRandomness) -> PeerLinks:
        config = self.config
        return PeerLinks(
            secret=config.secret,
            randomness=randomness,
            listen=str(config.peers) if config.peers is not None else "",
            settings=LinkSettings(
                strangers_max=self.shares.strangers,
                strangers_per_source_max=self.shares.strangers_per_source,
            ),
        )

    def _make_listener(self) -> Listener:
        return Listener(
            self.config.stomp,
            self.conductor.role,
            lambda: ClientConnection(self.conductor),
            backlog=self.shares.client_backlog,
            fail=self.fail,
        )

    def _restore(self, settings: BrokerSettings) -> tuple[BrokerState, int]:
        """Take the newest usable checkpoint; the log alone is enough where there is none."""
        for damage in self.journal.damage:
            log.error("damage in the log", **_place(damage))
        checkpoint = self.checkpoint_files.load_newest(self.journal.last_index, self.journal)
        state, index = BrokerState(settings), self.journal.first_index - 1
        if checkpoint is not None and checkpoint.index >= index:
            try:
                state = decode_state(checkpoint.body, settings)
                index = checkpoint.index
            except StoreError as error:
                log.warning("checkpoint ignored", index=checkpoint.index, reason=str(error))
        if not self.config.members:
            for damage in self.journal.damage:
                # Messages below a checkpoint are still read from the log.
                if damage.index > index or damage.reason == MISSING_FILE:
                    self.journal.close()
                    raise StoreError(
                        f"entry {damage.index:,} is damaged ({damage.reason}) in segment"
                        f" {damage.segment} at byte {damage.byte:,}, and this single node has"
                        f" no peer to repair it from. Nothing was changed. See 'holdfast store"
                        f" verify {self.config.data}'; restore the file from a copy"
                    )
        return state, index

    # ---- running

    async def run(self) -> int:
        """Serve until told to stop; give the exit code."""
        self.loop = asyncio.get_running_loop()
        self.conductor.loop = self.loop
        self.stopping = asyncio.Event()
        self._take_signals()
        operations = Operations(self, secret=self.config.secret)
        admin = AdminServer(
            build_application(operations, access=self.access),
            host=self.config.admin.host,
            port=self.config.admin.port,
            settings=AdminPortSettings(connection_count_max=self.shares.admin),
        )
        self.writer.start()
        await admin.start()
        self._leave_token(admin)
        self.links.attach(self.driver, self.conductor.schedule)
        await self.links.start()
        self._tell_places(admin.address)
        cycles = CycleCollector()
        cycles.begin(self.clock.monotonic())
        self.conductor.collect_cycles = cycles.step
        self.driver.start(self.clock.monotonic(), self.started_at)
        ticking = asyncio.create_task(self._tick())
        try:
            await self.stopping.wait()
            if not self.exit_code:
                await self._drain()
        finally:
            ticking.cancel()
            cycles.end()
            self.conductor.close()
            self.driver.end()
            self.listener.end()
            await self.links.close()
            await admin.stop()
            await self._close_store()
        log.info("stopped", exit_code=self.exit_code)
        return self.exit_code

    async def _close_store(self) -> None:
        """Close the data directory, or leave it as a crash would if its disk hangs."""
        seconds = self.conductor.settings.close_seconds_max
        closing = asyncio.create_task(self._close_files())
        done, _ = await asyncio.wait({closing}, timeout=seconds)
        if done:
            closing.result()
            return
        log.critical(
            "the disk hangs: ending without it; the next start recovers as after a crash",
            waited_seconds=seconds,
        )
        self.exit_code = 1
        self.is_disk_abandoned = True
        self.loop = None  # Nobody is to be told any more.

    async def _close_files(self) -> None:
        """Whatever touches the disk does so in a thread that may be left behind."""
        await asyncio.to_thread(self.writer.close)
        if not self.exit_code:
            await self.checkpoints.finish()
        self.segment_digests.close()
        self.scrubber.close()
        await asyncio.to_thread(self.journal.close)

    def _take_signals(self) -> None:
        assert self.loop is not None, "signals are taken inside the loop"
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self._stop)

    def _leave_token(self, admin: AdminServer) -> None:
        try:
            write_token(self.config.data, *admin.bound, self.access.local_token)
        except OSError as error:
            log.warning("commands on this machine need --secret-file", reason=str(error))

    def _tell_places(self, admin: str) -> None:
        journal = self.journal
        log.info("admin port is open", address=admin)
        peers = self.config.peers
        if peers is not None:
            log.info("peer port is open", address=str(peers))
            if not peers.is_loopback:
                log.warning(
                    "between members only the start of a link is authenticated, nothing is"
                    " encrypted: keep the network between them to yourself",
                    peers=str(peers),
                )
        log.info(
            "store is open",
            entries=f"{journal.first_index}-{journal.last_index}",
            live_messages=self.broker.state.live_count(),
            bytes_on_disk=journal.bytes_on_disk,
            seconds=round(self.clock.monotonic() - self.started_at, 2),
        )

    async def _tick(self) -> None:
        """Let time pass for the conductor; runs until cancelled."""
        conductor = self.conductor
        tick_seconds = conductor.settings.tick_seconds
        while True:
            conductor.tick()
            self._watch_role()
            self.founding_watch.step(self.clock.monotonic())
            self.member_watch.step(self.clock.monotonic())
            self.checkpoints.step()
            self.hold_watch.step(self.clock.monotonic())
            self._scrub()
            await asyncio.sleep(tick_seconds)

    def _scrub(self) -> None:
        for damage in self.scrubber.turn(self.clock.monotonic()):
            if self.journal.is_damaged(damage.index):
                continue  # told already; it stays until a peer has repaired it
            log.error("damage in the log", **_place(damage))
            self.journal.report_damage(damage)
            self.driver.report_damage(damage.index)

    def _notify(self, result: WriteResult) -> None:
        """Pass the writer's word to the loop; called on the writer's thread."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self._stored, result)

    def _stored(self, result: WriteResult) -> None:
        self.conductor.stored(result)

    def fail(self, error: Exception) -> None:
        """End the process with a non-zero code: nothing more may be claimed."""
        log.critical("stopping because of a failure", reason=str(error))
        self.exit_code = 1
        if self.stopping is not None:
            self.stopping.set()

    def _stop(self) -> None:
        log.info("stopping")
        if self.stopping is not None:
            self.stopping.set()

    def _on_fenced(self, error: FencedError) -> None:
        self.fail(error)

    def _on_damage(self, error: CorruptEntryError) -> None:
        log.error("a damaged entry is not served", reason=str(error))
        self.store.report_damage(error)

    # ---- roles

    def _watch_role(self) -> None:
        seen = f"term {self.driver.term}: {self.driver.role}, leader {self.driver.leader or '?'}"
        if seen != self.seen_role:
            self.seen_role = seen
            log.info(
                "role",
                term=self.driver.term,
                role=self.driver.role,
                leader=self.driver.leader or "unknown",
            )

    def _awaited(self) -> tuple[AwaitedStatus, ...]:
        return awaited(self.driver.founders(), self.links.reasons)

    def _on_role_change(self) -> None:
        self.context.cluster = self.driver.status().cluster_id[:8]
        self.listener.follow()

    async def _drain(self) -> None:
        """Finish what is under way, then hand over."""
        conductor = self.conductor
        deadline = self.clock.monotonic() + conductor.settings.drain_seconds
        for connection in list(conductor.connections):
            conductor.pause(connection)
        conductor.role.drain()
        await self._wait_for(
            lambda: not (conductor.pending or conductor.sealer.has_work() or conductor.ready),
            deadline,
        )
        if self.driver.is_leader and len(self.driver.status().members) > 1:
            try:
                target = self.driver.transfer(None)
                log.info("handing over", to=target)
                await self._wait_for(lambda: not self.driver.is_leader, deadline)
            except HoldfastError as error:
                log.warning("no hand-over", reason=str(error))

    async def _wait_for(self, condition: Callable[[], bool], deadline: float) -> bool:
        while not condition():
            if self.clock.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    # ---- what operators ask (admin.operations.Node)

    def status(self) -> NodeStatus:
        """Who it is and how far its log goes."""
        return node_status(self)

    def has_queue(self, name: str) -> bool:
        """Whether there is such a queue."""
        queue = self.broker.state.by_name.get(name)
        return queue is not None and not queue.is_deleted

    def queue_names(self) -> list[str]:
        """The names of its queues, in no order."""
        return queue_names(self)

    def queue_depths(self) -> Iterator[QueueDepth | None]:
        """What is summed over its queues; None after a step of a look that takes long."""
        return queue_depths(self)

    def queues(self, names: Iterable[str]) -> Iterator[QueueStatus | None]:
        """The queues of these names, each as it is when it is asked for; None as above."""
        return queue_statuses(self, names)

    def connections(self) -> Iterator[ConnectionStatus]:
        """The clients connected to it."""
        return connection_statuses(self)

    async def segments(
        self, after: int = 0, seconds_max: float | None = None
    ) -> tuple[list[SegmentStatus], int]:
        """The files of its log, with the digests of the sealed ones; see there."""
        return await self.segment_digests.segments(after, seconds_max)

    def log_position(self, from_index: int, bytes_max: int, *, with_bases: bool) -> LogPosition:
        """What it can give of the log to readers."""
        return log_position(self, from_index, bytes_max, with_bases=with_bases)

    def log_slice(self, from_index: int, bytes_max: int, through: int) -> LogSlice:
        """Where committed entries from an index on are."""
        return log_slice(self, from_index, bytes_max, through)

    async def keep_log(self, name: str, wanted: HoldRequest) -> HoldStatus:
        """Set a hold; returns once that is committed."""
        self._require_serving()
        reply = OperatorReply()
        self.broker.keep_log(hold_record(self, name, wanted), reply, b"")
        self.conductor.schedule()
        await asyncio.wait_for(reply.done, _COMMIT_WAIT_SECONDS)
        return hold_statuses(self, [self.broker.state.holds[name]])[0]

    async def release_log(self, name: str) -> None:
        """End a hold; returns once that is committed."""
        self._require_serving()
        reply = OperatorReply()
        self.broker.keep_log(HoldRecord(name, 0, 0), reply, b"")
        self.conductor.schedule()
        await asyncio.wait_for(reply.done, _COMMIT_WAIT_SECONDS)

    async def transfer(self, to: str | None) -> str:
        """Hand leadership over; gives the new leader's name."""
        target = self.driver.transfer(to)
        self.conductor.schedule()
        deadline = self.clock.monotonic() + _COMMIT_WAIT_SECONDS
        if not await self._wait_for(
            lambda: self.driver.leader not in {self.config.name, None}, deadline
        ):
            raise QuorumLostError(f"{target} did not take over in time; this node leads on")
        return self.driver.leader or target

    async def add_member(self, name: str, address: str, *, kind: MemberKind, site: str) -> None:
        """Admit a member; returns when that is committed."""
        await self._committed(self.driver.add_member(Member(name, address, kind, site)))

    async def remove_member(self, name: str) -> None:
        """Remove a member; returns when that is committed."""
        await self._committed(self.driver.remove_member(name))

    async def promote(self, name: str) -> None:
        """Make a learner a voter; returns when that is committed."""
        await self._committed(self.driver.promote(name))

    async def promote_force(
        self, companions: Sequence[LogEnd], *, is_incomplete_accepted: bool
    ) -> None:
        """Make this node the only voter of a new generation, that its companions follow."""
        self.driver.promote_force(
            companions,
            is_incomplete_accepted=is_incomplete_accepted,
            wall_microseconds=self.clock.wall_microseconds(),
        )
        self.conductor.schedule()
        deadline = self.clock.monotonic() + _COMMIT_WAIT_SECONDS
        if not await self._wait_for(lambda: self.conductor.is_serving, deadline):
            missing = ", ".join(self.driver.status().awaited)
            raise QuorumLostError(
                f"{missing} did not follow in time: the promotion goes on as soon as that happens;"
                f" or repeat it with those that answer"
                if missing
                else "the promotion did not complete in time; see the log"
            )

    async def purge(self, queue: str) -> int:
        """Remove all messages of a queue; returns how many."""
        await self._await_lease()
        reply = OperatorReply()
        count = self.broker.purge(queue, reply, b"")
        self.conductor.schedule()
        await asyncio.wait_for(reply.done, _COMMIT_WAIT_SECONDS)
        return count

    async def delete(self, queue: str) -> int:
        """Remove a queue and its messages; returns how many."""
        await self._await_lease()
        reply = OperatorReply()
        count = self.broker.delete(queue, reply, b"")
        self.conductor.schedule()
        await asyncio.wait_for(reply.done, _COMMIT_WAIT_SECONDS)
        return count

    async def _await_lease(self) -> None:
        """Wait until no leader before this one may deliver: what is removed must not come after."""
        self._require_serving()
        conductor = self.conductor
        deadline = self.clock.monotonic() + _COMMIT_WAIT_SECONDS
        await self._wait_for(
            lambda: not (conductor.is_serving and conductor.context.is_lease_awaited), deadline
        )
        self._require_serving()
        if conductor.context.is_lease_awaited:
            raise QuorumLostError("an earlier leader may deliver yet; try again")

    def _require_serving(self) -> None:
        if not self.conductor.is_serving:
            raise NotLeaderError(self.driver.leader)

    async def _committed(self, index: int) -> None:
        self.conductor.schedule()
        deadline = self.clock.monotonic() + _COMMIT_WAIT_SECONDS
        if not await self._wait_for(lambda: self.driver.commit_index >= index, deadline):
            raise QuorumLostError(f"entry {index:,} was not committed in time; see cluster status")


def _access(config: NodeConfig) -> Access:
    hosts = [split_address(it)[0] for it in (str(config.admin), config.advertised_admin)]
    hosts += [it.address.host for it in config.members if it.name == config.name]
    return Access(
        secret=config.secret,
        local_token=new_token(),
        token_path=str((config.data / FILE_NAME).absolute()),
        names=own_names(socket.gethostname(), *hosts, more=config.admin_names),
    )


def _share_descriptors(config: NodeConfig) -> Shares:
    """Take as many descriptors as this process may have, and say so where they are few."""
    shares = share_out(raise_limit(), config)
    RESERVE.hold(SET_ASIDE)
    if shares.clients < config.connections:
        log.warning(
            "fewer client connections than configured: too few files may be open",
            clients=shares.clients,
            connections=config.connections,
            open_files=shares.open_files,
            remedy=f"allow {shares.wanted:,} open files (ulimit -Hn, or LimitNOFILE= of its"
            f" service), or set connections to {shares.clients:,}",
        )
    return shares


def _bootstrap(config: NodeConfig) -> Membership:
    return Membership(
        tuple(
            Member(member.name, str(member.address), member.kind, member.site)
            for member in config.members
        )
    )


def _place(damage: object) -> dict[str, object]:
    return {name: getattr(damage, name) for name in ("segment", "byte", "index", "reason")}


def run(config: NodeConfig) -> int:
    """
    Run one node in this thread until it is told to stop, and give its exit code.

    Raises:
        HoldfastError: It could not start; the sentence says why and what to do.
        OSError: A port could not be opened.
    """
    node = Node(config)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(node.run())
        if node.is_disk_abandoned:
            # Whatever waits for threads now would wait as long as the disk hangs.
            logging.shutdown()
            os._exit(code)
        return code
