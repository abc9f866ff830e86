"""
The store of every node: records in, committed entries out, messages read back.

A thin face over a driver and the journal, so that the loop sees one thing. The driver keeps the log
with a quorum, of which a single node is the case with one voter, or on a medium that several
brokers reach, of which the journal is the cache then. Everything runs on the loop's thread; the
writers' threads do the waiting.

Invariants:
    What `take_committed` gives is kept as the driver keeps it, and is never given twice.
    Segments are dropped only when the record that allows it is durable here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from holdfast.errors import CorruptEntryError, RecordNotFoundError
from holdfast.journal.entry import Entry, entry_bytes
from holdfast.journal.entry_body import EntryBody
from holdfast.journal.journal import Journal
from holdfast.journal.record import RecordPlaces
from holdfast.journal.segment import SegmentStatistics
from holdfast.model.numbering import Numbering
from holdfast.model.records import MessageRecord, MoveRecord, Record
from holdfast.store.contract import BatchBody, CommittedEntry, WriteReport
from holdfast.store.log_driver import LogDriver
from holdfast.store.move_codec import decode_move
from holdfast.store.record_codec import (
    MESSAGE,
    MOVE,
    decode_message,
    decode_records,
    encode_records,
)
from holdfast.store.topic_codec import FLAG_OF_TOPIC, decode_of_topic

_PLACES_MAX: Final = 2_000_000
"""Records whose place in their entry is remembered, four bytes each."""


class ReplicatedStore:
    """One node's view of the log that its cluster keeps."""

    def __init__(self, driver: LogDriver, journal: Journal) -> None:
        self.driver = driver
        self.journal = journal
        self.log_epoch = driver.log_epoch
        """Counts how often the log was begun anew from a leader's, as the broker knows it."""
        self._proposed_index = 0
        self._drop: tuple[int, int] | None = None
        """Up to which index to drop, and which index must be durable here first."""
        self._cleaned_through = 0
        self._applied_index = driver.taken_index
        self._entry: Entry | None = None
        """The entry read last, and its body."""
        self._body = memoryview(b"")
        self._places: RecordPlaces | None = None
        """Where its records stand."""
        self._before: tuple[Entry, memoryview, RecordPlaces] | None = None
        """The same of the entry read before it: what was moved is read from two in turns."""
        self._places_of: dict[int, RecordPlaces] = {}
        """The same for entries read lately, by index, the latest last."""
        self._places_known = self._places_count = 0
        """How many records were known of the entry read last then, and of all together."""

    def append(
        self,
        records: list[Record],
        now: float,
        wall_microseconds: int,
        body: BatchBody | None = None,
    ) -> int:
        """
        Propose records as one entry and give its index.

        Args:
            body: The same records, encoded already; see sealing.py.

        Raises:
            NotLeaderError: This node does not lead any more.
        """
        assert body is None or isinstance(body, EntryBody), "it is one of our own"
        entry = self.driver.propose(
            encode_records(records) if body is None else body,
            len(records),
            now=now,
            wall_microseconds=wall_microseconds,
        )
        self._proposed_index = entry.index
        return entry.index

    @staticmethod
    def new_body(bytes_expected: int) -> EntryBody:
        """Give an empty body for one entry."""
        return EntryBody(bytes_expected)

    @property
    def is_writing(self) -> bool:
        """
        Whether what was proposed last is still on its way: to this node's disk and to a quorum's.

        Whichever is done first lets the next batch go, so a disk that hangs here stops nobody,
        until so much has piled up behind it that it sets the pace again.
        """
        return self.driver.is_writing(self._proposed_index)

    def stored(self, result: WriteReport) -> None:
        """Take the writer's word."""
        self.driver.stored(result)

    def turn(self, now: float) -> None:
        """Let the driver persist, send and commit; drop what may go."""
        self.driver.turn(now)
        if self._drop is not None and self.journal.stored_index >= self._drop[1]:
            through = min(self._drop[0], self.driver.reclaim_limit - 1)
            if through >= self._drop[0]:
                self._drop = None
            self.journal.drop_before(through + 1)

    def is_space_low(self, now: float) -> bool:
        """Whether a disk has so little room left that the log is cleaned harder."""
        return self.journal.space_state(now) == "low" or self.driver.refusal() != ""

    def is_full(self, now: float) -> bool:
        """
        Whether the log's own place is so full that only acknowledgements are taken.

        A journal that only copies what is kept elsewhere is not that place, however full its disk.
        """
        if self.driver.refusal():
            return True
        is_low = self.journal.space_state(now) == "low"  # Which looks, now and then.
        return self.journal.space_watch.is_log_over if self.driver.is_journal_a_copy else is_low

    @property
    def message_bytes_max(self) -> int:
        """The most that one message may have so that it can be stored; 0: any."""
        return self.driver.message_bytes_max

    @property
    def batch_bytes_max(self) -> int:
        """The most that is to be gathered into one entry, so that it is stored in time; 0: any."""
        return self.driver.batch_bytes_max

    def refusal(self, now: float) -> str | None:
        """Say why publishing is refused now, None if it is not."""
        reason = self.driver.refusal()
        if reason:
            return reason
        if not self.is_full(now):
            return self.driver.cache_refusal or None
        if self.driver.is_journal_a_copy or self.journal.space_watch.is_over_limit:
            return (
                f"the log has {self.log_bytes:,} bytes, at most"
                f" {self.journal.settings.log_bytes_max:,} (log_bytes_max): publishing is refused"
                f" until there is room again; acknowledging goes on"
            )
        return (
            "the disk is almost full: publishing is refused until there is room again;"
            " acknowledging goes on"
        )

    def has_committed(self) -> bool:
        """Whether there are committed entries to apply."""
        return self.driver.has_committed

    @property
    def applied_index(self) -> int:
        """The last entry that the broker has applied whole."""
        return self._applied_index

    @property
    def is_applying(self) -> bool:
        """Whether the broker has begun with an entry and not ended."""
        return self._applied_index != self.driver.taken_index

    @property
    def is_applied_whole(self) -> bool:
        """Whether the broker was given all there is in the log, committed or not."""
        return self._applied_index >= self.journal.last_index

    @property
    def is_sure(self) -> bool:
        """
        Whether the broker was given all that was committed before this process began.

        What is newer it may lack; what it does not know then, it was never told in this life.
        """
        return 0 <= self.driver.sure_index <= self._applied_index

    def is_begun_anew(self) -> bool:
        """
        Whether the log was thrown away and begun anew, so that all state must be as well.

        Says so once. Happens to a replica that was too far behind what the leader still keeps.
        """
        if self.log_epoch == self.driver.log_epoch:
            return False
        self.log_epoch = self.driver.log_epoch
        self._forget_places()
        self._applied_index = self.journal.first_index - 1
        self._cleaned_through = 0
        self._drop = None
        return True

    def take_committed(self, bytes_max: int) -> list[Entry]:
        """
        Give committed entries in order, at most about so many bytes but at least one.

        Raises:
            CorruptEntryError: The next one is damaged here; a peer is asked for its copy.
        """
        return self.driver.take_committed(bytes_max)

    def applied(self, entry: CommittedEntry, cleaned_through: int) -> None:
        """Note that the broker has applied an entry, and up to where nothing lives any more."""
        self._applied_index = entry.index
        if cleaned_through > self._cleaned_through:
            self._cleaned_through = cleaned_through
            if cleaned_through >= self.journal.first_index:
                self._drop = (cleaned_through, entry.index)

    @staticmethod
    def decode(entry: CommittedEntry, *, with_content: bool = False) -> Iterator[Record]:
        """Give the records of an entry."""
        return decode_records(entry.body, with_content=with_content)

    @property
    def is_serving(self) -> bool:
        """Whether this node leads and may accept clients."""
        return self.driver.is_serving

    @property
    def is_handing_over(self) -> bool:
        """Whether this node leads and is giving the lead away; it may yet be given up."""
        return self.driver.is_handing_over

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, also while it does not serve yet or hands over."""
        return self.driver.is_leader

    @property
    def term(self) -> int:
        """The current term."""
        return self.driver.term

    @property
    def farewell(self) -> str:
        """What clients are told where the lead ended and no other is known; empty if nothing."""
        return self.driver.farewell

    @property
    def promotion(self) -> str:
        """By which promotion by force this cluster goes on: generation and time; empty if none."""
        return self.driver.promotion

    @property
    def format_level_of_all(self) -> int:
        """The newest level of the log's format that every member has told it knows."""
        return self.driver.format_level_of_all

    def tell_format_level(self, level: int) -> None:
        """Let the others know which level our log has reached."""
        self.driver.tell_format_level(level)

    @property
    def numbering(self) -> Numbering:
        """Where queues' numbers begin while this node leads."""
        return self.driver.numbering

    def may_dispatch(self, now: float) -> bool:
        """Whether this node is certain to be the only leader now."""
        return self.driver.may_dispatch(now)

    def holds_lease(self, now: float) -> bool:
        """Whether no other leader can be elected for a while yet."""
        return self.driver.holds_lease(now)

    def is_lease_awaited(self, now: float) -> bool:
        """Whether a leader before this one may still dispatch."""
        return self.driver.is_lease_awaited(now)

    def read(self, record_number: int) -> MessageRecord:
        """
        Read a message from the log.

        Raises:
            CorruptEntryError: Its entry is damaged; the place is in the error.
            RecordNotFoundError: There is no such message.
        """
        kind, flags, start, end = self._find(record_number)
        if kind != MESSAGE:
            raise RecordNotFoundError(f"record {record_number:,} is not a message")
        return decode_message(self._body, flags, start, end)

    def entry_index(self, record_number: int) -> int:
        """
        Give the entry that has a record; at no cost where it was just read.

        Raises:
            CorruptEntryError: It is damaged.
            RecordNotFoundError: There is no such record.
        """
        before = None if self._before is None else self._before[0]
        for entry in (self._entry, before):
            if entry is not None and entry.first_record <= record_number < entry.next_record:
                return entry.index
        return self._load(record_number).index

    def read_move(self, record_number: int) -> MoveRecord:
        """
        Read what moved messages.

        Raises:
            CorruptEntryError: Its entry is damaged; the place is in the error.
            RecordNotFoundError: There is no such record.
        """
        kind, flags, start, end = self._find(record_number)
        if kind != MOVE:
            raise RecordNotFoundError(f"record {record_number:,} moves no messages")
        payload = bytes(self._body[start:end])
        if flags & FLAG_OF_TOPIC:
            return cast("MoveRecord", decode_of_topic(decode_move, payload))
        return decode_move(payload)

    def _find(self, record_number: int) -> tuple[int, int, int, int]:
        """Give type, flags, start and end of a record, in the body that is at hand then."""
        entry = self._entry
        if entry is None or not entry.first_record <= record_number < entry.next_record:
            entry = self._other(record_number) or self._load(record_number)
        places = self._places
        assert places is not None, "found with the entry"
        return places.find(self._body, record_number - entry.first_record)

    def _other(self, record_number: int) -> Entry | None:
        """Take the entry before the last at hand again, if it has this record."""
        before = self._before
        if before is None or not before[0].first_record <= record_number < before[0].next_record:
            return None
        self._keep_last()
        self._entry, self._body, self._places = before
        self._places_known = len(self._places)
        return self._entry

    def _keep_last(self) -> None:
        """Put the entry at hand aside."""
        if self._places is not None:
            self._places_count += len(self._places) - self._places_known
            self._places_known = len(self._places)
        if self._entry is not None and self._places is not None:
            self._before = (self._entry, self._body, self._places)

    def _load(self, record_number: int) -> Entry:
        """Keep the entry of a record at hand: a backlog is read in order."""
        self._keep_last()
        entry, _ = self.journal.locate_record(record_number)
        known = self._places_of
        places = known.pop(entry.index, None)
        if places is None:
            places = RecordPlaces()
        known[entry.index] = places
        while self._places_count > _PLACES_MAX and len(known) > 1:
            self._places_count -= len(known.pop(next(iter(known))))
        self._entry, self._body = entry, entry.body
        self._places, self._places_known = places, len(places)
        return entry

    def _forget_places(self) -> None:
        self._entry = self._places = self._before = None
        self._body = memoryview(b"")
        self._places_of.clear()
        self._places_known = self._places_count = 0

    def entry(self, index: int) -> Entry:
        """
        Give an entry.

        Raises:
            CorruptEntryError: It is damaged.
        """
        return self.journal.entry(index)

    @property
    def first_index(self) -> int:
        """The first entry that is kept."""
        return self.journal.first_index

    @property
    def log_bytes(self) -> int:
        """Bytes of the entries that are kept; what is empty in segments does not count."""
        return self.journal.table.content_bytes

    def learner_matches(self) -> dict[str, int]:
        """On the leader: through which entry each learner holds the log; 0 if not known."""
        return self.driver.learner_matches()

    def segment_base(self, index: int) -> int:
        """The first entry of the segment that holds `index`, or of the oldest or newest one."""
        return self.journal.table.base_of(index)

    def bytes_from(self, index: int) -> int:
        """The bytes of the segments that hold this entry or later ones."""
        return self.journal.table.bytes_from(index)

    @staticmethod
    def entry_bytes(body_length: int) -> int:
        """What an entry takes of the log that has records of so many bytes."""
        return entry_bytes(body_length)

    @property
    def segment_bytes(self) -> int:
        """Bytes of a full segment."""
        return self.journal.settings.segment_bytes

    @property
    def last_segment_base(self) -> int:
        """The first index of the segment that is being written."""
        return self.journal.last_base

    def place_of(self, index: int) -> tuple[int, bytes, int]:
        """Give term, chain and next record number of a log that ends with `index`."""
        return self.journal.previous(max(index + 1, self.journal.first_index))

    @property
    def sealed_through(self) -> int:
        """The last entry of the newest segment that is not written any more."""
        return self.journal.sealed_through

    @property
    def sealed_count(self) -> int:
        """How many segments are not written any more."""
        return self.journal.sealed_count

    def oldest_segment(self) -> SegmentStatistics:
        """Give the segment that goes first."""
        return self.journal.oldest_segment()

    def has_damage(self, first_index: int, last_index: int) -> bool:
        """Whether any of these entries has damage that is known and not repaired."""
        return self.journal.has_damage(first_index, last_index)

    def is_damaged_entry(self, index: int) -> bool:
        """Whether an entry has damage that is known and not repaired."""
        return self.journal.is_damaged(index)

    def damaged_run(self, index: int) -> tuple[int, int, int] | None:
        """Give the last damaged entry from this one on, the first record lost and the next one."""
        return self.journal.damaged_run(index)

    def report_damage(self, error: CorruptEntryError) -> None:
        """Let the replication know of damage found while reading, so that a peer repairs it."""
        if error.index:
            self.driver.report_damage(error.index)

    def keep_membership(self, through_index: int) -> None:
        """Write the membership again if the entry that holds it is about to go."""
        if self.driver.config_index <= through_index:
            self.driver.repropose_config()
