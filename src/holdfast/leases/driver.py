"""
One of several brokers over a log that one of them may write: driven in turns, as a member is.

What is proposed goes to the medium first and into the cache, an ordinary journal in the broker's
own directory, once it is stored there: the cache never has what is not final, and nothing that was
confirmed depends on it. A broker that waits reads the log as it grows, so that it takes over with
what it knows. `turn` is a plain function over contracts, so that a simulator can run it.

Invariants:
    One order is under way at a time; an append of unknown outcome is sent again before any other.
    What is committed was stored under our epoch, or read from the medium in order.
    Nothing is dispatched and nothing is given out as committed of our own past `valid_until`, on a
    medium that is no fence; on one that is, a stored append may be confirmed however late.
    A sign of life counts from before it was sent.
    taken_index <= commit_index <= the cache's last entry.

Owned by the loop thread; not safe to call from any other.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.environment.randomness import Randomness
from holdfast.errors import (
    AppendRefusedError,
    CorruptEntryError,
    NotLeaderError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import KIND_RECORDS, Entry, bytes_of
from holdfast.journal.entry_body import EntryBody, seal_body
from holdfast.journal.journal import Journal
from holdfast.leases import catching_up, company, ordering, outages, tenure
from holdfast.leases.cache_room import CacheRoom
from holdfast.leases.contract import Claimant, LeasedLog, Outcome
from holdfast.leases.elections import Elections
from holdfast.leases.elector import Reading
from holdfast.leases.mending import Mending
from holdfast.leases.orders import (
    Drop,
    Fetch,
    Join,
    Look,
    Order,
    Project,
    Release,
    Renew,
    Report,
    Store,
    Take,
    Tell,
)
from holdfast.leases.outlets import CacheWriter, Worker, WrittenReport
from holdfast.leases.projection import Changes
from holdfast.leases.settings import LeaseSettings
from holdfast.leases.state import ALWAYS, GONE_BEATS, LeasedState, Phase, Undone
from holdfast.leases.view import LeasedView

logger = logging.getLogger("holdfast.leases")

LATER_SECONDS = 30.0
"""What the medium refuses and the log does not need is tried again so much later."""


class LeasedDriver(LeasedView):
    """
    One broker. `turn` must be called after any input and at `rests_until` at the latest.
    """

    def __init__(
        self,
        *,
        settings: LeaseSettings,
        claimant: Claimant,
        log: LeasedLog,
        journal: Journal,
        writer: CacheWriter,
        worker: Worker,
        clock: Callable[[], float],
        randomness: Randomness,
        known_level: int,
        applied_index: int = 0,
        has_elector: bool = False,
    ) -> None:
        """
        Begin to join; nothing is ordered before the first turn.

        Args:
            log: Only what it says of itself is used here; the worker has it.
            journal: The cache.
            clock: The lease clock in seconds, which goes on while the machine is suspended.
            known_level: The newest level of the log's format that this broker knows.
            applied_index: What a checkpoint covers: not given out again.
            has_elector: Whether an elector is asked, whose answers come through `elector_said`.
        """
        self._state = LeasedState(
            claimant=claimant,
            settings=settings,
            lease_seconds=settings.lease_seconds or log.lease_seconds,
            is_fence=log.is_fence,
            commit_index=journal.last_index,
            taken_index=max(applied_index, journal.first_index - 1),
        )
        self._log = log
        self._journal = journal
        self._writer = writer
        self._worker = worker
        self._clock = clock
        self._randomness = randomness
        self._known_level = known_level
        if has_elector:
            patience = settings.elector_patience_seconds
            self._state.elections = Elections(claimant.holder, patience)
        self._reports: deque[Report] = deque()
        self._readings: deque[Reading] = deque()
        self._mending = Mending(self._state, journal, writer)
        self._room = CacheRoom(self._state, journal)
        journal.on_damage = self.report_damage
        for damage in journal.damage:
            if damage.index:
                self._state.damaged.add(damage.index)

    def stored(self, result: WrittenReport) -> None:
        """A writer reports, the worker's or the cache's; called on the loop thread."""
        if isinstance(result, Report):
            self._reports.append(result)
        elif result.failure is not None and self._state.failure is None:
            self._state.failure = result.failure

    def holder_is_gone(self, holder: str, *, is_here: bool = True) -> None:
        """
        The process of this holder is not there any more, as far as its machine tells.

        `is_here`: that is this machine. What another one seems to tell may come from whatever
        stands between, as a service that leads to nobody for a moment while the holder lives.
        """
        state = self._state
        still_seconds = 0.0 if is_here else GONE_BEATS * state.holders_beat_seconds
        if state.silence.is_gone(holder, self._clock(), still_seconds):
            logger.info("the holder's process is gone: its lease is not waited for")
            state.look_at = state.now

    def elector_said(self, reading: Reading) -> None:
        """The elector was asked; called on the loop thread."""
        self._readings.append(reading)

    def report_damage(self, index: int) -> None:
        """This entry of the cache is damaged: it is read again from the medium."""
        self._state.damaged.add(index)

    def propose(
        self,
        parts: list[bytes] | EntryBody,
        record_count: int,
        *,
        now: float,
        wall_microseconds: int,
    ) -> Entry:
        """
        Make one batch of records an entry; it is committed when `commit_index` reaches its index.

        Raises:
            NotLeaderError: This broker does not hold the lease, or is giving it back.
        """
        state = self._state
        if state.failure is not None:
            raise state.failure
        if state.phase is not Phase.HOLDING or state.is_giving_up:
            raise NotLeaderError(self.leader)
        entry = seal_body(
            parts,
            kind=KIND_RECORDS,
            term=state.epoch,
            record_count=record_count,
            **self._follows(wall_microseconds),
        )
        state.pending.append(entry)
        state.uncommitted_bytes += len(entry.raw)
        return entry

    def _follows(self, wall_microseconds: int) -> dict[str, Any]:
        """Where the next entry stands."""
        journal, last = self._journal, self._state.last_unstored
        if last is not None:
            return {
                "index": last.index + 1,
                "timestamp": max(last.timestamp + 1, wall_microseconds),
                "first_record": last.next_record,
                "previous_chain": last.chain,
            }
        return {
            "index": journal.last_index + 1,
            "timestamp": max(journal.last_timestamp + 1, wall_microseconds),
            "first_record": journal.next_record_number,
            "previous_chain": journal.last_chain,
        }

    def take_committed(self, bytes_max: int) -> list[Entry]:
        """
        Entries that became committed, in order; empty when there are no more.

        At least one entry if there is any, then up to about `bytes_max`.

        Raises:
            CorruptEntryError: The next entry is damaged in the cache; it is read again, try later.
        """
        state = self._state
        if state.taken_index >= state.commit_index:
            return []
        start = state.taken_index + 1
        try:
            entries = self._journal.entries(start, bytes_max)
        except CorruptEntryError:
            self.report_damage(start)
            raise
        state.taken_index = entries[-1].index
        return entries

    def transfer(self, to: str | None = None) -> str:
        """
        Give the lease back for others to take; returns to whom.

        Raises:
            NotLeaderError: This broker does not hold it.
            StoreError: Nobody else is there, or a certain one is asked for.
        """
        state = self._state
        if state.phase is not Phase.HOLDING:
            raise NotLeaderError(self.leader)
        others = [it.claimant.name for it in self.others() if self.is_there(it.claimant.name)]
        if to is not None:
            raise StoreError(
                "whoever waits takes the lease first: it cannot be handed to a certain broker; ask"
                " without a name"
            )
        if not others:
            raise StoreError(
                "no other broker waits for this log, and nobody would take the lease: start one"
            )
        if state.elections is not None and state.elections.trouble:
            raise StoreError(
                "the elector does not answer: whoever waits would take the lease after three leases"
                " only; hand over once it answers, or stop this broker if that is worth it"
            )
        state.is_giving_up = True
        return others[0] if len(others) == 1 else "whoever takes it first"

    def forget_broker(self, name: str) -> None:
        """
        Drop the line of a broker that is gone for good: nobody waits for what it knows any more.

        Raises:
            MembershipError: There is none of this name, or it is there.
        """
        company.forget(self._state, name, is_there=self.is_there(name))

    def turn(self, now: float) -> None:
        """
        Take up what was done, and order what is due.

        Raises:
            StoreError: The log cannot be gone on with; nothing may be claimed any more.
        """
        state = self._state
        state.now = self._clock()
        if state.failure is not None:
            raise self._final(state.failure)
        try:
            while self._reports:
                self._take_up(self._reports.popleft())
        except StoreError as error:
            raise self._final(error) from None
        if state.is_holder and state.now >= state.valid_until:
            tenure.step_down(state, "the lease ran out: the store did not answer in time")
        # After it: what the elector says now does not revive what had ended.
        while self._readings:
            tenure.heard(state, self._readings.popleft())
        if state.damaged or state.is_mending:
            self._mending.go_on()
        if self._room.is_out or state.is_closed:
            self._room.step(it for it in self.others() if self.is_there(it.claimant.name))
        if not state.is_busy:
            self._order()
        tenure.stand(state)
        if self._journal.tail.memory.bytes > self._journal.settings.tail_cache_bytes:
            self._journal.need_from(state.taken_index + 1)

    def _order(self) -> None:
        state, journal = self._state, self._journal
        if state.phase is Phase.HOLDING:
            # The entry before the first one kept stays: it says what that follows on.
            state.drop_to = journal.first_index - 1
        order: Order | None = tenure.claim(state)
        if order is None:
            order = ordering.next_order(
                state,
                journal.last_index,
                journal.last_chain if journal.last_index else bytes(16),
                known_level=self._known_level,
                is_room=journal.tail.memory.bytes < state.settings.unread_bytes_max,
            )
        if order is not None:
            state.is_busy = True
            self._worker.submit(order)

    def _take_up(self, report: Report) -> None:
        """Draw the consequences of one report."""
        state = self._state
        state.is_busy = False
        if isinstance(report.order, Project):
            self._projected(report)
            return
        is_refused = isinstance(report.error, AppendRefusedError)
        # Who gave it nothing that it could refuse cannot use it at all for want of room.
        is_unusable = is_refused and isinstance(report.order, Join | Look | Take | Fetch)
        if is_unusable or isinstance(report.error, UnreachableError):
            assert report.error is not None, "it says why"
            outages.put_off(state, report, report.error, self._randomness)
            return
        if isinstance(report.error, AppendRefusedError) and not isinstance(report.order, Tell):
            outages.is_over(state, report.order)
            tenure.refused(state, report.error, report.order)
            return
        if isinstance(report.order, Fetch) and isinstance(report.error, CorruptEntryError):
            self._mending.failed(report.order.index, report.error)
            return
        if report.error is not None and isinstance(report.order, Drop | Tell):
            self._leave_for_later(report.order, report.error)
            return
        if report.error is not None:
            raise report.error
        outages.is_over(state, report.order)
        state.left_undone.pop(type(report.order), None)
        match report.order:
            case Join():
                self._join(report)
            case Look():
                self._look(report)
            case Take():
                tenure.taken(state, report)
                if state.phase is Phase.CATCHING_UP:
                    self._serve_if_whole()
            case Store():
                self._are_stored(report)
            case Renew():
                tenure.renewed(state, report)
            case Release():
                tenure.released(state, self._randomness)
            case Drop(before):
                if not report.is_more:
                    state.first_there = before
            case Fetch(index):
                self._fetched(index, report)
            case Tell():
                company.told(state, report)

    def _final(self, error: StoreError) -> StoreError:
        """Nothing may be claimed any more."""
        self._state.failure = error
        tenure.step_down(self._state, str(error))
        return error

    def _leave_for_later(self, order: Drop | Tell, error: StoreError) -> None:
        """What only frees room, or is only told to the others, is no reason to end."""
        state, kind = self._state, type(order)
        if kind not in state.left_undone:
            logger.error("what the log does not need is left for later: %s", error)
        state.left_undone[kind] = Undone(str(error), state.now + LATER_SECONDS)

    def _join(self, report: Report) -> None:
        assert report.holding is not None
        state = self._state
        self._catch_up(report)
        state.phase = Phase.WAITING
        # What suits the medium is known once it was seen: NFS takes longer than a disk.
        state.lease_seconds = state.settings.lease_seconds or self._log.lease_seconds
        state.claimant = replace(state.claimant, lease_seconds=state.lease_seconds)
        state.look_at = state.now
        tenure.seen(state, report)
        state.said_gone = report.gone

    def _look(self, report: Report) -> None:
        state = self._state
        state.look_seconds_max = min(state.look_seconds_max, 2 * report.seconds)
        self._catch_up(report)
        tenure.seen(state, report)
        if state.said_gone and state.silent_seconds >= GONE_BEATS * state.holders_beat_seconds:
            self.holder_is_gone(state.said_gone)
            state.said_gone = ""
        pause = state.settings.look_seconds * self._randomness.uniform(0.8, 1.2)
        is_unread = report.is_more or report.is_other
        if not is_unread:
            state.read_at = report.began
        if state.sure_index < 0 and not is_unread:
            state.sure_index = self._journal.last_index
        state.look_at = state.now if is_unread else tenure.next_look(state, pause)
        if state.phase is Phase.CATCHING_UP:
            state.look_at = state.now
            self._serve_if_whole()

    def _catch_up(self, report: Report) -> None:
        catching_up.take(self._state, self._journal, self._writer, report)

    def _serve_if_whole(self) -> None:
        """Hold the lease in full once all that was there when it was taken is known here."""
        state, journal = self._state, self._journal
        holding = state.holding
        assert holding is not None
        end = holding.end if holding.epoch == state.epoch else None
        if end is None or journal.last_index < state.end_index:
            return
        if journal.last_index == end.index and (not end.index or journal.last_chain == end.chain):
            state.phase = Phase.HOLDING
            state.term_start = state.commit_index = journal.last_index
            state.sure_index = max(state.sure_index, state.term_start)
            logger.info("the lease is ours: epoch %d, %d entries", state.epoch, end.index)

    def _are_stored(self, report: Report) -> None:
        state = self._state
        if report.outcome is Outcome.DEPOSED:
            tenure.step_down(state, "another broker has taken the lease")
            return
        entries = state.in_flight
        if state.phase is not Phase.HOLDING or not entries:
            return  # Given up meanwhile: whoever reads the log finds them, as after any loss.
        if state.is_fence:
            tenure.renewed(state, report)
        elif self._clock() >= state.valid_until:
            tenure.step_down(state, "the lease ran out while an entry was being stored")
            return
        state.in_flight = []
        state.is_known_late = False
        state.refusal = ""
        count = bytes_of(entries)
        state.throughput.stored(count, report.seconds, state.now)
        state.uncommitted_bytes -= count
        self._writer.submit(self._journal.stage(entries))
        state.commit_index = entries[-1].index

    def _fetched(self, index: int, report: Report) -> None:
        state = self._state
        if report.is_other and index > state.taken_index and not state.is_holder:
            self._catch_up(report)  # It was dropped before it was given out: begun behind it.
        elif report.is_other:
            self._mending.failed(index, StoreError("the store has dropped it"))
        elif report.entries and report.entries[0].index == index:
            self._mending.fetched(report.entries[0])
        else:
            self._mending.failed(index, StoreError("the store has another one in its place"))

    def project(self, changes: Changes) -> None:
        """Have the medium show this, in a pause; only while `can_project`."""
        assert self.can_project, "nobody would write it"
        self._state.projecting.append(changes)

    def _projected(self, report: Report) -> None:
        """What is only shown ends nothing; a medium that is not reached is left alone a while."""
        state, error = self._state, report.error
        if error is None:
            outages.is_over(state, report.order)
            if report.outcome is Outcome.DEPOSED:
                tenure.renewed(state, report)
            state.projection_trouble = ""
            assert isinstance(report.order, Project), "it is what was ordered"
            if report.order.changes.keys_after is not None:
                state.shown_keys = tuple(report.keys)
            if state.projecting:
                state.projecting.popleft()
            return
        if isinstance(error, UnreachableError):
            outages.put_off(state, report, error, self._randomness)
        else:
            tenure.forget_projection(state)
            if state.projection_trouble != str(error):
                logger.warning("what the store shows is not up to date: %s", error)
            state.projection_trouble = str(error)

    def end(self) -> None:
        """The process ends: nothing is proposed or dispatched from now on."""
        tenure.step_down(self._state, "")
        self._state.rests_until = ALWAYS
