"""What a database is told of messages, piece by piece; whole lives are in tests/simulation."""

from __future__ import annotations

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.chunk import CHUNK_SIZE
from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError
from holdfast.leases.projection import Changes, MessageKey, Span
from holdfast.model.limits import KiB
from holdfast.model.records import (
    AcknowledgeRecord,
    DeleteQueueRecord,
    MessageRecord,
    MoveRecord,
    PurgeRecord,
    QueueRecord,
    Record,
)
from holdfast.model.schedules import SCHEDULE_QUEUE
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.server.showing_messages import (
    BYTES_MAX,
    ROWS_MAX,
    SETTLED_MAX,
    SPANS_MAX,
    ShowingMessages,
    bits_of,
    spans_of,
)
from holdfast.server.showing_walk import SECONDS


class Scene:
    """A broker with its log, and a store that writes all that it is told."""

    def __init__(self, *, with_bodies: bool = False) -> None:
        self.broker = Broker(BrokerSettings())
        self.applied_index = 0
        self.messages: dict[int, MessageRecord] = {}
        self.damaged: set[int] = set()
        self.reads = 0
        self.term, self.projections_lost = 1, 0
        self.shown_keys: tuple[MessageKey, ...] = ()
        self.there: list[MessageKey] = []
        self.waiting: list[Changes] = []
        self.now = 0.0
        self.showing = ShowingMessages(self.broker, self, self, with_bodies=with_bodies)

    def apply(self, *records: Record) -> None:
        self.applied_index += 1
        first = 10_000 * self.applied_index
        for number, record in enumerate(records, start=first):
            if isinstance(record, MessageRecord):
                self.messages[number] = record
        self.broker.apply_entry(first, list(records), self.applied_index)

    def read(self, record_number: int) -> MessageRecord:
        self.reads += 1
        if record_number in self.damaged:
            raise CorruptEntryError("a bit", segment="x", index=1)
        return self.messages[record_number]

    def read_move(self, record_number: int) -> MoveRecord:
        raise AssertionError("nothing is moved here")

    def entry_index(self, record_number: int) -> int:
        return record_number // 10_000

    @property
    def can_project(self) -> bool:
        return not self.waiting

    def project(self, changes: Changes) -> None:
        assert not self.waiting
        self.waiting.append(changes)

    def look(self) -> list[Changes]:
        """All that is told in one look, five seconds later, but for what is asked."""
        self.now += SECONDS
        told = []
        while self.showing.step(self.now, lambda: False, is_serving=True):
            changes = self.waiting.pop()
            if changes.keys_after is None:
                told.append(changes)
            else:
                self.shown_keys = tuple(it for it in self.there if it > changes.keys_after)[:2048]
        return told


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.apply(QueueRecord(1, "orders"), QueueRecord(2, "invoices"))
    return made


def messages(queue: int, first: int, count: int, size: int = 4) -> list[Record]:
    return [MessageRecord(queue, first + it, b"", b"b" * size, size) for it in range(count)]


def keys(told: list[Changes]) -> list[tuple[int, int]]:
    return [(row.queue_number, row.sequence) for it in told for row in it.messages]


def test_each_message_is_told_once_and_dropped_once(scene: Scene) -> None:
    """What came and went between two looks is neither read nor told."""
    scene.apply(*messages(1, 1, 3), *messages(2, 1, 1))
    assert keys(scene.look()) == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert scene.look() == []
    scene.apply(*messages(1, 4, 2))
    scene.apply(AcknowledgeRecord(1, [2, 4]))
    (changes,) = scene.look()
    assert [it.sequence for it in changes.messages] == [5]
    assert changes.settled == (Span(1, 2, 2),)
    assert scene.look() == []
    assert scene.reads == 5


def test_who_begins_tells_only_what_differs(scene: Scene) -> None:
    """What an earlier holder has shown stays; what it shows too much goes, of any queue."""
    scene.apply(*messages(1, 1, 4))
    scene.there = [MessageKey(1, 2), MessageKey(1, 3), MessageKey(1, 9), MessageKey(7, 1)]
    told = scene.look()
    assert keys(told) == [(1, 1), (1, 4)]
    assert [it for changes in told for it in changes.settled] == [Span(1, 9, 9), Span(7, 1, 1)]


def test_more_rows_than_are_asked_for_at_once(scene: Scene) -> None:
    """They are asked for in turns, and nothing is told."""
    scene.there = [MessageKey(1, it) for it in range(1, 5001)]
    scene.apply(*messages(1, 1, 5000))
    assert keys(scene.look()) == []
    assert scene.reads == 0


def test_a_piece_is_bounded_in_rows_and_bytes() -> None:
    """An append that waits behind it waits for some milliseconds."""
    scene = Scene(with_bodies=True)
    scene.apply(QueueRecord(1, "orders"), QueueRecord(2, "large"))
    scene.apply(*messages(1, 1, 3 * ROWS_MAX))
    sizes = [len(it.messages) for it in scene.look()]
    assert sizes[:3] == [ROWS_MAX] * 3
    scene.apply(*messages(2, 1, 20, 100 * KiB))
    told = scene.look()
    assert sum(len(it.messages) for it in told) == 20
    for changes in told:
        size = sum(len(it.body or b"") for it in changes.messages)
        assert size <= BYTES_MAX + 100 * KiB


def test_a_purge_goes_in_few_and_bounded_pieces(scene: Scene) -> None:
    """Two chunks at once, each a span."""
    count = 20 * CHUNK_SIZE
    scene.apply(*messages(1, 1, count))
    scene.look()
    scene.apply(PurgeRecord(1, count))
    told = scene.look()
    spans = [it for changes in told for it in changes.settled]
    assert sum(it.last - it.first + 1 for it in spans) == count
    assert len(spans) == 21
    for changes in told:
        assert sum(it.last - it.first + 1 for it in changes.settled) <= SETTLED_MAX + CHUNK_SIZE
    assert scene.look() == []


def test_every_other_one_goes_in_bounded_pieces_as_well(scene: Scene) -> None:
    """Each is a span of its own."""
    scene.apply(*messages(1, 1, 512))
    scene.look()
    scene.apply(AcknowledgeRecord(1, list(range(1, 512, 2))))
    told = scene.look()
    assert [len(it.settled) for it in told] == [SPANS_MAX] * 4


def test_what_cannot_be_read_is_told_later(scene: Scene) -> None:
    """When it was mended; until then it is tried in each look, and the others are told."""
    scene.apply(*messages(1, 1, 3))
    scene.damaged.add(20_001)
    assert keys(scene.look()) == [(1, 1), (1, 3)]
    assert keys(scene.look()) == []
    scene.damaged.clear()
    assert keys(scene.look()) == [(1, 2)]


def test_queues_that_come_and_go_leave_nothing(scene: Scene) -> None:
    """No row, and nothing that is kept of them."""
    scene.look()
    for number in range(10, 40):
        scene.apply(QueueRecord(number, f"q{number}"), *messages(number, 1, 2))
        scene.look()
        scene.apply(DeleteQueueRecord(number))
        (changes,) = scene.look()
        assert changes.settled == (Span(number, 1, 2),)
    assert set(scene.showing._marks) == {1, 2}
    assert scene.showing._there == {}


def test_what_waits_for_its_time_is_not_shown(scene: Scene) -> None:
    """ActiveMQ has it in another store as well."""
    scene.apply(QueueRecord(5, SCHEDULE_QUEUE), *messages(5, 1, 2))
    assert keys(scene.look()) == []


def test_a_topic_has_each_message_once_and_a_row_for_each_subscription(scene: Scene) -> None:
    """Those that need it have no rows of it; one that ended has none."""
    scene.apply(TopicRecord(3, "news"))
    scene.apply(*(SubscriptionRecord(it, 3, it - 4, "client", f"s{it}") for it in (4, 5)))
    scene.apply(*messages(3, 1, 2))
    told = scene.look()
    assert keys(told) == [(3, 1), (3, 2)]
    rows = [row for it in told for row in it.subscriptions]
    assert [(it.number, it.name, it.depth) for it in rows] == [(4, "s4", 2), (5, "s5", 2)]
    scene.apply(DeleteQueueRecord(4, 3))
    assert [it.ended for it in scene.look()] == [(4,)]
    scene.apply(PurgeRecord(5, 1, 3))
    told = scene.look()
    assert [it.settled for it in told if it.settled] == [(Span(3, 1, 1),)]
    assert [(it.depth, it.last_acked) for it in told[-1].subscriptions] == [(1, 1)]


def test_bits_are_of_what_lives() -> None:
    """By slot, wherever a chunk begins."""
    index = SequenceIndex()
    for sequence in (515, 517, 1023):
        index.put(sequence, 1, 1)
    assert bits_of(index.chunks[1]) == 1 << 3 | 1 << 5 | 1 << 511
    index.remove([515])
    assert bits_of(index.chunks[1]) == 1 << 5 | 1 << 511
    assert bits_of(None) == 0


@pytest.mark.parametrize(
    ("gone", "kept", "spans"),
    [
        (0b1, 0b0, [(0, 0)]),
        (0b1011, 0b0, [(0, 3)]),
        (0b1011, 0b100, [(0, 1), (3, 3)]),
        (0b11000011, 0b100, [(0, 1), (6, 7)]),
        (1 << 511, 1, [(511, 511)]),
        (0, 0b11, []),
    ],
)
def test_spans_pass_over_what_stays(gone: int, kept: int, spans: list[tuple[int, int]]) -> None:
    """What is neither gone nor kept has no row, so it may be within one."""
    assert list(spans_of(gone, kept, 9, 1024)) == [
        Span(9, 1024 + first, 1024 + last) for first, last in spans
    ]
