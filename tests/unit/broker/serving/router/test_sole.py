"""
Which one consumer gets messages: the states, step by step.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode, Claim, Consumer
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.sole import DRAIN_MS, Sole
from tests.unit.broker.served import served

NOW = 1_000_000


@pytest.fixture
def queue() -> Queue:
    return served(1)


@pytest.fixture
def come(new_client):
    def come(*keys: int) -> Consumer:
        """A consumer that holds these."""
        consumer = Consumer(new_client(), "s", mode=AcknowledgeMode.INDIVIDUAL, prefetch=9)
        consumer.claim = Claim(is_exclusive=True)
        consumer.unacknowledged = dict.fromkeys(keys)
        return consumer

    return come


def test_many_are_looked_at_in_steps(queue, come) -> None:
    """And those who stood in a ring say that they do no more."""
    sole = Sole(queue)
    several = [come() for _ in range(5)] + [come(-1)]
    for each in several:
        each.is_ready = True
    sole.succeed(come(), several)
    assert [sole.look(2) for _ in range(2)] == [False, False]
    assert [each.is_ready for each in several] == [False] * 4 + [True] * 2
    assert sole.look(2)
    assert sole.is_draining
    several[-1].unacknowledged.clear()
    assert sole.look(2)
    assert not sole.is_draining


def test_many_that_let_go_are_looked_at_in_steps(queue, come) -> None:
    """One that holds something is enough to go on waiting."""
    sole = Sole(queue)
    several = [come(-1) for _ in range(4)]
    sole.succeed(come(), several)
    assert sole.look(9)
    for each in several:
        each.unacknowledged.clear()
    assert [sole.look(2), sole.look(2)] == [False, True]
    assert not sole.is_draining


def test_what_is_held_too_long_is_taken_back_in_steps(queue, come) -> None:
    """So many at once as it is asked for."""
    sole = Sole(queue)
    one, two = come(-1, -2, -3), come(-4)
    sole.succeed(come(), [one, two])
    sole.look(9)
    assert sole.wake(NOW, 2) == (0, NOW + DRAIN_MS)
    late = NOW + DRAIN_MS
    assert sole.wake(late, 2) == (2, late)
    assert list(one.unacknowledged) == [-3]
    assert sole.may_hold(one) is False
    assert sole.wake(late, 2) == (2, 0)
    assert sole.look(9)
    assert not sole.is_draining
    assert sole.wake(late, 2) == (0, 0)


def test_a_window_that_is_put_together_is_let_alone(queue, come) -> None:
    """A transaction that is rolled back owns it for some steps; then it is taken back, too."""
    sole = Sole(queue)
    old = come(-1)
    sole.succeed(come(), [old])
    sole.look(9)
    sole.wake(NOW, 9)
    late = NOW + DRAIN_MS
    old.prefetch = -1
    assert sole.wake(late, 9) == (0, late + 100)
    assert list(old.unacknowledged) == [-1]
    old.prefetch = 9
    assert sole.wake(late + 100, 9) == (1, 0)
    assert not old.unacknowledged


def test_who_is_asked_again_is_not_waited_for(queue, come) -> None:
    """What it holds is its own."""
    sole = Sole(queue)
    one, two = come(), come()
    sole.succeed(one)
    sole.look(9)
    one.unacknowledged = {-1: None}
    sole.succeed(two)
    assert sole.look(9)
    assert (sole.active, sole.may_hold(one)) == (None, True)
    sole.succeed(one)
    sole.look(9)
    assert sole.active is one
    assert not sole.may_hold(two)
    sole.succeed(None)
    assert not sole.is_in_force
    assert sole.may_hold(two)
