"""
Deadlines of deliveries: a step and consumer at a time, and next to nothing for what is settled.
"""

from __future__ import annotations

from array import array
from collections import deque
from types import SimpleNamespace

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.time_limits import TimeLimits


class Leads:
    """A leadership that says what time it is."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.passed_ms = 0
        self.overdue: deque[tuple[Consumer, list[int]]] = deque()
        self.roused: list[int] = []

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.passed_ms += milliseconds


@pytest.fixture
def leads() -> Leads:
    return Leads()


@pytest.fixture
def limits(leads) -> TimeLimits:
    return TimeLimits(leads, leads.roused.append)


def consumer(limit_ms: int = 5_000) -> Consumer:
    made = Consumer(SimpleNamespace(), "s", mode=AcknowledgeMode.INDIVIDUAL, prefetch=100)
    made.delivery_ms_max = limit_ms
    return made


def deliver(limits: TimeLimits, *pairs: tuple[Consumer, int]) -> None:
    for each, key in pairs:
        each.unacknowledged[key] = None
    limits.begin([(each, key, None, 0, 0) for each, key in pairs])


def test_what_is_due_is_told_by_consumer(limits, leads) -> None:
    """Each by its own limit; the queue is woken at the first of them."""
    slow, slower, unlimited = consumer(), consumer(7_000), consumer(0)
    deliver(limits, (slow, 1), (slower, 2), (unlimited, 3), (slow, 4))
    assert leads.roused == [1_005_000, 1_007_000]
    leads.pass_time(4_999)
    assert limits.wake(100) == (0, 1_005_000)
    leads.pass_time(1)
    assert limits.wake(100) == (2, 1_007_000)
    assert [*leads.overdue] == [(slow, [1, 4])]
    leads.pass_time(2_000)
    assert limits.wake(100) == (1, 0)
    assert leads.overdue[-1] == (slower, [2])


def test_who_has_no_limit_has_nothing_for_too_long(limits) -> None:
    """It is not even noted."""
    deliver(limits, (consumer(0), 1))
    assert limits.wake(100) == (0, 0)


def test_what_was_delivered_again_counts_from_then_on(limits, leads) -> None:
    """To the same one, or another; whoever is closed is not asked at all."""
    first, second = consumer(), consumer()
    deliver(limits, (first, 1), (first, 2), (first, 3))
    leads.pass_time(3_000)
    del first.unacknowledged[1], first.unacknowledged[2]
    deliver(limits, (second, 1), (first, 2))
    leads.pass_time(2_000)
    limits.wake(100)
    assert [*leads.overdue] == [(first, [3])]
    second.is_closed = True
    leads.pass_time(3_000)
    limits.wake(100)
    assert [*leads.overdue] == [(first, [3]), (first, [2])]


def test_a_window_that_is_being_put_together_is_left_alone(limits, leads) -> None:
    """A transaction is giving back what it held: it is looked at a little later."""
    slow = consumer()
    deliver(limits, (slow, 1))
    slow.prefetch = -1
    leads.pass_time(5_000)
    assert limits.wake(100) == (1, leads.now_ms + 100)
    assert not leads.overdue
    slow.prefetch = 100
    leads.pass_time(100)
    limits.wake(100)
    assert [*leads.overdue] == [(slow, [1])]


def test_no_more_is_looked_at_than_is_asked_for(limits, leads) -> None:
    """About: a step is looked at whole."""
    slow = consumer()
    for start in range(0, 40, 10):
        deliver(limits, *((slow, key) for key in range(start + 1, start + 11)))
    leads.pass_time(5_000)
    assert limits.wake(15) == (20, leads.now_ms)
    assert limits.wake(15) == (20, 0)
    assert sum(len(keys) for _, keys in leads.overdue) == 40


def test_what_is_settled_is_let_go_of_as_others_come(limits) -> None:
    """A hundred thousand that were acknowledged in time stand there for no week."""
    quick = consumer(7 * 24 * 3_600_000)
    for key in range(1, 2_001):
        deliver(limits, (quick, key))
        del quick.unacknowledged[key]
    assert len(limits._deadlines) < 10
    assert len(limits._given_by) < 10


def test_nothing_is_left_when_it_is_over(limits, leads) -> None:
    """It is given, to be let go of in steps."""
    deliver(limits, (consumer(), 1))
    known, *_ = limits.empty()
    assert known == {1: 1}
    leads.pass_time(9_000)
    assert limits.wake(9) == (0, 0)


def test_it_is_given_room_again_for_what_it_says_something_of() -> None:
    """Once for each that was taken from it; whoever is closed gets none."""
    slow = consumer()
    slow.lapse(1)
    slow.lapse(2)
    assert slow.prefetch == 98
    assert [slow.answered(1), slow.answered(1)] == [True, False]
    assert slow.prefetch == 99
    slow.is_closed, slow.prefetch = True, 0
    assert slow.answered(2)
    assert slow.prefetch == 0


def test_what_a_transaction_gave_back_beside_all_else_takes_up_no_room() -> None:
    """A window may hold more than its consumer may have: it has no less room for that later."""
    slow = Consumer(SimpleNamespace(), "s", mode=AcknowledgeMode.INDIVIDUAL, prefetch=1)
    slow.lapse(1)
    slow.lapse(2)
    assert slow.prefetch == 0
    assert slow.answered(2)
    assert slow.prefetch == 0
    assert slow.answered(1)
    assert slow.prefetch == 1


def test_what_it_gets_once_more_it_has_not_lost(limits) -> None:
    """What it says of it is about the new delivery then, and its room is there."""
    slow = consumer()
    slow.lapse(1)
    slow.unacknowledged[1] = None
    limits.give(slow, array("q", [1]))
    assert slow.prefetch == 100
    assert not slow.answered(1)
