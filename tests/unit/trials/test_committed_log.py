"""Tests of testing/committed_log.py: what the simulator holds the committed log to."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from holdfast.journal.entry import KIND_RECORDS, seal_entry
from holdfast.model.limits import FLOOR_ID
from holdfast.model.records import (
    DispatchMarkRecord,
    ForgetProducerRecord,
    MessageRecord,
    ProducerRecord,
    QueueRecord,
    Record,
)
from holdfast.store.record_codec import encode_records
from trials.simulation.committed_log import DEAD_LETTERS, CommittedLog
from trials.simulation.history import History, ViolationError

BODY = b"p1.1 and so on"


@pytest.fixture
def history() -> History:
    made = History(lambda: 0.0)
    made.send("p1.1", "q1", BODY)
    return made


def message(queue_number: int, sequence: int, producer_id: str | None) -> MessageRecord:
    return MessageRecord(queue_number, sequence, b"", BODY, len(BODY), producer_id, 1)


def feed(log: CommittedLog, *records: Record, raises: str = "") -> None:
    index = log.last_index + 1
    entry = seal_entry(
        index=index,
        term=1,
        kind=KIND_RECORDS,
        timestamp=index,
        first_record=index,
        record_count=len(records),
        parts=encode_records([*records]),
        previous_chain=bytes(16),
    )
    with pytest.raises(ViolationError, match=raises) if raises else nullcontext():
        log.feed(entry)


@pytest.fixture
def log(history: History) -> CommittedLog:
    """With one message, of a producer that numbers."""
    made = CommittedLog(history)
    feed(made, QueueRecord(1, "q1", 0, 0), QueueRecord(2, DEAD_LETTERS, 0, 0))
    feed(made, message(1, 1, "p1"))
    return made


def test_a_message_under_two_numbers_is_stored_once(log: CommittedLog) -> None:
    """Another id hides from the broker that it is the same; its producer must have had cause."""
    with pytest.raises(ViolationError, match=r"S9: p1\.1 was stored twice"):
        feed(log, message(1, 2, "p1~1"))


def test_who_could_not_know_may_store_it_again(log: CommittedLog, history: History) -> None:
    """Its number was forgotten before it was confirmed."""
    history.doubtful.add("p1.1")

    feed(log, message(1, 2, "p1~1"))

    assert len(log.identities["p1.1"]) == 2


def test_a_dead_letter_is_no_second_message(log: CommittedLog) -> None:
    """It is the same one, on another queue."""
    feed(log, message(2, 1, None))

    assert len(log.identities["p1.1"]) == 2


def test_the_very_first_of_a_forgotten_producer_may_be_stored_again(log: CommittedLog) -> None:
    """The broker cannot tell it from a new producer; of what follows it can."""
    feed(log, ForgetProducerRecord("p1"))
    feed(log, message(1, 2, "p1"))

    with pytest.raises(ViolationError, match=r"S9: p1\.1 was stored twice"):
        feed(log, message(1, 3, "p1"))


def test_who_is_done_with_stores_nothing_any_more(history: History) -> None:
    """Behind the floor of its name; who is not below it does, and so does another name."""
    made = CommittedLog(history)
    for number in (2, 3, 4):
        history.send(f"p1.{number}", "q1", BODY.replace(b"1.1", b"1.%d" % number))
    feed(made, QueueRecord(1, "q1", 0, 0), ProducerRecord(f"{FLOOR_ID}query", 7))
    for number, producer in ((1, "query-7-0"), (2, "other-6-0"), (3, "query-6"), (4, "query-6-0")):
        body = BODY.replace(b"1.1", b"1.%d" % number)
        record = MessageRecord(1, number, b"", body, len(body), producer, 1)
        feed(made, record, raises="S9: query-6-0 is done with" if number == 4 else "")


def test_a_transaction_of_a_forgotten_producer_too(log: CommittedLog) -> None:
    """Its number stands behind what it sends."""
    feed(log, ForgetProducerRecord("p2"))
    feed(log, message(1, 3, None), ProducerRecord("p2", 1, 0))

    assert 2 == len(log.identities["p1.1"])
    feed(log, message(1, 4, None), ProducerRecord("p2", 2, 0), raises="p1.1 was stored twice")


def test_a_mark_may_stand_between_a_transaction_and_its_number(log: CommittedLog) -> None:
    """It is asked for while the messages get theirs."""
    feed(log, ForgetProducerRecord("p2"))
    mark = DispatchMarkRecord(1, 99)
    feed(log, message(1, 3, None), mark, ProducerRecord("p2", 1, 0))

    assert 2 == len(log.identities["p1.1"])
    feed(log, message(1, 4, None), mark, raises="p1.1 was stored twice")


def test_what_is_stored_twice_at_the_end_of_an_entry_is_seen(log: CommittedLog) -> None:
    """Whether or not anything comes behind it."""
    feed(log, message(1, 2, None), raises="p1.1 was stored twice")


ROOM = "holdfast-user:ann:7:"


def numbered(sequence: int, producer_id: str, number: int) -> MessageRecord:
    return MessageRecord(1, sequence, b"", BODY, len(BODY), producer_id, number)


@pytest.mark.parametrize(
    ("numbers", "raises"), [((1, 2), ""), ((1, 2, 3), "stored twice"), ((2,), "stored twice")]
)
def test_who_begins_anew_as_a_user_may_store_twice(history: History, numbers, raises) -> None:
    """From the first number on, as far as it came before; not what it goes on with."""
    log = CommittedLog(history)
    feed(log, QueueRecord(1, "q1", 0, 0), numbered(1, "p", 1))
    history.unnumbered.add("p1.1")
    feed(log, numbered(2, "p", 2))
    history.unnumbered.clear()
    *begun, last = numbers
    for number in begun:
        feed(log, numbered(2 + number, f"{ROOM}p", number))
    feed(log, numbered(2 + last, f"{ROOM}p", last), raises=raises)
