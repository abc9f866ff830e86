"""
Applying records: the same log gives the same state, and what is unknown changes nothing.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import FormatLevelError
from holdfast.model.facts import MessageFacts, Place
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    ForgetProducerRecord,
    FormatRecord,
    MessageRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
)
from holdfast.store.record_codec import decode_records, encode_records


@pytest.fixture
def state() -> BrokerState:
    return BrokerState(BrokerSettings())


def message(sequence: int, queue: int = 1, **fields: object) -> MessageRecord:
    record = MessageRecord(queue, sequence, b"h:1\n", b"body", 8)
    for name, value in fields.items():
        setattr(record, name, value)
    return record


class Listening:
    """A leader's half that notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.added_runs: list[tuple[int, list[MessageRecord]]] = []

    def added(self, first: int, records: list[MessageRecord]) -> None:
        self.added_runs.append((first, records))
        self.heard.append("added")

    def gone(self, sequences: list[int]) -> None:
        self.heard.append(sequences)

    def mortal(self, expiring: list[tuple[int, int]]) -> None:
        """Nothing expires here."""

    def purged(self) -> None:
        self.heard.append("purged")

    def mark_moved(self) -> None:
        self.heard.append("mark moved")

    def deleted(self) -> None:
        self.heard.append("deleted")


class Planned:
    """A leader that has planned one queue."""

    def __init__(self, queue: LastingQueue) -> None:
        self.queue = queue

    def planned(self, number: int) -> LastingQueue | None:
        return self.queue if number == self.queue.number else None


@pytest.mark.parametrize(
    "record",
    [
        AcknowledgeRecord(9, [1]),
        DispatchMarkRecord(9, 5),
        PurgeRecord(9, 5),
        DeleteQueueRecord(9),
        ForgetProducerRecord("nobody"),
    ],
)
def test_records_about_something_unknown_change_nothing(state, record) -> None:
    """
    What they refer to was cleaned away with their segment.
    """
    state.apply(1, [QueueRecord(1, "q"), message(1)], 7)
    digest = digest_of(state)
    state.apply(3, [record], 8)
    assert digest_of(state) == digest


@pytest.mark.parametrize("with_others", [False, True])
def test_a_message_may_stand_on_several_queues(state, with_others) -> None:
    """
    Stored once, live on each until it is settled there; also amid a run, and read without content.
    """
    record = message(2, facts=MessageFacts(places=(Place(2, 5), Place(9, 1))))
    run = [message(1), record, message(3)] if with_others else [record]
    number = 10 + run.index(record)
    state.apply(1, [QueueRecord(1, "a"), QueueRecord(2, "b")], 7)
    state.queues[9] = LastingQueue(9, "")
    queues = [state.queues[it] for it in (1, 2, 9)]
    listeners = [Listening() for _ in queues]
    for queue, listener in zip(queues, listeners, strict=True):
        queue.listener = listener
    state.apply(10, run, 8)
    seen = [listener.added_runs for listener in listeners]
    at = zip(queues, (2, 5, 1), strict=True)
    assert [queue.index.record_number(it) for queue, it in at] == [number] * 3
    assert [queue.next_sequence for queue in queues] == [4 if with_others else 3, 6, 2]
    assert (seen[1], seen[2]) == ([(5, [record])], [(1, [record])])
    assert state.live_count() == (5 if with_others else 3)
    bare = BrokerState(BrokerSettings())
    bare.apply(1, [QueueRecord(1, "a"), QueueRecord(2, "b")], 7)
    body = b"".join(encode_records(run))
    bare.apply(10, decode_records(body, with_content=False), 8)
    assert digest_of(bare) == digest_of(state)
    state.apply(20, [AcknowledgeRecord(1, [2]), AcknowledgeRecord(9, [1])], 9)
    assert queues[1].index.is_live(5)
    state.apply(30, [AcknowledgeRecord(2, [5]), AcknowledgeRecord(1, [1, 3])], 9)
    assert (state.live_count(), state.live_bytes()) == (0, 0)


def test_the_level_of_the_log_only_rises(state) -> None:
    """
    What the cleaner carried on behind a newer one changes nothing, nor where that has its home.
    """
    assert state.format_level == 1
    state.apply(1, [FormatRecord(2), FormatRecord(1)], 7)
    assert (state.format_level, state.format_home) == (2, 1)
    state.apply(9, [FormatRecord(2)], 8)
    assert (state.format_level, state.format_home) == (2, 9)


def test_a_level_above_the_known_one_is_refused(state) -> None:
    """
    What it may be followed by would not be understood, or worse, be taken for something else.
    """
    with pytest.raises(FormatLevelError, match=r"reached level 99 .* above"):
        state.apply(1, [FormatRecord(99)], 7)


def test_a_purge_and_an_acknowledgement_of_nothing_change_nothing(state) -> None:
    """
    A queue that is empty, a sequence that is dead.
    """
    state.apply(1, [QueueRecord(1, "q"), message(1), AcknowledgeRecord(1, [1])], 7)
    digest = digest_of(state)
    state.apply(4, [PurgeRecord(1, 9), AcknowledgeRecord(1, [1, 2])], 8)
    assert digest_of(state) == digest
    assert state.queues[1].acknowledged_total == 1


def test_messages_may_come_before_the_name_of_their_queue(state) -> None:
    """
    The declaration was written again further on: until then the queue has no name.
    """
    state.apply(10, [message(5), message(6), AcknowledgeRecord(1, [5])], 7)
    assert state.by_name == {}
    assert not state.queues[1].is_declared
    state.apply(13, [QueueRecord(1, "q", 4, 3)], 8)
    queue = state.by_name["q"]
    assert queue is state.queues[1]
    assert (queue.next_sequence, queue.dispatch_mark, queue.home) == (7, 3, 13)
    assert list(queue.index.sequences(1, 100)) == [6]


def test_a_copy_of_the_cleaner_only_moves(state) -> None:
    """
    It lives at its new place; counts, order and the producer's number are untouched.
    """
    state.apply(1, [QueueRecord(1, "q"), message(1, producer_id="p", producer_sequence=3)], 7)
    copy = message(1, producer_id="p", producer_sequence=3, rewritten=True)
    state.apply(50, [copy], 9)
    queue = state.queues[1]
    assert queue.index.record_number(1) == 50
    assert (queue.enqueued_total, queue.index.live_count) == (1, 1)
    assert state.producers.get("p") == (3, 2, 7)


def test_messages_alone_change_the_state_as_a_run_of_them_does() -> None:
    """
    A leader's entries are a message each where its clients send one at a time, a replica may be
    given the same ones as a run; also those of before.
    """
    records = [
        *(message(number, producer_id="p", producer_sequence=number) for number in (1, 2, 3)),
        message(7, queue=2, producer_id="q", producer_sequence=1),
        message(2, producer_id="p", producer_sequence=2, rewritten=True),
        message(8, queue=2),
    ]
    names = [QueueRecord(1, "one"), QueueRecord(2, "two")]
    run, alone = BrokerState(BrokerSettings()), BrokerState(BrokerSettings())
    for state in (run, alone):
        state.apply(1, names, 7, 3)

    run.apply(3, iter(records), 8, 4)
    for number, record in enumerate(records, 3):
        alone.apply(number, [record], 8, 4)

    assert digest_of(run) == digest_of(alone)
    for name in ("enqueued_total", "timestamp", "term"):
        assert getattr(run, name) == getattr(alone, name)
    assert (run.live_count(), run.live_bytes()) == (alone.live_count(), alone.live_bytes())
    for number, queue in run.queues.items():
        other = alone.queues[number]
        assert (queue.next_sequence, queue.numbered_term) == (
            other.next_sequence,
            other.numbered_term,
        )
        assert [queue.index.record_number(it) for it in queue.index.sequences(1, 9)] == [
            other.index.record_number(it) for it in other.index.sequences(1, 9)
        ]


def test_producers_are_kept_with_the_time_of_their_last_message(state) -> None:
    """
    Written again by the cleaner they are no younger.
    """
    state.apply(1, [message(1, producer_id="p", producer_sequence=1)], 1000)
    state.apply(2, [ProducerRecord("p", 1, 1000), ProducerRecord("q", 5)], 9000)
    assert state.producers.get("p") == (1, 2, 1000)
    assert state.producers.get("q") == (5, 3, 9000)
    state.apply(4, [ForgetProducerRecord("p")], 9001)
    assert list(state.producers.by_id) == ["q"]


def test_numbers_and_marks_only_grow(state) -> None:
    """
    An older record written again does not turn anything back.
    """
    state.apply(1, [QueueRecord(3, "q", 10, 20), CountersRecord(9), CleanedRecord(5)], 1)
    state.apply(
        4,
        [
            QueueRecord(3, "q", 2, 2),
            DispatchMarkRecord(3, 7),
            CountersRecord(2),
            CleanedRecord(1),
        ],
        2,
    )
    queue = state.queues[3]
    assert (queue.next_sequence, queue.dispatch_mark, queue.home) == (10, 20, 4)
    assert (state.next_queue_number, state.counters_home, state.cleaned_through) == (9, 6, 5)
    state.apply(8, [DispatchMarkRecord(3, 21)], 3)
    assert queue.dispatch_mark == 21


def test_deleting_frees_everything(state) -> None:
    """
    Its name and its number; the leader's half hears of it, after all else is done.
    """
    state.apply(1, [QueueRecord(1, "q"), message(1), message(2)], 1)
    listener = state.queues[1].listener = Listening()
    state.apply(4, [DeleteQueueRecord(1)], 2)
    assert (state.queues, state.by_name) == ({}, {})
    assert state.live_count() == 0
    assert listener.heard == ["deleted"]


def test_the_leaders_half_hears_of_everything(state) -> None:
    """
    In the order it is applied; of neighbouring messages at once, and of the dead only what lived.
    """
    state.apply(1, [QueueRecord(1, "q")], 1)
    listener = state.queues[1].listener = Listening()
    run = [message(1), message(2), message(3)]
    state.apply(2, run, 2)
    state.apply(5, [DispatchMarkRecord(1, 9), AcknowledgeRecord(1, [2, 7]), PurgeRecord(1, 3)], 3)
    assert listener.added_runs == [(1, run)]
    assert listener.heard == ["added", "mark moved", [2], "purged"]


def test_a_queue_is_known_by_what_its_leader_planned(state) -> None:
    """
    So what hangs on the lasting half from the first message on is there as it is declared.
    """
    planned = LastingQueue(4, "q")
    state.planning = Planned(planned)
    state.apply(1, [QueueRecord(4, "q"), QueueRecord(5, "r")], 1)
    assert state.queues[4] is planned is state.by_name["q"]
    assert state.queues[5] is not planned


def test_digests_differ_where_states_do() -> None:
    """
    Each part of the lasting state counts, what is statistics does not.
    """
    base = [QueueRecord(1, "q"), message(1, producer_id="p", producer_sequence=1)]
    others = [
        [QueueRecord(1, "r"), base[1]],
        [*base, message(2)],
        [*base, AcknowledgeRecord(1, [1])],
        [*base, DispatchMarkRecord(1, 9)],
        [*base, ProducerRecord("p", 2)],
        [*base, CleanedRecord(1)],
        [*base, CountersRecord(7)],
    ]
    digests = set()
    for records in [base, *others]:
        state = BrokerState(BrokerSettings())
        state.apply(1, records, 1)
        digests.add(digest_of(state))
    assert len(digests) == len(others) + 1
    state = BrokerState(BrokerSettings())
    state.apply(1, base, 1)
    state.queues[1].enqueued_total = 99
    assert digest_of(state) in digests
