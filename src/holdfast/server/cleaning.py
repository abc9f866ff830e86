"""
The cleaner at work: on the leader, a little at each tick.

While too much of the log is dead, it goes through the oldest segment entry by entry, puts what
still lives into the gathering batch, and at the end says that the segment may go. Once that is
committed every node drops the segment. The pace is bounded in bytes per second; traffic goes first.

Whether cleaning pays is a sum over all segments and queues, so after a no it is asked again only
when a segment came or went, when space became low, or after a pause.
"""

from __future__ import annotations

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.cleaning import homeless, is_kept, live_copy, settling
from holdfast.errors import CorruptEntryError, MembershipError, NotLeaderError
from holdfast.journal.entry import Entry
from holdfast.model.limits import MiB
from holdfast.model.records import (
    MESSAGE_OVERHEAD_BYTES,
    CleanedRecord,
    HoldRecord,
    MessageRecord,
    Record,
)
from holdfast.server.settings import ServerSettings
from holdfast.store.replicated_store import ReplicatedStore

log = structlog.get_logger("holdfast.server")

_DEAD_RATIO_LOW = 0.1
"""While space is low, a log with more than this share dead is cleaned."""
_SCAN_BYTES_PER_STEP = 4 * MiB


class Cleaner:
    """Progress through the oldest segment."""

    def __init__(self, broker: Broker, store: ReplicatedStore, settings: ServerSettings) -> None:
        self.broker = broker
        self.store = store
        self.settings = settings
        self.next_index = 0
        """The next entry to look at; 0 while idle."""
        self.through_index = 0
        self.through_record = 0
        self.budget_bytes = 0.0
        self.refilled_at = 0.0
        self.stuck_at = 0
        """The first index of a segment that cannot be cleaned, because it is damaged."""
        self.look_again_at = 0.0
        """There was nothing to do: not before then again, if the log has the same segments."""
        self.seen_log = (0, 0, False)
        """First entry, last sealed entry and whether space was low, at the last look."""
        self.rewritten_bytes = 0

    def stop(self) -> None:
        """Forget what was under way."""
        self.next_index = 0
        self.through_index = 0
        self.stuck_at = 0
        self.look_again_at = 0.0

    def step(self, now: float) -> None:
        """Do a bounded piece of work, if there is any."""
        rate = self.settings.clean_bytes_per_second
        self.budget_bytes = min(rate / 4, self.budget_bytes + rate * (now - self.refilled_at))
        self.refilled_at = now
        if not self.next_index and not self._look(now):
            return
        if self.broker.uncommitted_bytes > self.settings.uncommitted_bytes_max // 2:
            return
        try:
            self._advance()
        except CorruptEntryError as error:
            self.stuck_at = self.store.first_index
            self.next_index = self.through_index = 0
            self.store.report_damage(error)

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
        dead_ratio = _DEAD_RATIO_LOW if is_low else self.settings.clean_dead_ratio
        sealed = self.store.sealed_segments()
        if len(sealed) <= kept_count:
            return False
        oldest = sealed[0]
        if oldest.base_index == self.stuck_at and self.store.is_damaged(oldest.base_index):
            return False
        if oldest.base_index <= self.through_index:
            return False  # Written again already; it goes when that is committed.
        state = self.broker.state
        live_bytes = state.live_bytes() + state.live_count() * MESSAGE_OVERHEAD_BYTES
        kept_bytes = kept_count * self.store.segment_bytes
        if self.store.log_bytes <= live_bytes / (1 - dead_ratio) + kept_bytes:
            return False
        if oldest.last_index > self.store.applied_index or self._is_held(oldest.last_index):
            return False
        self.next_index = oldest.base_index
        self.through_index = oldest.last_index
        return True

    def _is_held(self, last_index: int) -> bool:
        """
        Whether a named reader has not taken the segment that ends here, and may still have it.

        A reader whose bound is reached is left behind, and the log says so for good.
        """
        for hold in list(self.broker.state.holds.values()):
            if hold.index > last_index:
                continue
            if self.store.bytes_from(hold.index) <= hold.bytes_max:
                return True
            log.error(
                "a reader of the log is left behind: its bound is reached",
                hold=hold.name,
                bytes_max=hold.bytes_max,
                lost_through=last_index,
            )
            self.broker.add_records(
                [HoldRecord(hold.name, last_index + 1, hold.bytes_max, last_index)]
            )
        return False

    def _advance(self) -> None:
        scanned = 0
        leaving = settling(self.broker)
        while self.next_index <= self.through_index:
            if self.budget_bytes <= 0 or scanned > _SCAN_BYTES_PER_STEP:
                return
            entry = self.store.entry(self.next_index)
            scanned += entry.body_length
            if entry.record_count:
                self._write_again(entry, leaving)
            self.through_record = entry.first_record + entry.record_count - 1
            self.next_index += 1
        self._finish()

    def _write_again(self, entry: Entry, leaving: dict[int, set[int]]) -> None:
        """Put what lives of an entry into the batch; mostly nothing, so look before reading it."""
        if not any(
            type(record) is MessageRecord and is_kept(self.broker, record, number, leaving)
            for number, record in enumerate(self.store.decode(entry), entry.first_record)
        ):
            return
        records: list[Record] = []
        for number, record in enumerate(
            self.store.decode(entry, with_content=True), entry.first_record
        ):
            if type(record) is not MessageRecord:
                continue
            copy = live_copy(self.broker, record, number, entry.timestamp, leaving)
            if copy is not None:
                records.append(copy)
                self.budget_bytes -= copy.size
                self.rewritten_bytes += copy.size
        self.broker.add_records(records)

    def _finish(self) -> None:
        try:
            self.store.keep_membership(self.through_index)
        except (MembershipError, NotLeaderError):
            return  # Members change or the lead moves: the next step tries again.
        state = self.broker.state
        records = homeless(self.broker, self.through_record, state.timestamp)
        records.append(CleanedRecord(self.through_index))
        self.broker.add_records(records)
        self.next_index = 0
