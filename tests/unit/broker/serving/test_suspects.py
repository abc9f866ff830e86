"""
Who is given a message alone: somebody who holds nothing, and who is made to hold nothing.
"""

from __future__ import annotations

from types import SimpleNamespace

from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.restoring import restore
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.suspects import Suspects


def consumer(
    prefetch: int = 10, held: int = 0, mode: AcknowledgeMode = AcknowledgeMode.INDIVIDUAL
) -> Consumer:
    made = Consumer(SimpleNamespace(room_bytes=1 << 20), "s", mode=mode, prefetch=prefetch)
    made.unacknowledged = dict.fromkeys(range(1, held + 1))
    return made


def waiting() -> Suspects:
    suspects = Suspects()
    suspects.waiting.put(7, 0, 7)
    return suspects


def test_who_holds_nothing_has_it_alone_and_then_room_as_before() -> None:
    """As long as others wait it gets those, one by one."""
    suspects, idle = waiting(), consumer()
    assert suspects.is_turn_of(idle)
    suspects.give(idle)
    idle.unacknowledged[7] = None
    assert not idle.has_room()
    del idle.unacknowledged[7]
    assert suspects.is_turn_of(idle)
    suspects.waiting.pop()
    assert idle.prefetch == 1
    assert not suspects.is_turn_of(idle)
    assert idle.prefetch == 10


def test_one_of_many_who_are_at_work_is_to_run_empty() -> None:
    """And another one where that takes long; the rest go on."""
    suspects = waiting()
    first, second, third = consumer(held=3), consumer(held=3), consumer(held=3)
    for each in (first, second, third):
        assert not suspects.is_turn_of(each)
    assert [each.prefetch for each in (first, second, third)] == [1, 10, 10]
    for _ in range(64):
        suspects.is_turn_of(second)
    assert second.prefetch == 1
    assert third.prefetch == 10


def test_where_the_one_is_gone_the_next_is_to_run_empty() -> None:
    """At once; whoever is closed is given no room again."""
    suspects = waiting()
    first, second = consumer(held=3), consumer(held=3)
    suspects.is_turn_of(first)
    first.is_closed, first.prefetch = True, 0
    suspects.is_turn_of(second)
    assert second.prefetch == 1
    suspects.waiting.pop()
    suspects.is_turn_of(first)
    assert first.prefetch == 0


def test_who_ran_empty_and_has_its_room_again_is_not_waited_for() -> None:
    """What it was given since is not what it had: the next that waits makes somebody run empty."""
    suspects, only = waiting(), consumer(held=3)
    suspects.is_turn_of(only)
    only.unacknowledged.clear()
    suspects.widen(only)
    only.unacknowledged = dict.fromkeys((4, 5))
    assert only.prefetch == 10
    assert not suspects.is_turn_of(only)
    assert only.prefetch == 1


def test_who_never_acknowledges_holds_nothing() -> None:
    """It is no less for it."""
    suspects = waiting()
    quick = consumer(mode=AcknowledgeMode.AUTO)
    assert suspects.is_turn_of(quick)
    suspects.give(quick)
    assert quick.prefetch == 10


def test_a_late_word_makes_no_room_beside_what_is_sent_alone() -> None:
    """
    What was taken from it for its time limit took up room: it has that once it is not alone.
    """
    suspects, late = waiting(), consumer(prefetch=3, held=1)
    del late.unacknowledged[1]
    late.lapse(1)
    suspects.give(late)
    late.unacknowledged[7] = None
    assert late.answered(1)
    assert not late.has_room()
    del late.unacknowledged[7]
    late.lapse(7)
    assert not late.has_room()
    assert late.answered(7)
    assert late.has_room()
    suspects.waiting.pop()
    assert not suspects.is_turn_of(late)
    assert late.prefetch == 3


def test_who_is_narrowed_twice_has_room_when_both_are_over() -> None:
    """A subscription to several queues may be, by each of them."""
    one, other, both = waiting(), waiting(), consumer()
    one.give(both)
    other.give(both)
    one.widen(both)
    assert both.prefetch == 1
    other.widen(both)
    assert both.prefetch == 10


def test_who_has_one_alone_has_so_whoever_sees_to_it() -> None:
    """It never has room beside that in between; and closed ones are left out."""
    before, after, one, closed = waiting(), waiting(), consumer(), consumer()
    before.give(one)
    before.give(closed)
    closed.is_closed = True
    assert before.narrowed == [one]
    after.take_over(before, one)
    assert (before.narrowed, after.narrowed, one.prefetch) == ([], [one], 1)
    before.widen(one)
    assert one.prefetch == 1
    after.widen(one)
    assert one.prefetch == 10


def test_room_that_comes_back_while_a_window_is_put_together_is_kept() -> None:
    """Nothing is given meanwhile; then there is all the room that there was."""
    suspects = waiting()
    subscription = Subscription(
        SimpleNamespace(room_bytes=1 << 20),
        "s",
        mode=AcknowledgeMode.INDIVIDUAL,
        prefetch=10,
    )
    subscription.unacknowledged = dict.fromkeys(range(1, 5))
    suspects.give(subscription)
    steps = restore(subscription, [5, 6], 1)
    next(steps)
    suspects.widen(subscription)
    assert not subscription.has_room()
    for _ in steps:
        pass
    assert (subscription.prefetch, len(subscription.unacknowledged)) == (10, 6)
