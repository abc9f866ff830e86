"""
One broker of a leased world: the real driver, worker, journal and writer on a simulated machine.

The broker's own part is small here: while it serves it proposes payloads that nobody else proposes,
and it applies what is committed. What waits is replaced: the worker's thread is a strand, the
cache's writer an event after a simulated sync. The disk and the clock outlive the process.

Invariants:
    Nothing of an earlier process runs after a later one was started.
    A paused process does nothing; what it has sent takes effect all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import CorruptEntryError, NotLeaderError, StoreError
from holdfast.journal.ballot import Ballot
from holdfast.journal.entry import Entry
from holdfast.journal.jobs import BallotJob, WriteJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.writer import JournalWriter
from holdfast.leases.contract import Claimant, LeasedLog
from holdfast.leases.driver import LeasedDriver
from holdfast.leases.elector import Line, Reading
from holdfast.leases.namesakes import Namesakes
from holdfast.leases.orders import Order, Report, Store, Take
from holdfast.leases.projection import Changes, QueueRow
from holdfast.leases.seen import SeenFile
from holdfast.leases.worker import LogWorker
from holdfast.raidb.lanes import ThreadLanes
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.settings import RaidbSettings
from trials.leased.model_databases import MemberWay, ModelMember
from trials.leased.model_directory import ModelDirectoryLog
from trials.leased.model_log import ModelLog
from trials.leased.passage import Fate, Sent
from trials.leased.showing_log import ShowingLog
from trials.leased.strand import Strand
from trials.leased.strand_threads import StrandThreads
from trials.simulation.simulated_clock import SimulatedClock
from trials.simulation.simulated_disk import SimulatedDisk
from trials.simulation.simulated_node import SeededRandomness

if TYPE_CHECKING:
    from trials.leased.simulator import LeasedWorld

DIRECTORY = Path("/simulated")
_YEARS_SECONDS = 3e8
_TICK_SECONDS = 0.5
_CLEAN = b"clean "
_WRITES = ("append", "write", "sync", "look")
_LARGE_BYTES = 100_000
LEVELS = 3
"""So many versions there are, by what they know of the log's format."""
WAITING_BYTES_MAX = 6_000
"""Nothing more is proposed while so much waits."""
PROPOSED_BYTES_MAX = 10_000
"""At once, but for what is large."""
_ROOM_SECONDS = 0.2


class SimulatedBroker:
    """A machine; `start` runs a process on it."""

    def __init__(self, world: LeasedWorld, number: int, name: str) -> None:
        self.world = world
        self.number = number
        self.name = name
        self.chance = random.Random(f"{world.seed}:{number}")  # noqa: S311 - to be repeated
        ratio = random.Random(f"lease {world.seed}:{number}").choice(world.plan.lease_ratios)  # noqa: S311 - to be repeated
        settings = world.lease_settings
        self.settings = replace(settings, lease_seconds=ratio * settings.lease_seconds)
        self.clock = SimulatedClock(world.timeline, start=self.chance.uniform(0, _YEARS_SECONDS))
        self.rate = 1.0
        self.disk = SimulatedDisk(self.chance.getrandbits(30))
        self.life = 0
        self.is_alive = self.is_paused = self.is_cut_off = self.is_stopping = False
        self.is_cut_off_from_elector = False
        self.ended_by: Exception | None = None
        self.started_at = self.stopped_at = self.stopped_before = float("-inf")
        self._slept = self._slept_from = 0.0
        self._pause_next = 0.0
        self._is_pause_of_write = self._is_loop_late = self._is_storing = False
        self.holder = ""
        self.applied: dict[int, bytes] = {}
        """What the process that runs has applied: the chain of each entry."""
        self.applied_index = 0
        self._own: dict[bytes, int] = {}
        """The chains of what this process proposed."""
        self._log_epoch = 0
        self._count = 0
        self._backlog: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._writing: list[WriteJob] = []
        self._waiting: list[WriteJob] = []
        self._woken_at = float("inf")
        self._drop: tuple[int, int] | None = None
        self.strand: Strand
        self.care: Strand | None = None
        """The thread that looks after several databases."""
        self.threads: StrandThreads | None = None
        """Those of each of several databases."""
        self.current: Strand
        """Which of all runs now."""
        self.ways: list[MemberWay] = []
        self.members: list[ModelMember] = []
        self.twins: list[ModelMember] = []
        """By which is read beside what is stored."""
        self.raidb: RaidbLog | None = None
        self.journal: Journal
        self.writer: JournalWriter
        self.seen: SeenFile
        self.worker: LogWorker
        self.driver: LeasedDriver

    # Machine --------------------------------------------------------------------------------------

    def run_clock_at(self, rate: float) -> None:
        """Let its clock be so fast from now on."""
        self.rate = rate
        self.clock.run_at(rate)

    def lease_clock(self) -> float:
        """The clock that goes on whatever the process does."""
        return self.clock.monotonic()

    @property
    def is_running(self) -> bool:
        """Whether a process is there and not stopped."""
        return self.is_alive and not self.is_paused

    @property
    def may_dispatch(self) -> bool:
        """Whether it would give out messages just now."""
        is_turning = self.is_running and not self.is_stopping and not self._is_loop_late
        return is_turning and self.driver.may_dispatch(0.0)

    @property
    def is_outlived(self) -> bool:
        """Whether it ended by itself for another one that has its name."""
        return self.ended_by is not None and "another broker called" in str(self.ended_by)

    @property
    def is_serving(self) -> bool:
        """Whether it takes messages and gives them out."""
        return self.may_dispatch and self.driver.is_serving

    @property
    def slept_seconds(self) -> float:
        """How long its processes were stopped without their noticing, all in all."""
        return self._slept + (self.world.timeline.now - self._slept_from) * self.is_paused

    def post(self, seconds: float, action: Callable[..., object], *arguments: object) -> None:
        """Plan something for the process that runs now."""
        self.world.timeline.after(seconds, self._happen, self.life, action, arguments)

    def _happen(
        self, life: int, action: Callable[..., object], arguments: tuple[object, ...]
    ) -> None:
        if life != self.life or not self.is_alive:
            return
        if self.is_paused or (self._is_loop_late and action not in self._of_the_worker):
            self._backlog.append((action, arguments))
            return
        action(*arguments)

    @property
    def _of_the_worker(self) -> tuple[Callable[..., object], ...]:
        own = (self._go_on, self._begin, self._ask_elector, self._elector_answers)
        return own if self.threads is None else (*own, *self.threads.actions)

    def pause_in_a_call(self, seconds: float, *, is_writing: bool) -> None:
        """Stop it for so long as soon as its worker asks for anything, or stores something."""
        self._pause_next, self._is_pause_of_write = seconds, is_writing

    def pause(self) -> None:
        """Stop the process without its noticing."""
        if not self.is_paused:
            self._slept_from = self.world.timeline.now
        self.is_paused = True

    def resume(self) -> None:
        """
        Let it go on with all that came meanwhile.

        Which of its threads runs first is the machine's affair: the loop may be late, and then find
        what is due beside what has come.
        """
        if not self.is_paused:
            return
        self.is_paused = False
        self._slept += self.world.timeline.now - self._slept_from
        self._is_loop_late = True
        backlog, self._backlog = self._backlog, []
        for action, arguments in backlog:
            self._happen(self.life, action, arguments)
        late = self.chance.choice((0.0, 0.01, 0.1, 0.3))
        self.world.timeline.after(late, self._resume_loop, self.life)

    def _resume_loop(self, life: int) -> None:
        if life != self.life or not self._is_loop_late or self.is_paused:
            return
        self._is_loop_late = False
        backlog, self._backlog = self._backlog, []
        self.chance.shuffle(backlog)
        for action, arguments in backlog:
            self._happen(self.life, action, arguments)

    # The process ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process on what the disk holds."""
        assert not self.is_alive, "started twice"
        self.life += 1
        self.started_at, self.stopped_before = self.world.timeline.now, self.stopped_at
        self.is_alive, self.is_paused, self.is_stopping = True, False, False
        self._is_loop_late, self._pause_next = False, 0.0
        self.ended_by = None
        self._backlog, self._writing, self._waiting = [], [], []
        self._own, self._drop = {}, None
        self._woken_at = float("inf")
        self.world.note(self, "starts")
        self._open_cache()
        self._build()
        self._begin_applying()
        self._turn()
        self.post(self.chance.random() * _TICK_SECONDS, self._tick)
        self.post(self.chance.random(), self._propose)
        if self.world.elector is not None:
            self._begin_asking()

    def _open_cache(self) -> None:
        self.disk.limit(None)  # Without room to begin with it ends, and its operator makes some.
        settings = self.world.journal_settings
        try:
            self.journal = Journal.open(DIRECTORY, self.disk, settings, resolve_unknown_tail=True)
        except StoreError as error:
            # Nothing depends on the cache: one that cannot be opened is thrown away.
            self.world.note(self, f"throws its cache away: {error}")
            self.world.count("cache thrown away")
            self.lose_cache()
            self.journal = Journal.open(DIRECTORY, self.disk, settings, resolve_unknown_tail=True)
        self.writer = JournalWriter(self.journal, self._written, clock=self.clock)
        if self.journal.ballot_file.current is None:
            self.writer.turn([BallotJob(Ballot(node_id=bytes(16)))])

    def _build(self) -> None:
        self.strand = self.current = Strand()
        self.seen = SeenFile(DIRECTORY, self.disk)
        log = self._make_log()
        if isinstance(log, ModelDirectoryLog):
            log.stale_seconds = self._stale_seconds
        self.holder = self.chance.randbytes(16).hex()
        namesakes = self._namesakes() if self.world.plan.are_names_judged else None
        self.worker = LogWorker(
            log, self.seen, self.lease_clock, name=self.name, namesakes=namesakes
        )
        self.driver = LeasedDriver(
            settings=self.settings,
            claimant=Claimant(holder=self.holder, name=self.name, admin="", stomp=""),
            log=log,
            journal=self.journal,
            writer=_CacheWriter(self),
            worker=self,
            clock=self.lease_clock,
            randomness=SeededRandomness(self.chance),
            known_level=2 + self.number % LEVELS,
            has_elector=self.world.elector is not None,
        )

    def _namesakes(self) -> Namesakes:
        return Namesakes(
            DIRECTORY,
            self.disk,
            self.lease_clock,
            name=self.name,
            holder=self.holder,
            tell_seconds=self.settings.tell_seconds,
            stamp=lambda _: f"machine {self.number}",
        )

    def _make_log(self) -> LeasedLog:
        plan = self.world.plan
        if not plan.databases:
            database_type = ShowingLog if plan.is_shown else ModelLog
            log_type = database_type if plan.is_fence else ModelDirectoryLog
            return log_type(self.world.medium, self)
        self.care = Strand()
        self.threads = StrandThreads(self)
        self.ways = [MemberWay(self, it) for it in self.world.medium.databases]
        self.members, self.twins = self._members(), self._members()
        self.raidb = RaidbLog(
            self.members,
            RaidbSettings(
                confirm="majority" if plan.is_by_majority else "all",
                behind_bytes_max=20_000,
                member_timeout_seconds=0.3 * plan.lease_seconds,
                copy_bytes=64 * 1024,
            ),
            lanes=ThreadLanes(self.threads),
            clock=self.lease_clock,
        )
        self.raidb.databases.add_twins(self.twins)
        self.raidb.databases.follow(self.seen)
        self.raidb.open_seconds = plan.lease_seconds
        self.post(self.chance.random(), self._care)
        return self.raidb

    def _members(self) -> list[ModelMember]:
        databases = self.world.medium.databases
        made = [ModelMember(it, way) for it, way in zip(databases, self.ways, strict=True)]
        for place, other in self.world.turned.items():
            made[place].leads_to = other
        return made

    def _care(self) -> None:
        care = self.care
        if care is not None and not care.is_busy:
            self.current = care
            care.run(self._take_care)
        self.post(self.chance.uniform(0.05, 0.4), self._care)

    def _take_care(self) -> None:
        assert self.raidb is not None, "there are several databases"
        self.raidb.caretaker.step()
        self.raidb.caretaker.scrub()

    def want_disabled(self, member: str, seconds: float) -> bool:
        """An operator disables a database, and enables it later on."""
        if self.raidb is None or not self.driver.is_leader:
            return False
        self.raidb.caretaker.want_soon({member: "disabled"})
        self.world.timeline.after(seconds, self.world.enable, member)
        return True

    def _stale_seconds(self) -> float:
        plan = self.world.plan
        if self.chance.random() >= plan.stale:
            return 0.0
        return self.chance.uniform(0.0, 3 * plan.lease_seconds)

    def lose_cache(self) -> None:
        """Give the machine an empty disk."""
        self.disk = SimulatedDisk(self.chance.getrandbits(30))

    def stop(self, *, power: bool = False) -> None:
        """Kill the process; with `power` the disk also loses what was not synced."""
        if not self.is_alive:
            return
        self.is_alive = self.is_paused = False
        self.stopped_at = self.world.timeline.now
        self.strand.cut()
        if self.care is not None:
            self.care.cut()
        if self.threads is not None:
            self.threads.cut()
        if power:
            self.disk.power_cut()
        else:
            self.disk.kill_process()
        self.world.note(self, "loses power" if power else "is dead")

    def stop_cleanly(self) -> None:
        """End as a process does that is asked to: the worker gives the lease back."""
        if not self.is_running or self.is_stopping:
            return
        self.is_stopping = True
        self.driver.end()
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self.strand.is_busy:
            self.post(0.01, self._close_when_idle)
            return
        self.world.note(self, "ends")
        if self.world.elector is not None and not self.is_cut_off_from_elector:
            self.world.elector.leave(self.holder)
        self.current = self.strand
        self.strand.run(self._close)

    def _close(self) -> None:
        self.worker.close()
        self.post(0.0, self.stop)

    def _end(self, error: Exception) -> None:
        self.ended_by = error
        self.world.note(self, f"ends by itself: {error}")
        self.stop()
        self.world.judge.on_end(self, error)

    # The worker's thread and the way to the medium ------------------------------------------------

    def submit(self, order: Order) -> None:
        """Take an order for the worker."""
        if isinstance(order, Take):
            self._count_early(order)
        self.post(0.0001, self._begin, order)

    def _begin(self, order: Order) -> None:
        if self.strand.is_busy:  # It is closing.
            return
        self.current = self.strand
        self.strand.run(lambda: self._perform(order))

    def _perform(self, order: Order) -> None:
        report = self.worker.perform(order)
        self.post(self.chance.uniform(0.0, 0.002), self._report, report)

    def _report(self, report: Report) -> None:
        # What it stored itself is confirmed in the turn that hears of it, whatever comes next.
        self._is_storing = isinstance(report.order, Store) and self.driver.is_leader
        self.driver.stored(report)
        self._turn()
        self._is_storing = False

    def fate(self, statement: str) -> Fate:
        """What becomes of a statement."""
        is_meant = not self._is_pause_of_write or statement in _WRITES
        if self._pause_next and is_meant and self.chance.random() < 0.5:
            seconds, self._pause_next = self._pause_next, 0.0
            after = self.world.timeline.after
            after(0.0, self._pause_for, self.life, seconds)
        return self.world.fate(self, statement)

    def _pause_for(self, life: int, seconds: float) -> None:
        if life == self.life and self.is_running:
            self.pause()
            self.world.timeline.after(seconds, self.resume)

    def send(self, seconds: float, sent: Sent) -> None:
        """It is under way now: nothing of this process holds it up once all of it was sent."""
        if not sent.sending_seconds:
            self.world.timeline.after(seconds, sent.take_effect)
            return
        rest = seconds - sent.sending_seconds
        self.world.timeline.after(sent.sending_seconds, self._all_is_sent, self.life, rest, sent)

    def _all_is_sent(self, life: int, seconds: float, sent: Sent) -> None:
        if life == self.life and self.is_alive:
            self.world.timeline.after(seconds, sent.take_effect)

    def wait(self, seconds: float) -> None:
        """The strand waits."""
        strand = self.current
        self.post(seconds, self._go_on, strand)
        strand.wait()

    def _go_on(self, strand: Strand) -> None:
        self.current = strand
        strand.go_on()

    def _count_early(self, take: Take) -> None:
        """Whether the elector's word is what lets the lease be taken so soon."""
        driver, claimant = self.driver, take.seen.claimant
        if driver.elections is None or claimant is None or take.seen.is_released:
            return
        is_early = driver.silent_seconds < driver.lease_seconds
        if is_early and driver.elections.has_lost_session(claimant.holder, 0.0, 0.0):
            self.world.count("taken of a session that ended")

    # The elector's thread -------------------------------------------------------------------------

    def _begin_asking(self) -> None:
        self._asking = 0
        self._elector_chance = random.Random(f"asks {self.holder}")  # noqa: S311 - to be repeated
        self._ask_elector()

    def _ask_elector(self) -> None:
        """One step of the thread that asks: sent some time after it looked at the clock."""
        elections, chance, world = self.driver.elections, self._elector_chance, self.world
        assert elections is not None, "there is an elector"
        self._asking += 1
        number, began, is_willing = self._asking, self.lease_clock(), elections.is_willing
        bound = world.plan.session_seconds / 3
        latency = world.plan.latency_seconds * chance.uniform(0.2, 3.0)
        if chance.random() < world.plan.slow_elector and not world.is_calm:
            latency = chance.uniform(0.0, 0.5) * world.plan.session_seconds
        is_lost = self.is_cut_off_from_elector or world.is_elector_away
        is_lost = is_lost or (chance.random() < 0.02 and not world.is_calm)
        world.count("elector asked")
        if not is_lost:
            self.post(latency / 2, self._send_to_elector, number, began, is_willing, latency)
        self.post(bound, self._elector_answers, number, began, is_willing, None)

    def _send_to_elector(self, number: int, began: float, is_willing: bool, latency: float) -> None:
        """What is under way takes effect whatever becomes of who sent it."""
        life, holder, elector = self.life, self.holder, self.world.elector

        def take_effect() -> None:
            assert elector is not None, "there is one"
            line = elector.stand(holder, is_willing=is_willing, number=number)
            if life == self.life:
                self.post(latency, self._elector_answers, number, began, is_willing, line)

        self.world.timeline.after(latency / 2, take_effect)

    def _elector_answers(
        self, number: int, began: float, is_willing: bool, line: Line | None
    ) -> None:
        if number != self._asking:
            return  # It was answered, or given up, before.
        self._asking += 1
        if line is None:
            self.world.count("elector silent")
        reading = Reading(
            began=began,
            ended=self.lease_clock(),
            is_willing=is_willing,
            line=line,
            trouble="" if line else "the model does not answer",
        )
        self.post(0.0001, self._hear_elector, reading)
        pause = self.world.plan.session_seconds / 10
        self.post(pause * self._elector_chance.uniform(0.8, 1.2), self._ask_elector)

    def _hear_elector(self, reading: Reading) -> None:
        self.driver.elector_said(reading)
        self._turn()

    # The cache's writer ---------------------------------------------------------------------------

    def write(self, job: WriteJob) -> None:
        """Take a job for the cache."""
        self._waiting.append(job)
        if not self._writing:
            self._write_soon()

    def _write_soon(self) -> None:
        self._writing, self._waiting = self._waiting, []
        self.post(self.chance.uniform(0.0002, 0.02), self._write)

    def _write(self) -> None:
        self.writer.turn(self._writing)
        self._writing = []
        if self._waiting:
            self._write_soon()
        elif self.writer.is_waiting:
            self.post(_ROOM_SECONDS, self._look_for_room)
        if self.chance.random() < 0.1:
            self.writer.save_floor()

    def _look_for_room(self) -> None:
        if not self._writing:
            self._write()

    def _written(self, result: WriteResult) -> None:
        self.post(0.0001, self._tell_written, result)

    def _tell_written(self, result: WriteResult) -> None:
        self.driver.stored(result)
        self._turn()

    # The broker's own part ------------------------------------------------------------------------

    def _turn(self) -> None:
        if self.is_stopping:
            return
        try:
            self.driver.turn(0.0)
            self._apply()
            self._drop_what_may_go()
        except StoreError as error:
            self._end(error)
            return
        self.world.judge.after_turn(self)
        self._wake_at(self.driver.rests_until)

    def _wake_at(self, when: float) -> None:
        seconds = (when - self.lease_clock()) / self.rate
        due = self.world.timeline.now + max(seconds, 1e-4)
        if due < self._woken_at:
            self._woken_at = due
            self.post(due - self.world.timeline.now, self._wake, due)

    def _wake(self, due: float) -> None:
        if due == self._woken_at:
            self._woken_at = float("inf")
            self.world.judge.counts["woken"] += 1
            self._turn()

    def _begin_applying(self) -> None:
        self._log_epoch = self.driver.log_epoch
        self.applied = {}
        self.applied_index = self.driver.taken_index
        self._drop = None

    def _apply(self) -> None:
        if self.driver.log_epoch != self._log_epoch:
            self.world.count("cache begun anew")
            self._begin_applying()
        try:
            while entries := self.driver.take_committed(20_000):
                for entry in entries:
                    self._apply_one(entry)
        except CorruptEntryError:
            self.world.count("damage met")

    def _apply_one(self, entry: Entry) -> None:
        judge, driver = self.world.judge, self.driver
        judge.on_applied(self, entry)
        self.applied[entry.index] = entry.chain
        self.applied_index = entry.index
        if entry.chain in self._own:
            is_its_holder = driver.is_leader and driver.term == entry.term
            if is_its_holder or self._is_storing or self.world.plan.is_fence:
                judge.on_confirmed(self, entry)
        body = bytes(entry.body)
        if body.startswith(_CLEAN):
            self._drop = (int(body[len(_CLEAN) :].split()[0]), entry.index)

    def _drop_what_may_go(self) -> None:
        if self._drop is not None and self.journal.stored_index >= self._drop[1]:
            before = min(self._drop[0], self.driver.reclaim_limit)
            self._drop = None
            if self.journal.drop_before(before):
                self.world.count("cleaned")

    def _tick(self) -> None:
        self.journal.housekeeper.turn()
        if self.chance.random() < 0.2:
            self.scrub(8)
        self._turn()
        self.post(_TICK_SECONDS, self._tick)

    def scrub(self, count: int) -> bool:
        """Read some entries, or with 0 all of them; whether they are whole."""
        journal = self.journal
        indexes = range(journal.first_index, journal.last_index + 1)
        if count and len(indexes) > count:
            indexes = range(indexes[0], indexes[0] + count)
        is_whole = True
        for index in indexes:
            try:
                journal.entry(index)
            except CorruptEntryError:
                # What the medium has dropped can only go.
                is_whole = is_whole and index < self.world.medium.first_index
                self.driver.report_damage(index)
        return is_whole

    def _propose(self) -> None:
        plan = self.world.plan
        if self.world.is_publishing and self.is_serving:
            is_free = self.driver.uncommitted_bytes < WAITING_BYTES_MAX
            for _ in range(self.chance.choice((1, 1, 2, 5)) if is_free else 0):
                self._propose_one()
            if plan.is_shown and self.driver.can_project:
                self._project()
            self._turn()
        self.post(plan.propose_seconds * self.chance.uniform(0.3, 1.7), self._propose)

    def _project(self) -> None:
        told = QueueRow(
            number=1,
            name=self.name,
            depth=0,
            bytes=0,
            enqueued=0,
            dequeued=0,
            oldest_at=0,
            as_of_index=self.applied_index,
        )
        self.driver.project(Changes(queues=(told,)))

    def propose_large(self) -> None:
        """Propose an entry that is larger than what is copied at once."""
        self._propose_one(is_large=True)
        self._turn()

    def _propose_one(self, *, is_large: bool = False) -> None:
        driver, chance = self.driver, self.chance
        self._count += 1
        mark = b"%d:%d:%d" % (self.number, self.life, self._count)
        body = mark + b"." * chance.choice((10, 100, 1500))
        if self.world.plan.large and not self.world.is_calm:
            is_large = chance.random() < self.world.plan.large
        if is_large and not 0 < driver.message_bytes_max < _LARGE_BYTES:
            body = mark.ljust(_LARGE_BYTES, b".")
        if chance.random() < self.world.plan.clean:
            body = _CLEAN + b"%d " % max(driver.commit_index - chance.randrange(30), 1) + mark
        try:
            entry = driver.propose(
                [body], 1, now=0.0, wall_microseconds=self.clock.wall_microseconds()
            )
        except NotLeaderError:
            return
        self._own[entry.chain] = entry.index
        self.world.judge.counts["proposed"] += 1
        self.world.judge.on_proposed(self, entry)


class _CacheWriter:
    """The cache's writer of one broker."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self._broker = broker

    def submit(self, job: WriteJob) -> None:
        self._broker.write(job)
