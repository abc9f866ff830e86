"""
What the loop and the cleaner may ask of any store.

A store keeps records for ever in one order, says when they are safe, and reads them back. Who
keeps them (a quorum's disks, a directory, a database) is its own affair: `server` knows these
words, and no store's entries or jobs.

What every store promises:
    Order: entries come out of `take_committed` in the order of their indexes, without gaps, each
    once; the records in one in the order in which they were appended.
    Durability: an entry comes out only when nothing that the store is made to survive can undo it.
    Errors: after a failed write `turn` raises, for ever, and nothing more is committed. A damaged
    entry raises CorruptEntryError with its place, and stays the next one until it is repaired.
    Cancellation: nothing here waits, so there is nothing to cancel.

Everything is called on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from holdfast.errors import CorruptEntryError, JournalFailedError
from holdfast.model.numbering import Numbering
from holdfast.model.records import MessageRecord, MoveRecord, Record


class CommittedEntry(Protocol):
    """One batch as it was stored: where it stands, and how much it holds."""

    @property
    def index(self) -> int:
        """Its place in the log; the next one's is one higher."""
        ...

    @property
    def term(self) -> int:
        """The leadership in which it was appended."""
        ...

    @property
    def timestamp(self) -> int:
        """When it was appended, in microseconds; higher than that of any entry before it."""
        ...

    @property
    def first_record(self) -> int:
        """The number of its first record, or of the next one where it holds none."""
        ...

    @property
    def record_count(self) -> int:
        """How many records it holds; none where it is the store's own."""
        ...

    @property
    def body(self) -> memoryview:
        """The records' bytes."""
        ...

    @property
    def body_length(self) -> int:
        """Bytes of the records."""
        ...

    @property
    def bytes_in_log(self) -> int:
        """What it takes of the log, with all that stands around its records."""
        ...


class BatchBody(Protocol):
    """The bytes of a large batch, gathered in pieces by whoever has them; a store made it."""

    @property
    def length(self) -> int:
        """Bytes taken so far."""
        ...

    def add(self, piece: bytes) -> None:
        """Take what follows; the time it takes is in proportion to its length."""
        ...


class WriteReport(Protocol):
    """What the store's writer says after each write; handed to `LogStore.stored` as it is."""

    @property
    def failure(self) -> JournalFailedError | None:
        """Why nothing more will ever be stored; None if all is well."""
        ...

    @property
    def seconds(self) -> float:
        """How long the write and its sync took."""
        ...


class Segment(Protocol):
    """A part of the log that goes as a whole."""

    @property
    def base_index(self) -> int:
        """Its first entry."""
        ...

    @property
    def last_index(self) -> int:
        """Its last entry."""
        ...


class CommitFlow(Protocol):
    """Records in, committed entries out."""

    def append(
        self,
        records: list[Record],
        now: float,
        wall_microseconds: int,
        body: BatchBody | None = None,
    ) -> int:
        """
        Propose records as one entry and give its index; it is not durable yet.

        Args:
            body: The same records, encoded already, in a body that `new_body` of this store gave.

        Raises:
            NotLeaderError: This node does not lead any more.
        """
        ...

    def new_body(self, bytes_expected: int) -> BatchBody:
        """Give an empty body for one entry; more than is expected costs a copy, not a refusal."""
        ...

    @property
    def is_writing(self) -> bool:
        """Whether what was appended last is on its way: what comes meanwhile is the next batch."""
        ...

    def stored(self, result: WriteReport) -> None:
        """Take the writer's word; what follows from it happens in the next turn."""
        ...

    def turn(self, now: float) -> None:
        """
        Do what is due: write, commit, let go.

        Raises:
            JournalFailedError: A write failed; nothing may be claimed any more.
        """
        ...

    def has_committed(self) -> bool:
        """Whether there are committed entries to apply."""
        ...

    def take_committed(self, bytes_max: int) -> Sequence[CommittedEntry]:
        """
        Give committed entries in order, at most about so many bytes but at least one if any.

        Raises:
            CorruptEntryError: The next one is damaged; it is asked for again later.
        """
        ...

    def decode(self, entry: CommittedEntry, *, with_content: bool = False) -> Iterator[Record]:
        """Give the records of an entry."""
        ...

    def applied(self, entry: CommittedEntry, cleaned_through: int) -> None:
        """Note that an entry is applied whole, and up to where nothing lives any more."""
        ...

    @property
    def applied_index(self) -> int:
        """The last entry that was applied whole."""
        ...

    @property
    def is_applying(self) -> bool:
        """Whether an entry was taken and is not applied whole."""
        ...

    @property
    def is_applied_whole(self) -> bool:
        """Whether all there is in the log was applied, committed or not."""
        ...

    @property
    def is_sure(self) -> bool:
        """Whether all was applied that was committed before this process began."""
        ...

    def is_begun_anew(self) -> bool:
        """Whether the log was thrown away, so that all state must be as well; said once."""
        ...

    def read(self, record_number: int) -> MessageRecord:
        """
        Read a message.

        Raises:
            CorruptEntryError: Its entry is damaged; the place is in the error.
            RecordNotFoundError: There is no such message.
        """
        ...

    def entry_index(self, record_number: int) -> int:
        """
        Give the entry that has a record; at no cost where it was just read.

        Raises:
            CorruptEntryError: It is damaged.
            RecordNotFoundError: There is no such record.
        """
        ...

    def read_move(self, record_number: int) -> MoveRecord:
        """
        Read what moved messages.

        Raises:
            CorruptEntryError: Its entry is damaged; the place is in the error.
            RecordNotFoundError: There is no such record.
        """
        ...

    def report_damage(self, error: CorruptEntryError) -> None:
        """Have an entry repaired that was found damaged, if there is anything to repair it from."""
        ...


class Tenure(Protocol):
    """Who may write, and may be heard."""

    @property
    def is_serving(self) -> bool:
        """Whether this node may accept clients: it leads, and all before it is applied."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, also while it does not serve yet or hands over."""
        ...

    @property
    def is_handing_over(self) -> bool:
        """Whether this node is giving the lead away; it may yet be given up."""
        ...

    @property
    def term(self) -> int:
        """The present leadership's number, which only rises."""
        ...

    @property
    def farewell(self) -> str:
        """What clients are told where a lead ended and no other is known; empty if nothing is."""
        ...

    @property
    def promotion(self) -> str:
        """By which promotion by force the log goes on; empty if none."""
        ...

    @property
    def numbering(self) -> Numbering:
        """Where queues' numbers begin while this node leads."""
        ...

    @property
    def format_level_of_all(self) -> int:
        """The newest level of the log's format that all who keep it know."""
        ...

    def tell_format_level(self, level: int) -> None:
        """Let the others know which level this log has reached."""
        ...

    def may_dispatch(self, now: float) -> bool:
        """Whether this node is certain to be the only leader now."""
        ...

    def holds_lease(self, now: float) -> bool:
        """Whether no other leader can be there for a while yet."""
        ...

    def is_lease_awaited(self, now: float) -> bool:
        """Whether a leader before this one may still dispatch."""
        ...


class KeptLog(Protocol):
    """What is kept, how large it is, what may go: the cleaner's questions."""

    def refusal(self, now: float) -> str | None:
        """Say why publishing is refused now, None if it is not."""
        ...

    @property
    def message_bytes_max(self) -> int:
        """The most that one message may have so that it can be stored; 0: any."""
        ...

    @property
    def batch_bytes_max(self) -> int:
        """The most that is to be gathered into one entry, so that it is stored in time; 0: any."""
        ...

    def is_space_low(self, now: float) -> bool:
        """Whether there is so little room that the log is cleaned harder."""
        ...

    def is_full(self, now: float) -> bool:
        """Whether where the log is kept is so full that only acknowledgements are taken."""
        ...

    def entry(self, index: int) -> CommittedEntry:
        """
        Give an entry.

        Raises:
            CorruptEntryError: It is damaged.
            RecordNotFoundError: It is not kept.
        """
        ...

    @property
    def first_index(self) -> int:
        """The first entry that is kept."""
        ...

    @property
    def log_bytes(self) -> int:
        """Bytes of the entries that are kept."""
        ...

    def entry_bytes(self, body_length: int) -> int:
        """What an entry takes of the log that has records of so many bytes."""
        ...

    @property
    def segment_bytes(self) -> int:
        """Bytes of a full segment."""
        ...

    @property
    def last_segment_base(self) -> int:
        """The first index of the segment that is being written."""
        ...

    @property
    def sealed_through(self) -> int:
        """The last entry of the newest segment that is not written any more."""
        ...

    @property
    def sealed_count(self) -> int:
        """How many segments are not written any more."""
        ...

    def oldest_segment(self) -> Segment:
        """Give the segment that goes first; it is still written if it is the only one."""
        ...

    def segment_base(self, index: int) -> int:
        """The first entry of the segment that holds `index`, or of the oldest or newest one."""
        ...

    def bytes_from(self, index: int) -> int:
        """The bytes of the segments that hold this entry or later ones; takes no time."""
        ...

    def place_of(self, index: int) -> tuple[int, bytes, int]:
        """Give term, chain and next record number of a log that ends with `index`."""
        ...

    def learner_matches(self) -> dict[str, int]:
        """Through which entry each that follows without a vote holds the log; 0 if not known."""
        ...

    def has_damage(self, first_index: int, last_index: int) -> bool:
        """Whether any entry from the one to the other has damage that is not repaired."""
        ...

    def is_damaged_entry(self, index: int) -> bool:
        """Whether an entry has damage that is known and not repaired."""
        ...

    def damaged_run(self, index: int) -> tuple[int, int, int] | None:
        """Give the last damaged entry from this one on, the first record lost and the next one."""
        ...

    def keep_membership(self, through_index: int) -> None:
        """
        Write again what the store itself keeps in entries that are about to go.

        Raises:
            MembershipError: Not now: its members are changing.
            NotLeaderError: This node does not lead any more.
        """
        ...


class LogStore(CommitFlow, Tenure, KeptLog, Protocol):
    """A store, whole. `store.replicated_store` is one; so may be any other that keeps the rules."""
