"""
The cleaner at work: on the leader, a little at each tick.

While too much of the log is dead, it goes through the oldest segment, puts what still lives into
the gathering batch, and at the end says that the segment may go. Once that is committed every node
drops the segment. The pace is bounded in bytes per second; traffic goes first.

Each step looks at a bounded number of records, queues and producers, and at fewer where the time
for it is over before: neither a step nor the entry that comes of it grows with what the broker
holds.

Whether cleaning pays is a sum over all segments and queues, so after a no it is asked again only
when a segment came or went, when space became low, or after a pause. What a sum says is an
estimate. So it is also measured: a round over the whole log that freed next to nothing is not begun
again before another segment's worth has died.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.cleaning import (
    holds_to_come,
    homeless,
    is_kept,
    kept_bytes,
    live_copies,
    on_the_way,
)
from holdfast.broker.errands import IsSpent
from holdfast.broker.forgetting import ProducerLimit
from holdfast.errors import CorruptEntryError, MembershipError, NotLeaderError
from holdfast.model.limits import KiB, MiB
from holdfast.model.records import CleanedRecord, HoldLoss, HoldRecord, MessageRecord, Record
from holdfast.server.damaged_entries import DamagedEntries
from holdfast.server.learner_holds import LearnerHolds
from holdfast.server.moved_contents import MovedContents
from holdfast.server.reader_holds import ReaderHolds, told_left_behind, why_it_goes
from holdfast.server.settings import ServerSettings
from holdfast.server.storable import NotStorableNowError, Patience, pieces
from holdfast.store.contract import LogStore
from holdfast.store.record_codec import encode_records

log = structlog.get_logger("holdfast.server")

_DEAD_RATIO_LOW = 0.1
"""While space is low, a log with more than this share dead is cleaned."""
_GAIN_MIN = 0.05
"""A round that frees less than this share of what it went through was in vain."""
_SCAN_BYTES_PER_STEP = 4 * MiB
_COPIED_BYTES_PER_STEP = MiB
_RECORDS_PER_STEP = 2_000
_RECORDS_AT_ONCE = 100
_BYTES_AT_ONCE = 256 * KiB
"""So much is done at least in each step, of however many entries: else cleaning falls behind."""
_PIECES_PER_STEP = 4
_GATHERED_SHARE = 8
"""Of the largest message that the store takes now, so much may stand in a batch that gathers."""
_LIMIT_STEPS = 10
_HOMELESS_PER_STEP = 500
_SETTLING_MAX = 128 * KiB
"""While more acknowledged messages are on their way to the log, the cleaner waits: it would have to
look through all of them, in up to 3 ms."""


def _never() -> bool:
    return False


class Cleaner:
    """Progress through the oldest segment."""

    def __init__(self, broker: Broker, store: LogStore, settings: ServerSettings) -> None:
        self.broker = broker
        self.store = store
        self.settings = settings
        self.producer_limit = ProducerLimit(broker)
        self.next_index = 0
        """The next entry to look at; 0 while idle."""
        self.through_index = 0
        self.through_record = 0
        self.records: Iterator[tuple[int, Record]] | None = None
        """What is left of the entry `next_index`, with record numbers."""
        self.timestamp = 0
        """Of that entry."""
        self.moved: MovedContents | None = None
        """What is left of what was moved, before that."""
        self.homeless: Iterator[list[Record]] | None = None
        """What is left to carry on before the segment may go."""
        self.learner_holds = LearnerHolds(broker, store, settings)
        self.reader_holds = ReaderHolds(broker, settings)
        self._given_up_through = self._given_up_record = 0
        """The last entry and record of which this leadership has said that they may go."""
        self._is_full = False
        """Whether publishing was refused for want of room when this segment was begun."""
        self.budget_bytes = 0.0
        self.refilled_at = 0.0
        self.damage = DamagedEntries(broker, store)
        self.damaged_index = 0
        """The damaged entry that was last in the way."""
        self.stuck_at = 0
        """The first index of a segment that cannot be cleaned, because of that."""
        self.stuck_until = 0.0
        """When it is looked at again, if it is not repaired before."""
        self.patience = Patience()
        """With a segment in which something is larger than the store takes now."""
        self.look_again_at = 0.0
        """There was nothing to do: not before then again, if the log has the same segments."""
        self.seen_log = (0, 0, False)
        """First entry, last sealed entry and whether space was low, at the last look."""
        self.rewritten_bytes = 0
        """What all rounds have written, as it stands in the log."""
        self.round_through = 0
        """The last entry sealed when this round over the log began."""
        self.round_read_bytes = 0
        self.round_written_bytes = 0
        self.is_shared = False
        """More bytes lived than the log has: several queues have the same ones."""
        self.round_counts: tuple[int, int] | None = None
        """Messages put, and living, when the last round was over; None before one was."""
        self.rests_until_dead_bytes = 0
        """The last round was in vain: none before so much of the log is dead; 0 if it was not."""
        self.is_log_full = False
        """Space is low, and cleaning can free nothing: what lives does not fit."""

    def stop(self) -> None:
        """Forget what was under way."""
        self._given_up_through = self._given_up_record = 0
        self._leave()
        self.stuck_at = 0
        self.damage.forget()
        self.look_again_at = 0.0
        self.round_through = self.rests_until_dead_bytes = 0
        self.round_counts = None
        self.is_shared = False
        self.is_log_full = False
        self.producer_limit.stop()
        self.reader_holds.stop()

    @property
    def leaving_through(self) -> int:
        """The last entry that is to go, or gone: no hold can be set before it any more."""
        return max(self._given_up_through, self.broker.state.cleaned_through)

    def step(self, now: float, is_spent: IsSpent = _never) -> None:
        """Do a bounded piece of work, if there is any; a smaller one where the time is over."""
        rate = self.settings.clean_bytes_per_second
        self.budget_bytes = min(rate / 4, self.budget_bytes + rate * (now - self.refilled_at))
        self.refilled_at = now
        is_busy = (
            self.broker.receipts.uncommitted_bytes > self.settings.uncommitted_bytes_max // 2
            or self.broker.receipts.settling_count() > _SETTLING_MAX
        )
        if not is_busy:
            self._limit_producers(is_spent)
            self.learner_holds.step(now)
            self.reader_holds.step(now)
        if 0 < self.next_index < self.store.first_index:
            # A record of an earlier leadership has let it go while it was read.
            self._leave()
            self.damage.forget()
        if (not self.next_index and not self._look(now)) or is_busy:
            return
        try:
            if self.damage.is_looking:
                self._pass_damage(now)
            else:
                self._advance(is_spent)
        except NotStorableNowError as error:
            self.patience.wait(self.store.first_index, now, error)
            self._leave()
        except CorruptEntryError as error:
            self.store.report_damage(error)
            # What was moved is read from any entry, maybe one that is far behind the segment.
            self.damaged_index = self.next_index if self.moved is None else error.index
            if not self.damage.begin(self.damaged_index):
                self._is_stuck(now)

    def _limit_producers(self, is_spent: IsSpent) -> None:
        for _ in range(_LIMIT_STEPS):
            self.producer_limit.step()
            if not self.producer_limit.is_under_way or is_spent():
                return

    def _pass_damage(self, now: float) -> None:
        """Go on behind damaged entries, if nothing in them lives."""
        passed = self.damage.step()
        if passed is not None and self.moved is not None:
            # What was read with it was left out: the segment is begun anew.
            self._leave()
        elif passed is not None:
            self.next_index, next_record = passed
            self.through_record = max(self.through_record, next_record - 1)
        elif not self.damage.is_looking:
            self._is_stuck(now)

    def _is_stuck(self, now: float) -> None:
        self.stuck_at = self.store.first_index
        self.stuck_until = now + self.settings.damage_look_seconds
        self._leave()

    def _leave(self) -> None:
        """Forget the segment that is being gone through."""
        self.next_index = self.through_index = 0
        self.records = self.homeless = self.moved = None
        self.broker.moving.closed_through = self._given_up_record

    def _look(self, now: float) -> bool:
        """Start with a segment if it is time to look for one, and cleaning pays."""
        store = self.store
        is_low = store.is_space_low(now)
        seen_log = (store.first_index, store.sealed_through, is_low)
        if now < self.look_again_at and seen_log == self.seen_log:
            return False
        if self._start(is_low=is_low):
            return True
        self.seen_log = seen_log
        self.look_again_at = now + self.settings.clean_look_seconds
        return False

    def _start(self, *, is_low: bool) -> bool:
        """Choose the oldest segment, if cleaning pays; where space is low, little is enough."""
        kept_count = 0 if is_low else self.settings.clean_segment_count_min
        sealed_count = self.store.sealed_count
        pays = self._pays(kept_count, is_low=is_low)
        is_full = is_low and self.store.is_full(self.refilled_at)
        self._tell_whether_full(is_full=is_full and not pays)
        if not pays or sealed_count <= kept_count:
            return False
        oldest = self.store.oldest_segment()
        is_stuck = oldest.base_index == self.stuck_at and self.refilled_at < self.stuck_until
        if is_stuck and self.store.is_damaged_entry(self.damaged_index):
            return False
        if self.patience.is_waiting(oldest.base_index, self.refilled_at):
            return False
        if oldest.base_index <= self.through_index:
            return False  # Written again already; it goes when that is committed.
        if oldest.last_index > self.store.applied_index:
            return False
        if self._is_held(oldest.last_index, is_full=is_full):
            return False
        if self.round_through < oldest.base_index:
            self.round_through = self.store.sealed_through
            self.round_read_bytes = self.round_written_bytes = 0
        self._is_full = is_full
        self.next_index = oldest.base_index
        self.through_index = oldest.last_index
        return True

    def _pays(self, kept_count: int, *, is_low: bool) -> bool:
        """Whether so much of the log is dead that going through it frees something."""
        live_bytes = kept_bytes(self.broker.state)
        log_bytes = self.store.log_bytes
        dead_ratio = _DEAD_RATIO_LOW if is_low else self.settings.clean_dead_ratio
        self.is_shared = self.is_shared or live_bytes > log_bytes
        if self.is_shared:
            return self._pays_by_count(dead_ratio)
        if log_bytes - live_bytes < self.rests_until_dead_bytes:
            return False
        kept = kept_count * self.store.segment_bytes
        return log_bytes > live_bytes / (1 - dead_ratio) + kept

    def _pays_by_count(self, dead_ratio: float) -> bool:
        """
        The same where more bytes lived than there were: what several queues have of one message
        counts for each of them. So nobody knows what lives but who has gone through all of it;
        since then so many of the messages that there were, or came, were settled.
        """
        state = self.broker.state
        if self.round_counts is None:
            return True
        put, live = self.round_counts
        there_were = live + state.put_count - put
        return there_were - state.live_count() > dead_ratio * there_were

    def _tell_whether_full(self, *, is_full: bool) -> None:
        if is_full and not self.is_log_full:
            log.error(
                "the disk is full of what lives: cleaning can free nothing; acknowledge or purge"
                " messages, or give it more room",
                log_bytes=self.store.log_bytes,
                live_bytes=min(self.store.log_bytes, kept_bytes(self.broker.state)),
            )
        self.is_log_full = is_full

    def _is_held(self, last_index: int, *, is_full: bool) -> bool:
        """
        Whether a named reader has not taken the segment that ends here, and may still have it.

        A reader whose bound is reached, or any where the disk is almost full, is left behind, and
        the log says so for good: only if no other reader keeps what it has not taken.
        """
        leaving: list[tuple[HoldRecord, HoldLoss]] = []
        known = holds_to_come(self.broker).values()
        holds = [hold for hold in known if hold.index <= last_index]
        for hold in holds:
            held_bytes = self.store.bytes_from(hold.index)
            loss = why_it_goes(hold, held_bytes, self.settings, is_space_low=is_full)
            if loss is HoldLoss.NONE:
                return True
            leaving.append((hold, loss))
        self.broker.receipts.add_records(
            [told_left_behind(hold, loss, last_index) for hold, loss in leaving]
        )
        return False

    def _advance(self, is_spent: IsSpent) -> None:
        read_bytes = 0
        looked_at = 0
        while self.next_index <= self.through_index:
            if self.budget_bytes <= 0 or looked_at >= _RECORDS_PER_STEP:
                return
            if self.records is None:
                if read_bytes > _SCAN_BYTES_PER_STEP:
                    return
                entry = self.store.entry(self.next_index)
                read_bytes += entry.body_length
                self.round_read_bytes += entry.bytes_in_log
                self.timestamp = entry.timestamp
                self.through_record = entry.first_record + entry.record_count - 1
                records = self.store.decode(entry, with_content=True) if entry.record_count else ()
                self.records = enumerate(records, entry.first_record)
            count_max = _RECORDS_PER_STEP - looked_at
            looked_at += self._write_again(self.records, count_max, is_spent)
            if self.records is not None:
                return
            self.next_index += 1
            is_much = looked_at >= _RECORDS_AT_ONCE or read_bytes >= _BYTES_AT_ONCE
            if is_much and is_spent():
                return
        self._finish(is_spent)

    def _write_again(
        self, records: Iterator[tuple[int, Record]], count_max: int, is_spent: IsSpent
    ) -> int:
        """Put what lives of the next records into the batch; give how many were looked at."""
        kept: list[tuple[int, MessageRecord]] = []
        found_bytes = looked_at = 0
        for number, record in records:
            looked_at += 1
            if type(record) is MessageRecord and is_kept(self.broker, record, number, {}):
                kept.append((number, record))
                found_bytes += record.size
            if looked_at >= count_max or found_bytes >= _COPIED_BYTES_PER_STEP:
                break
            if not looked_at % _RECORDS_AT_ONCE and is_spent():
                break
        else:
            self.records = None
        if kept:
            self._add(self._copies(kept))
        return looked_at

    def _copies(self, kept: list[tuple[int, MessageRecord]]) -> list[Record]:
        """Give these messages to be written again, without those that are about to leave."""
        wanted: dict[int, set[int]] = {}
        for _, record in kept:
            for queue_number, sequence in record.places:
                wanted.setdefault(queue_number, set()).add(sequence)
        under_way = on_the_way(self.broker, wanted)
        return [
            copy
            for number, record in kept
            for copy in live_copies(self.broker, record, number, self.timestamp, under_way)
        ]

    def _add(self, records: list[Record]) -> None:
        receipts = self.broker.receipts
        bytes_max = receipts.message_bytes_max
        for piece, size in pieces(records, bytes_max):
            if bytes_max and not receipts.batch.has_room(size, bytes_max):
                receipts.close_batch()
            # They may be alone in their entry.
            in_log = self.store.entry_bytes(sum(map(len, encode_records(piece))))
            self.budget_bytes -= in_log
            self.rewritten_bytes += in_log
            self.round_written_bytes += in_log
            receipts.add_records(piece)
            if bytes_max and receipts.batch.size_bytes > bytes_max // _GATHERED_SHARE:
                receipts.close_batch()  # A client's message on top of it would be too much.

    def _finish(self, is_spent: IsSpent) -> None:
        """Carry on what was moved or has its home in the segment, in pieces; then let it go."""
        if self.moved is None:
            self.moved = MovedContents(self.broker, self.store, self.through_record)
        while self.homeless is None:
            if self.budget_bytes <= 0:
                return
            copies = self.moved.step(is_spent)
            if copies is None:
                break
            self._add([*copies])
            if not copies or is_spent():
                return
        if self.homeless is None:
            timestamp = self.broker.state.timestamp
            self.homeless = homeless(self.broker, self.through_record, timestamp)
        count = 0
        for _ in range(_PIECES_PER_STEP):
            piece = next(self.homeless, None)
            if piece is None:
                break
            self._add(piece)
            count += len(piece)
            if count >= _HOMELESS_PER_STEP or is_spent():
                return
        else:
            return
        if self._is_held(self.through_index, is_full=self._is_full):
            # A reader has asked for it since it was begun.
            self._leave()
            self.round_through = 0
            return
        try:
            self.store.keep_membership(self.through_index)
        except (MembershipError, NotLeaderError):
            return  # Members change or the lead moves: the next step tries again.
        self._add([CleanedRecord(self.through_index)])
        self._given_up_through = self.through_index
        self.damage.forget()
        self.next_index = 0
        self.homeless = self.moved = None
        # What still lives there is leaving: a copy of it would stand without its bytes.
        self.broker.moving.closed_through = self._given_up_record = self.through_record
        if self.through_index >= self.round_through:
            self._end_round()

    def _end_round(self) -> None:
        """Rest if going through the whole log freed next to nothing of it."""
        self.round_through = 0
        self.rests_until_dead_bytes = 0
        self.round_counts = self.broker.state.put_count, self.broker.state.live_count()
        freed_bytes = self.round_read_bytes - self.round_written_bytes
        if freed_bytes < _GAIN_MIN * self.round_read_bytes:
            dead_bytes = self.store.log_bytes - kept_bytes(self.broker.state)
            self.rests_until_dead_bytes = dead_bytes + self.store.segment_bytes
