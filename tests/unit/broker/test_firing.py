"""
Scheduled messages whose time has come, as the records say it, and what the cleaner makes of them.
"""

from __future__ import annotations

import pytest

from holdfast.broker.cleaning import live_copies, on_the_way
from holdfast.model.facts import Attributes, Cause, MessageFacts
from holdfast.model.format_level import SCHEDULES_LEVEL
from holdfast.model.records import FiredRecord, MessageRecord, MoveRecord
from holdfast.model.schedules import SCHEDULE_QUEUE, Schedule

NOW = 1_700_000_000_000
OFTEN = Schedule(delay_ms=100, period_ms=100, repeats=3)


class Desk:
    """A leader with one message that is scheduled, and what it is."""

    def __init__(self, desk) -> None:
        self.desk = desk
        desk.broker.state.format_level = SCHEDULES_LEVEL
        desk.broker.sending.now_microseconds = NOW * 1000
        facts = MessageFacts(attributes=Attributes(repeats=3), due_ms=NOW)
        queue = desk.queue(SCHEDULE_QUEUE)
        desk.broker.send(queue, b"", b"x", desk.client, None, facts=facts)
        desk.turn()
        self.number = queue.index.record_number(1)

    def fire(self, schedule: Schedule = OFTEN, queues=("orders",), *, persistent=True) -> list:
        broker = self.desk.broker
        targets = [broker.queue(name) for name in queues]
        before = len(broker.receipts.batch.records)
        message = self.desk.read(broker.queue(SCHEDULE_QUEUE).index.record_number(1))
        broker.firing.fire(message, schedule, targets, persistent=persistent, lifetime_ms=0)
        return broker.receipts.batch.records[before:]

    def copies(self) -> list[MessageRecord]:
        """Give what the cleaner would write again now, behind all that is on its way."""
        broker = self.desk.broker
        record = self.desk.read(self.number)
        under_way = on_the_way(broker, {record.queue_number: {1}})
        return list(live_copies(broker, record, self.number, 1, under_way))


@pytest.fixture
def one(desk) -> Desk:
    return Desk(desk)


def test_one_entry_has_the_copies_and_the_next_time(one) -> None:
    """
    A place on each queue, and one record that says when it is due again.
    """
    first, second, again = one.fire(queues=("a", "b"))
    assert isinstance(first, MoveRecord) and isinstance(second, MoveRecord)
    assert [it.is_copy for it in (first, second)] == [True, True]
    assert {it.cause for it in (first, second)} == {Cause.FIRED}
    assert isinstance(again, FiredRecord)
    assert (again.sequence, again.due_ms, again.repeats) == (1, NOW + 100, 2)


def test_with_the_last_copy_it_leaves_the_schedule(one) -> None:
    """
    Where nothing is kept of it, it is moved to nowhere.
    """
    once = Schedule()
    moves = one.fire(once, queues=("a", "b"))
    assert [it.is_copy for it in moves] == [True, False]
    batch = one.desk.broker.receipts.batch
    batch.take_back([0] * len(batch.mark()))
    one.desk.broker.firing.follow()
    (gone,) = one.fire(once, persistent=False)
    assert (gone.target_number, gone.is_copy, gone.cause) == (0, False, Cause.FIRED)


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_copy_by_the_cleaner_says_what_is_so_behind_what_is_on_its_way(one, is_sealed) -> None:
    """
    3(a): whoever begins with the copy has never seen that it fired.
    """
    (before,) = one.copies()
    assert (before.facts.due_ms, before.facts.repeats) == (NOW, 3)
    one.fire()
    if is_sealed:
        one.desk.seal()
    (copy,) = one.copies()
    assert (copy.facts.due_ms, copy.facts.repeats) == (NOW + 100, 2)
    assert copy.rewritten and copy.is_scheduled
    one.desk.turn()
    (after,) = one.copies()
    assert after.facts == copy.facts


@pytest.mark.parametrize("is_sealed", [True, False])
def test_what_leaves_the_schedule_is_not_written_again(one, is_sealed) -> None:
    """
    It would be sent once more.
    """
    one.fire(Schedule())
    if is_sealed:
        one.desk.seal()
    assert one.copies() == []


def test_what_is_on_its_way_is_not_due_once_more(one) -> None:
    """
    Not if its chunk is looked through meanwhile, nor after thousands of others.
    """
    broker = one.desk.broker
    assert broker.firing.due(10) == [1]
    one.fire()
    queue = broker.queue(SCHEDULE_QUEUE)
    queue.expiry.add([(1, NOW)])
    assert broker.firing.due(10) == []
    broker.firing._look_at = 0
    broker.firing._note(queue, 7, 3)
    queue.expiry.add([(1, NOW)])
    assert broker.firing.due(10) == []
    one.desk.turn()
    broker.sending.now_microseconds = (NOW + 100) * 1000
    assert broker.firing.due(10) == [1]


def test_what_an_operator_takes_off_is_not_sent(one) -> None:
    """
    Between his word and the log nobody gets it.
    """
    broker = one.desk.broker
    queue = broker.queue(SCHEDULE_QUEUE)
    broker.moving.keep_from_all(queue, [1])
    broker.receipts.settle(queue, [1])
    assert broker.firing.due(10) == []
