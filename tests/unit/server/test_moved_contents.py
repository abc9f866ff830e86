"""
What was moved is written again before the part of the log with its bytes goes.
"""

from __future__ import annotations

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Cause
from holdfast.model.format_level import MOVES_LEVEL
from holdfast.model.records import (
    AcknowledgeRecord,
    FormatRecord,
    MessageRecord,
    MoveRecord,
    QueueRecord,
    Run,
)
from holdfast.server.moved_contents import MovedContents


class Log:
    """Records by number, as a store gives them."""

    def __init__(self) -> None:
        self.records: dict[int, object] = {}

    def read(self, number: int) -> MessageRecord:
        record = self.records[number]
        assert isinstance(record, MessageRecord)
        return record

    def read_move(self, number: int) -> MoveRecord:
        record = self.records[number]
        assert isinstance(record, MoveRecord)
        return record


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def broker(log: Log) -> Broker:
    """Messages 1 to 4 of `one` in records 4 to 7; the first two are on `two`, by record 8."""
    records = [
        *(FormatRecord(MOVES_LEVEL), QueueRecord(1, "one"), QueueRecord(2, "two")),
        *(MessageRecord(1, number, b"h:1\n", b"%d" % number, 5) for number in range(1, 5)),
        MoveRecord(1, 2, Cause.MOVED, [Run(1, 1, 2)], queue_name="one"),
    ]
    log.records = dict(enumerate(records, 1))
    broker = Broker(BrokerSettings())
    broker.state.apply(1, records, 7)
    broker.moving.cluster = "c"
    broker.lead()
    return broker


def all_of(contents: MovedContents) -> list[MessageRecord]:
    found: list[MessageRecord] = []
    while (some := contents.step(lambda: False)) is not None:
        found += some
    return found


def test_bytes_and_way_become_one_record(broker: Broker, log: Log) -> None:
    """
    Marked as the cleaner's; what has its bytes further on is left for later.
    """
    found = all_of(MovedContents(broker, log, 4))  # type: ignore[arg-type]
    assert [(it.places, it.body, it.rewritten) for it in found] == [(((2, 1),), b"1", True)]
    assert found[0].facts is not None
    assert found[0].facts.origin == (Cause.MOVED, "one", "ID:c-1-1")
    broker.state.apply(9, found, 8)
    assert all_of(MovedContents(broker, log, 4)) == []  # type: ignore[arg-type]


def test_what_is_about_to_leave_is_not_written_again(broker: Broker, log: Log) -> None:
    """
    It would stand behind what takes it away, and live once more.
    """
    broker.receipts.record(AcknowledgeRecord(2, [2]))
    found = all_of(MovedContents(broker, log, 9))  # type: ignore[arg-type]
    assert [it.places for it in found] == [((2, 1),)]
    broker.queue("two").purging_through = 9
    assert all_of(MovedContents(broker, log, 9)) == []  # type: ignore[arg-type]


def test_it_waits_for_what_is_being_moved(broker: Broker, log: Log) -> None:
    """
    That has its bytes there and stands nowhere yet; nothing else is moved meanwhile.
    """
    one, two = broker.queue("one"), broker.queue("two")
    broker.moving.take(one, [two], [3], Cause.MOVED, moved_at=1)
    contents = MovedContents(broker, log, 7)  # type: ignore[arg-type]
    assert [contents.step(lambda: False) for _ in range(3)] == [[], [], []]
    assert broker.moving.is_closed(one, 4)
    batch = broker.receipts.take_batch()
    log.records |= dict(enumerate(batch.records, 9))
    broker.apply_batch(batch, 9, 8)
    assert [it.body for it in all_of(contents)] == [b"1", b"2", b"3"]


def test_a_step_is_bounded(broker: Broker, log: Log) -> None:
    """
    Whoever asks goes on with it when there is time again.
    """
    contents = MovedContents(broker, log, 9)  # type: ignore[arg-type]
    steps = [contents.step(lambda: True) for _ in range(4)]
    assert [len(step) for step in steps if step] == [1, 1]
    assert None in [*steps, contents.step(lambda: True), contents.step(lambda: True)]


def test_behind_what_is_about_to_leave_nothing_is_forgotten(log: Log) -> None:
    """
    A consumer may just have acknowledged all that was read in one go, and not what comes then.
    """
    records = [
        *(FormatRecord(MOVES_LEVEL), QueueRecord(1, "one"), QueueRecord(2, "two")),
        *(MessageRecord(1, number, b"h:1\n", b"x", 5) for number in range(1, 301)),
        MoveRecord(1, 2, Cause.MOVED, [Run(1, 1, 300)], queue_name="one"),
    ]
    log.records = dict(enumerate(records, 1))
    broker = Broker(BrokerSettings())
    broker.state.apply(1, records, 7)
    broker.lead()
    broker.receipts.record(AcknowledgeRecord(2, list(range(1, 201))))
    for is_spent in (lambda: False, lambda: True):
        contents = MovedContents(broker, log, 304)  # type: ignore[arg-type]
        found: list[int] = []
        while (some := contents.step(is_spent)) is not None:
            found += [it.sequence for it in some]
        assert found == list(range(201, 301))
