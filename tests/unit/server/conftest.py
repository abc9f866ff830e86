"""
The conducting loop with a store, sockets and a clock that do what a test tells them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError, NotLeaderError, RecordNotFoundError
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, Entry, entry_bytes, seal_entry
from holdfast.journal.entry_body import EntryBody
from holdfast.model.numbering import Numbering
from holdfast.model.records import MessageRecord, MoveRecord, Record
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.replication.driver_view import QUORUM_LOST
from holdfast.server.connection import ClientConnection
from holdfast.server.loop import Conductor
from holdfast.server.protocols import served
from holdfast.server.settings import ServerSettings
from holdfast.sessions.context import SessionContext
from holdfast.sessions.registration import Registration
from holdfast.store.record_codec import decode_records, encode_records


class FakeStore:
    """A log in a list, with segments of two entries; it commits up to where it is told."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.first_index = 1
        self.commit_index = 0
        self.applied_index = 0
        self.whole_index = 0
        """The last entry of which the loop said that it is applied."""
        self.is_serving = False
        self.is_writing = False
        self.is_leader = True
        """Also while it hands over and does not serve."""
        self.is_handing_over = False
        self.learners: dict[str, int] = {}
        self.has_lease = True
        self.is_awaiting_lease = False
        self.is_low = False
        self.is_copy = False
        """What is low is only room for a copy of the log."""
        self.message_bytes_max = self.batch_bytes_max = 0
        self.term = 1
        self.numbering = Numbering()
        self.promotion = ""
        self.farewell = QUORUM_LOST
        self.begun_anew = False
        self.damaged: set[int] = set()
        self.reported: list[CorruptEntryError] = []
        self.kept_membership: list[int] = []
        self.segment_bytes = 100
        self.look_count = 0
        """How often the segments were listed."""
        self.membership_error: Exception | None = None
        self.format_level_of_all = 1
        self.told_format_levels: list[int] = []

    # What the loop asks.

    def tell_format_level(self, level: int) -> None:
        self.told_format_levels.append(level)

    def append(
        self,
        records: list[Record],
        now: float,
        wall_microseconds: int,
        body: EntryBody | None = None,
    ) -> int:
        if not self.is_leader:
            raise NotLeaderError("other")
        last = self.entries[-1] if self.entries else None
        seal = partial(seal_entry, parts=encode_records(records)) if body is None else body.seal
        entry = seal(
            index=len(self.entries) + 1,
            term=self.term,
            kind=KIND_RECORDS,
            timestamp=wall_microseconds + len(self.entries),
            first_record=last.next_record if last else 1,
            record_count=len(records),
            previous_chain=last.chain if last else FIRST_CHAIN,
        )
        self.entries.append(entry)
        return entry.index

    @staticmethod
    def new_body(bytes_expected: int) -> EntryBody:
        return EntryBody(bytes_expected)

    @staticmethod
    def entry_bytes(body_length: int) -> int:
        return entry_bytes(body_length)

    def turn(self, now: float) -> None:
        pass

    def stored(self, result: object) -> None:
        pass

    def refusal(self, now: float) -> str | None:
        return "full" if self.is_full(now) else None

    def is_space_low(self, now: float) -> bool:
        return self.is_low

    def is_full(self, now: float) -> bool:
        return self.is_low and not self.is_copy

    def has_committed(self) -> bool:
        return self.commit_index > self.applied_index

    @property
    def is_applied_whole(self) -> bool:
        return self.applied_index == len(self.entries)

    def is_begun_anew(self) -> bool:
        was, self.begun_anew = self.begun_anew, False
        return was

    def take_committed(self, bytes_max: int) -> list[Entry]:
        assert bytes_max == 1, "the loop takes one entry at a time"
        if not self.has_committed():
            return []
        if self.applied_index + 1 in self.damaged:
            raise CorruptEntryError("bad", index=self.applied_index + 1)
        self.applied_index += 1
        return self.entries[self.applied_index - 1 : self.applied_index]

    def applied(self, entry: Entry, cleaned_through: int) -> None:
        self.whole_index = entry.index
        self.first_index = max(self.first_index, cleaned_through + 1)

    @staticmethod
    def decode(entry: Entry, *, with_content: bool = False):
        return decode_records(entry.body, with_content=with_content)

    def may_dispatch(self, now: float) -> bool:
        return self.has_lease

    def holds_lease(self, now: float) -> bool:
        return self.has_lease

    def is_lease_awaited(self, now: float) -> bool:
        return self.is_awaiting_lease

    def read(self, record_number: int) -> MessageRecord:
        for entry in self.entries:
            if entry.first_record <= record_number < entry.next_record:
                record = list(self.decode(self.entry(entry.index), with_content=True))[
                    record_number - entry.first_record
                ]
                assert isinstance(record, MessageRecord)
                return record
        raise RecordNotFoundError(str(record_number))

    def read_move(self, record_number: int) -> MoveRecord:
        for entry in self.entries:
            if entry.first_record <= record_number < entry.next_record:
                record = list(self.decode(self.entry(entry.index)))[
                    record_number - entry.first_record
                ]
                assert isinstance(record, MoveRecord)
                return record
        raise RecordNotFoundError(str(record_number))

    # What the cleaner asks.

    def entry(self, index: int) -> Entry:
        if index in self.damaged:
            raise CorruptEntryError("bad", index=index)
        if index < self.first_index:
            raise RecordNotFoundError(str(index))
        return self.entries[index - 1]

    @property
    def sealed_through(self) -> int:
        return len(self.entries) // 2 * 2

    @property
    def sealed_count(self) -> int:
        self.look_count += 1
        return (len(self.entries) - self.first_index + 1) // 2

    def oldest_segment(self) -> SimpleNamespace:
        return SimpleNamespace(base_index=self.first_index, last_index=self.first_index + 1)

    def has_damage(self, first_index: int, last_index: int) -> bool:
        return any(first_index <= index <= last_index for index in self.damaged)

    def is_damaged_entry(self, index: int) -> bool:
        return index in self.damaged

    def report_damage(self, error: CorruptEntryError) -> None:
        self.reported.append(error)

    def damaged_run(self, index: int) -> tuple[int, int, int] | None:
        if index not in self.damaged:
            return None
        last = index
        while last + 1 in self.damaged:
            last += 1
        first = self.entries[index - 1].first_record
        return last, first, self.entries[last - 1].next_record

    def keep_membership(self, through_index: int) -> None:
        if self.membership_error is not None:
            raise self.membership_error
        self.kept_membership.append(through_index)

    @property
    def log_bytes(self) -> int:
        return sum(len(entry.raw) for entry in self.entries[self.first_index - 1 :])

    def bytes_from(self, index: int) -> int:
        return sum(len(entry.raw) for entry in self.entries[index - 1 :])

    def learner_matches(self) -> dict[str, int]:
        return self.learners

    def segment_base(self, index: int) -> int:
        return max((index - 1) // 2 * 2 + 1, self.first_index)

    def commit_all(self) -> None:
        self.commit_index = len(self.entries)


class FakeTransport:
    """A socket that takes everything, unless it is told not to."""

    def __init__(self) -> None:
        self.written = b""
        self.pieces: list[bytes] = []
        """As they were given."""
        self.unsent = 0
        self.is_reading = True
        self.is_closed = False
        self.is_aborted = False
        self.opened: object = None
        """What stands for the socket itself, if a test needs one."""
        self.more: dict[str, object] = {}
        """What else is told of it."""

    def write(self, data: bytes) -> None:
        self.written += data
        self.pieces.append(data)

    def get_extra_info(self, name: str) -> object:
        known = {"peername": ("10.0.0.9", 5000), "socket": self.opened}
        return (known | self.more).get(name)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, *, high: int) -> None:
        self.high = high

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def take(self) -> bytes:
        written, self.written = self.written, b""
        return written


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def thread_cpu(self) -> float:
        return self.now / 2

    def wall_microseconds(self) -> int:
        return 1_700_000_000_000_000 + int(self.now * 1_000_000)


CONNECT = b"STOMP\naccept-version:1.2\nhost:h\n\n\0"
SUBSCRIBE = b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client-individual\n\n\0"


def persistent(body: bytes, receipt: bytes = b"r") -> bytes:
    return b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:%b\n\n%b\0" % (receipt, body)


class Node:
    """A conductor with everything around it."""

    def __init__(
        self, broker: BrokerSettings | None = None, settings: ServerSettings | None = None
    ) -> None:
        self.clock = FakeClock()
        self.store = FakeStore()
        self.broker = Broker(broker or BrokerSettings())
        self.role_changes = 0
        self.damage: list[CorruptEntryError] = []
        self.failures: list[Exception] = []
        self.conductor = Conductor(
            broker=self.broker,
            store=self.store,  # type: ignore[arg-type]
            context=SessionContext(node="n", version="1", cluster="c"),
            clock=self.clock,
            settings=settings or ServerSettings(),
            protocols=served(StompSettings()),
            on_role_change=self.role_changed,
            on_damage=self.damage.append,
            on_failure=self.failures.append,
        )
        self.conductor.turn()

    def role_changed(self) -> None:
        self.role_changes += 1

    def serve(self) -> None:
        self.store.is_serving = True
        self.turn()
        assert self.conductor.is_serving

    def open(self, *protocols: Registration) -> ClientConnection:
        """A connection on which nothing was said yet, of a port for these protocols, or for all."""
        connection = ClientConnection(self.conductor.clients, protocols or None)
        connection.connection_made(FakeTransport())  # type: ignore[arg-type]
        return connection

    def connect(self, *data: bytes) -> ClientConnection:
        connection = self.open()
        for each in (CONNECT, *data):
            connection.data_received(each)
        self.turn()
        if data == ():
            connection.transport.take()  # type: ignore[attr-defined]
        return connection

    def turn(self) -> None:
        self.conductor.turn()
        assert not self.failures, self.failures

    def turns_until(self, condition: Callable[[], bool], count_max: int = 10_000) -> int:
        """Commit and turn until something holds; gives how many turns it took."""
        for count in range(count_max):
            if condition():
                return count
            self.clock.now += 0.02
            self.store.commit_all()
            self.turn()
        raise AssertionError("it never comes to hold")

    def settle(self) -> None:
        """Commit and turn until nothing is left to do."""
        for _ in range(20):
            self.clock.now += 0.02
            self.turn()
            self.store.commit_all()
            self.turn()
            if not self.broker.receipts.has_batch() and self.store.is_applied_whole:
                return
        raise AssertionError("the node does not come to rest")


@pytest.fixture
def node() -> Node:
    made = Node()
    made.serve()
    return made


@pytest.fixture
def new_node() -> type[Node]:
    return Node


@pytest.fixture
def hasty() -> Node:
    """A serving node that leaves off at every opportunity."""
    made = Node(settings=ServerSettings(slice_seconds=0.0))
    made.serve()
    return made


@pytest.fixture
def send():
    return persistent


@pytest.fixture
def subscribe() -> bytes:
    return SUBSCRIBE
