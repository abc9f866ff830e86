"""
One broker process: built from its configuration, run until it is told to stop.

Here everything is started, kept going and ended, and nothing is decided: what the parts are is
chosen in `assembly`, who serves in `role`. The admin port is open whatever the role.

Invariants:
    After a failed write the process ends with a non-zero exit code and claims nothing more.
    Whatever touches a disk at the end may be left behind, should that disk hang.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import structlog
import uvloop

from holdfast.admin.forwarding import LIFE
from holdfast.admin.status import AwaitedStatus
from holdfast.admin.token_file import FILE_NAME
from holdfast.config.node import NodeConfig
from holdfast.errors import CorruptEntryError, FencedError, HoldfastError, MirrorsLostError
from holdfast.journal.scrub import Scrubber
from holdfast.replication.driver import Driver
from holdfast.server.admin_port import admin_access, admin_server
from holdfast.server.administration import Administration
from holdfast.server.assembly import assemble
from holdfast.server.audit_file import AuditFile
from holdfast.server.certificate_watch import CertificateWatch
from holdfast.server.checkpoints import Checkpoints
from holdfast.server.client_audit import audit_clients
from holdfast.server.cycle_collector import CycleCollector
from holdfast.server.founding import FoundingWatch, awaited
from holdfast.server.lease_runner import LeaseRunner
from holdfast.server.leased_group import LeasedGroup
from holdfast.server.left_token import LeftToken
from holdfast.server.log_access import HoldWatch
from holdfast.server.member_watch import MemberWatch
from holdfast.server.operators import Operators
from holdfast.server.pace import Pace
from holdfast.server.preparation import PREPARE_SECONDS, prepare
from holdfast.server.renewal import HangUps, Renewal
from holdfast.server.restoring import place
from holdfast.server.rights_age import RightsAge
from holdfast.server.showing import Showing
from holdfast.server.waiting import wait_until
from holdfast.store.contract import WriteReport

log = structlog.get_logger("holdfast.server")


class Node:
    """One broker of a cluster, or a single one."""

    is_disk_abandoned = False
    """The disk hung at the end: threads that wait for it are still there."""

    def __init__(self, config: NodeConfig, hang_ups: HangUps | None = None) -> None:
        """
        Open the data directory and recover; nothing listens yet.

        Raises:
            ConfigError: Too few files may be open.
            StoreError: The directory is locked, foreign or damaged beyond what can be served.
        """
        self.config = config
        self.renewal = Renewal(hang_ups)
        self.exit_code = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stopping: asyncio.Event | None = None
        self.seen_role = ""
        self.parts = parts = assemble(config, self)
        if parts.caretaker is not None:
            parts.caretaker.disk.keeper.on_lost = self._mirrors_lost
        self.clock = parts.clock
        self.conductor = parts.conductor
        self.driver = parts.driver
        self.audit_file = None
        if config.audit_file is not None:
            self.audit_file = AuditFile(config.audit_file, parts.clock)
        self.administration = Administration(parts, self.audit_file)
        if self.audit_file is not None:
            audit_clients(parts, self.administration.trail)
        self.access = admin_access(
            config,
            self._token_path,
            life=parts.metadata[LIFE],
            people=Operators(
                parts.access,
                is_witness=lambda: self.driver.is_witness,
                rights_age=RightsAge(lambda: self.driver, lambda: parts.store.applied_index),
            ),
            tell=self.administration.trail.refused,
        )
        self.left_token = LeftToken(
            (config.data, *config.mirrors),
            self.access.local_token,
            parts.shown.get(config.admin_tls),
            None if parts.caretaker is None else parts.caretaker.disk,
        )
        self.checkpoints = Checkpoints(parts.broker, parts.store, parts.checkpoint_files)
        self.scrubber = Scrubber(parts.journal)
        self.showing = Showing(config, parts)
        self.hold_watch = HoldWatch(parts)
        self.founding_watch = FoundingWatch(self._awaited)
        self.member_watch = MemberWatch(config.name, self.driver)
        self.certificate_watch = CertificateWatch(
            parts.shown.values(), self.clock.wall_microseconds
        )

    async def run(self) -> int:
        """Serve until told to stop; give the exit code."""
        parts = self.parts
        self.loop = self.conductor.loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()
        self._take_signals()
        member = "" if self.config.peer_tls == "off" else self.config.name
        self.renewal.begin(parts.shown.values(), member=member)
        admin = admin_server(
            self.config, parts, self.administration, access=self.access, renew=self.renewal.renew
        )
        parts.writer.start()
        await admin.start()
        self.left_token.leave(admin.bound)
        self.renewal.prepare = self.left_token.prepare
        self._attach_links()
        await parts.links.start()
        self._tell_places(admin.address)
        cycles = CycleCollector()
        cycles.begin(self.clock.monotonic())
        self.conductor.collect_cycles = cycles.step
        self.driver.start(self.clock.monotonic(), parts.started_at)
        parts.access.run()
        ticking = asyncio.create_task(self._tick())
        preparing = self.loop.call_later(PREPARE_SECONDS, self.loop.run_in_executor, None, prepare)
        try:
            await self.stopping.wait()
            if not self.exit_code:
                await self._drain()
        finally:
            preparing.cancel()
            ticking.cancel()
            cycles.end()
            self.conductor.close()
            parts.access.close()
            self.driver.end()
            parts.listener.end()
            await parts.links.close()
            await admin.stop()
            if self.audit_file is not None:
                await asyncio.to_thread(self.audit_file.close)
            await self._close_store()
        log.info("stopped", exit_code=self.exit_code)
        return self.exit_code

    def _attach_links(self) -> None:
        links, driver = self.parts.links, self.driver
        if isinstance(links, LeaseRunner):
            assert isinstance(driver, LeasedGroup), "they are made together"
            links.attach(driver, self.conductor.schedule)
        else:
            assert isinstance(driver, Driver), "they are made together"
            links.attach(driver, self.conductor.schedule)

    def _take_signals(self) -> None:
        assert self.loop is not None, "signals are taken inside the loop"
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self._stop)

    def _token_path(self) -> str:
        """Where the token lies: of several directories, in one that is well."""
        caretaker = self.parts.caretaker
        if caretaker is None:
            return str((self.config.data / FILE_NAME).absolute())
        return str(caretaker.disk.readable_path(caretaker.disk.base / FILE_NAME))

    def _tell_places(self, admin: str) -> None:
        journal = self.parts.journal
        log.info("admin port is open", address=admin)
        peers = self.config.peers
        if peers is not None:
            log.info("peer port is open", address=str(peers))
        for it in self.config.exposures():
            log.warning(it.what, **{it.setting: it.value}, remedy=it.remedy)
        log.info(
            "store is open",
            entries=f"{journal.first_index}-{journal.last_index}",
            live_messages=self.parts.broker.state.live_count(),
            bytes_on_disk=journal.bytes_on_disk,
            seconds=round(self.clock.monotonic() - self.parts.started_at, 2),
        )

    async def _tick(self) -> None:
        """Let time pass for the conductor; runs until cancelled."""
        conductor = self.conductor
        clock = self.clock
        pace = Pace(
            conductor.counters,
            conductor.settings.tick_seconds,
            self.config.sections.replication.look_seconds,
        )
        while True:
            now, cpu = clock.monotonic(), clock.thread_cpu()
            conductor.tick()
            self._watch_role()
            self.founding_watch.step(now)
            self.member_watch.step(now)
            self.certificate_watch.step(now)
            conductor.budget.begin()
            self.checkpoints.step(conductor.budget.is_spent)
            self.showing.step(now)
            self.hold_watch.step(now)
            worked = clock.thread_cpu() - cpu
            self._scrub(now)  # At its own rate, however often it is asked: that is no work to do.
            pause = pace.pause(now, worked, self._due(now))
            await conductor.rest.take(pause, pace.quiet_seconds)

    def _due(self, now: float) -> float:
        """When something is due by the clock, of what says when; see `Pace.pause`."""
        due = min(self.driver.rests_until, now + self.scrubber.turn_seconds_max)
        if self.showing.is_under_way:
            due = now
        broker = self.parts.broker
        soonest_ms = broker.soonest_ms
        if soonest_ms:
            due = min(due, now + (soonest_ms - broker.returning.now_ms) / 1000)
        return due

    def _watch_role(self) -> None:
        driver = self.driver
        seen = f"term {driver.term}: {driver.role}, leader {driver.leader or '?'}"
        if seen != self.seen_role:
            self.seen_role = seen
            leader = driver.leader or "unknown"
            log.info("role", term=driver.term, role=driver.role, leader=leader)

    def _scrub(self, now: float) -> None:
        for damage in self.scrubber.turn(now):
            if self.parts.journal.is_damaged(damage.index):
                continue  # told already; it stays until a peer has repaired it
            log.error("damage in the log", **place(damage))
            self.parts.journal.report_damage(damage)
            self.driver.report_damage(damage.index)

    def _awaited(self) -> tuple[AwaitedStatus, ...]:
        return awaited(self.driver.founders(), self.parts.links.reasons)

    def stored(self, result: WriteReport) -> None:
        """Pass the writer's word to the loop; called on the writer's thread."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.conductor.stored, result)

    def role_changed(self) -> None:
        """Let the client port follow."""
        cluster_id = self.driver.status().cluster_id
        self.parts.context.cluster = cluster_id[:8]
        self.parts.address_key.cluster_id = cluster_id
        self.parts.broker.moving.cluster = self.parts.context.cluster
        self.parts.listener.follow()

    def damaged(self, error: CorruptEntryError) -> None:
        """Ask a peer for what cannot be read here."""
        log.error("a damaged entry is not served", reason=str(error))
        self.parts.store.report_damage(error)

    def fenced(self, error: FencedError) -> None:
        """End: the cluster goes on without this node."""
        self.fail(error)

    def fail(self, error: Exception) -> None:
        """End the process with a non-zero code: nothing more may be claimed."""
        log.critical("stopping because of a failure", reason=str(error))
        self.exit_code = 1
        if self.stopping is not None:
            self.stopping.set()

    def _mirrors_lost(self, error: MirrorsLostError) -> None:
        """Too few directories are left; called on the thread that found out."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.fail, error)

    def _stop(self) -> None:
        log.info("stopping")
        if self.stopping is not None:
            self.stopping.set()

    async def _drain(self) -> None:
        """Finish what is under way, then hand over."""
        conductor = self.conductor
        deadline = self.clock.monotonic() + conductor.settings.drain_seconds
        for connection in list(conductor.connections):
            conductor.clients.pause(connection)
        conductor.role.drain()
        await wait_until(
            lambda: (
                not (
                    conductor.broker.receipts.proposed_count
                    or conductor.sealer.has_work()
                    or conductor.clients.have_brought
                )
            ),
            self.clock,
            deadline,
        )
        driver = self.driver
        if driver.is_leader and len(driver.status().members) > 1:
            try:
                target = driver.transfer(None)
                log.info("handing over", to=target)
                await wait_until(lambda: not driver.is_leader, self.clock, deadline)
            except HoldfastError as error:
                log.warning("no hand-over", reason=str(error))

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
        await asyncio.to_thread(self.left_token.take_away)
        await asyncio.to_thread(self.parts.writer.close)
        if not self.exit_code:
            await self.checkpoints.finish()
        self.administration.close()
        self.scrubber.close()
        await asyncio.to_thread(self.parts.journal.close)


def run(config: NodeConfig, hang_ups: HangUps | None = None) -> int:
    """
    Run one node in this thread until it is told to stop, and give its exit code.

    Raises:
        HoldfastError: It could not start; the sentence says why and what to do.
        OSError: A port could not be opened.
    """
    node = Node(config, hang_ups)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(node.run())
        if node.is_disk_abandoned:
            # Whatever waits for threads now would wait as long as the disk hangs.
            logging.shutdown()
            os._exit(code)
        return code
