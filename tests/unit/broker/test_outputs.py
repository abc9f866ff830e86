"""
A batch is empty until something is put in.
"""

from __future__ import annotations

from holdfast.broker.outputs import Batch, size_of
from holdfast.model.records import (
    AcknowledgeRecord,
    DeadLetterRecord,
    DispatchMarkRecord,
    HoldRecord,
    MessageRecord,
    ProducerRecord,
    QueueRecord,
)


def test_batches_share_nothing() -> None:
    """
    Each has lists of its own, and nobody waits for an empty one.
    """
    one, other = Batch(), Batch()
    one.records.append(None)  # type: ignore[arg-type]
    assert (other.records, other.replies, other.publications) == ([], [], [])
    assert (other.size_bytes, other.is_urgent) == (0, False)


def test_what_a_request_put_in_can_be_taken_back() -> None:
    """
    All of it but what is whole by itself and counted upon: declarations and marks.
    """
    batch = Batch()
    kept = MessageRecord(1, 1, b"", b"kept", 4)
    batch.records.append(kept)
    batch.size_bytes = size_of(kept)
    mark = batch.mark()
    declared, marked = QueueRecord(2, "q", 1, 9), DispatchMarkRecord(2, 18)
    taken = [
        MessageRecord(2, 1, b"", b"x", 1),
        ProducerRecord("p", 1),
        DeadLetterRecord(2, [1]),
        HoldRecord("h", 1, 9),
    ]
    for record in (declared, taken[0], marked, *taken[1:]):
        batch.add(record)
        batch.size_bytes += size_of(record)
    batch.replies.append((None, b"r"))  # type: ignore[arg-type]
    batch.publications.append((None, b"", b""))  # type: ignore[arg-type]
    assert (batch.settling, batch.holds) == ([taken[2]], [taken[3]])
    assert batch.take_back(mark) == taken
    assert (batch.settling, batch.holds) == ([], [])
    assert batch.records == [kept, declared, marked]
    assert (batch.replies, batch.publications) == ([], [])
    assert batch.size_bytes == sum(size_of(record) for record in batch.records)


def test_a_batch_has_room_for_anything_while_it_is_empty() -> None:
    """
    What is larger than a batch may be makes one alone.
    """
    batch = Batch()
    assert batch.has_room(100, 10)
    batch.records.append(QueueRecord(1, "q"))
    batch.size_bytes = 5
    assert batch.has_room(5, 10)
    assert not batch.has_room(6, 10)


def test_messages_of_a_transaction_are_counted() -> None:
    """
    None of them makes nobody wait.
    """
    batch = Batch()
    assert batch.add_messages([], 0) == 0
    assert not batch.is_urgent
    messages = [MessageRecord(1, number, b"h", b"xy", 3) for number in (1, 2)]
    assert batch.add_messages(messages, 6) == batch.size_bytes == sum(map(size_of, messages))
    assert batch.records == messages
    assert batch.is_urgent


def test_what_leaves_a_queue_is_found_without_a_look_at_what_leaves_others() -> None:
    """
    Thousands of records settle messages of as many queues, and it is asked of each of these.

    What was taken back leaves nothing; what came instead does.
    """
    looked_at: list[int] = []

    class Watched(AcknowledgeRecord):
        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            if name == "sequences":
                looked_at.append(1)
            return super().__getattribute__(name)

    batch = Batch()
    batch.settling += [Watched(number, [number]) for number in range(1_000)]
    assert all(batch.leaving_from(number) == [[number]] for number in range(1_000))
    assert len(looked_at) == 1_000
    mark = batch.mark()
    batch.add(AcknowledgeRecord(7, [8]))
    assert batch.leaving_from(7) == [[7], [8]]
    batch.take_back(mark)
    batch.add(AcknowledgeRecord(9, [10]))
    assert batch.leaving_from(7) == [[7]]
    assert batch.leaving_from(9) == [[9], [10]]
    assert batch.leaving_from(1_000) == []
