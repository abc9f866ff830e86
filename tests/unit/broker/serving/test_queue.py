"""
A queue's order: what was given back, persistent messages up to the mark, non-persistent between.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.numbering import LEADERS_STEP, Numbering
from holdfast.model.records import MessageRecord
from tests.unit.broker.served import served, served_again

NEW_GENERATION = Numbering(generation=1)
FLOOR = NEW_GENERATION.floor


def queue_of(count: int, mark: int = 1000) -> Queue:
    queue = served(1, "q")
    for sequence in range(1, count + 1):
        queue.index.put(sequence, sequence, 1)
    queue.lasting.next_sequence = queue.assigned_sequence = count + 1
    queue.lasting.dispatch_mark = mark
    return queue


def add_transient(queue: Queue, serial: int, order: int) -> None:
    message = TransientMessage(-serial, b"", b"", order)
    queue.transients[message.key] = message
    queue.choice.waiting.append(message.key)


def drained(queue: Queue) -> list[int]:
    return list(iter(queue.choice.next_key, 0))


def test_transient_messages_stand_where_they_were_sent() -> None:
    """
    Each behind the persistent message that was sent before it.
    """
    queue = queue_of(3)
    for serial, order in ((1, 0), (2, 0), (3, 2), (4, 3)):
        add_transient(queue, serial, order)
    assert drained(queue) == [-1, -2, 1, 2, -3, 3, -4]


def test_a_transient_message_waits_for_what_is_on_its_way_before_it() -> None:
    """
    Its predecessor is assigned but not applied: it must not overtake.
    """
    queue = queue_of(1)
    queue.assigned_sequence = 3
    add_transient(queue, 1, 2)
    assert drained(queue) == [1]
    queue.index.put(2, 2, 1)
    queue.lasting.next_sequence = 3
    assert drained(queue) == [2, -1]


def test_nothing_goes_out_above_the_mark() -> None:
    """
    A new leader would not know that it may have been seen.
    """
    queue = queue_of(5, mark=3)
    assert drained(queue) == [1, 2, 3]
    queue.lasting.dispatch_mark = 4
    assert drained(queue) == [4]


def test_what_is_given_back_goes_first_and_in_order() -> None:
    """
    Whatever order it came back in, persistent and not.
    """
    queue = queue_of(4)
    for serial, order in ((1, 1), (2, 1), (3, 0)):
        add_transient(queue, serial, order)
    add_transient(queue, 4, 4)
    queue.choice.waiting.clear()
    queue.choice.cursor = 4
    queue.give_back([2, -2, 1, -1, -3], redelivered=True)
    assert drained(queue) == [-3, 1, -1, -2, 2, 4]
    assert queue.custody.redelivered == {1, 2, -1, -2, -3}


def test_what_died_meanwhile_is_not_given_back() -> None:
    """
    Acknowledged by id, or purged: it does not come again, and nothing is remembered of it.
    """
    queue = queue_of(3)
    drained(queue)
    queue.index.remove([2])
    queue.give_back([1, 2, -7], redelivered=True)
    queue.index.remove([1])
    assert drained(queue) == []
    assert queue.custody.redelivered == {1}


def test_what_is_being_purged_is_not_given_back() -> None:
    """
    Its consumer died while the purge is on its way to the log: nobody gets it any more.
    """
    queue = queue_of(3)
    drained(queue)
    queue.purging_through = 2
    queue.give_back([1, 2, 3], redelivered=True)
    assert drained(queue) == [3]


def test_withheld_messages_are_passed_over() -> None:
    """
    Damaged ones hold nobody up.
    """
    queue = queue_of(4)
    queue.custody.withheld |= {1, 3, 4}
    assert drained(queue) == [2]
    queue.custody.withheld.clear()
    queue.give_back([3, 1], redelivered=False)
    assert drained(queue) == [1, 3]


def test_a_new_leadership_starts_from_what_lives() -> None:
    """
    The cursor stands at the first live message; flags reach to the mark or the last message.
    """
    queue = queue_of(4, mark=3)
    queue.index.remove([1])
    add_transient(queue, 1, 4)
    queue = served_again(queue)
    assert drained(queue) == [2, 3]
    assert [queue.is_flagged(key) for key in (3, 4, -1)] == [True, False, False]
    queue.lasting.dispatch_mark = 99
    queue = served_again(queue)
    assert queue.flag_through == 4
    assert served(2, "empty").choice.cursor == 1


def test_a_closed_subscription_gives_back_what_it_holds() -> None:
    """
    And leaves the ring of the ready; closing is final.
    """
    queue = queue_of(2)
    subscription = Subscription(None, "s", mode=AcknowledgeMode.CLIENT, prefetch=9)  # type: ignore[arg-type]
    subscription.is_ready = True
    queue.subscriptions[subscription] = None
    queue.choice.ready.append(subscription)
    subscription.unacknowledged = dict.fromkeys(drained(queue))
    queue.close_subscription(subscription)
    assert list(queue.take_back(subscription, 9)) == []
    assert (queue.subscriptions, list(queue.choice.ready), subscription.unacknowledged) == (
        {},
        [],
        {},
    )
    assert subscription.is_closed
    assert drained(queue) == [1, 2]
    assert queue.is_flagged(1)
    assert queue.transient_count == 0


def test_what_died_while_it_waited_is_passed_over() -> None:
    """
    A non-persistent message settled before anybody had it must not break the queue.
    """
    queue = queue_of(1)
    add_transient(queue, 1, 0)
    add_transient(queue, 2, 0)
    del queue.transients[-1]
    assert drained(queue) == [-2, 1]


def test_what_is_given_back_twice_goes_out_once() -> None:
    """
    Reserved and released again and again, it takes one place; what is ahead takes none.
    """
    queue = queue_of(3)
    assert [queue.choice.next_key(), queue.choice.next_key()] == [1, 2]
    for _ in range(3):
        queue.give_back([2], redelivered=True)
        queue.custody.reserve(2)
        assert list(queue.release(queue, [2], 64)) == []
        queue.custody.reserve(3)
        assert list(queue.release(queue, [3], 64)) == []
    assert len(queue.choice.returned) == 1
    assert drained(queue) == [2, 3]


def test_a_renewed_queue_knows_what_is_under_way() -> None:
    """
    Nobody consumes, what may have been seen is flagged, numbers and reservations stay.
    """
    queue = queue_of(4)
    queue.assigned_sequence = 7
    queue.asked_mark = 2000
    queue.choice.cursor = 4
    subscription = Subscription(None, "s", mode=AcknowledgeMode.CLIENT, prefetch=9)  # type: ignore[arg-type]
    subscription.unacknowledged = {1: None}
    queue.subscriptions[subscription] = None
    queue.custody.reserved.update([2, -5])
    queue.renew({3})
    assert subscription.is_closed
    assert not queue.subscriptions
    assert (queue.assigned_sequence, queue.asked_mark) == (7, 2000)
    assert drained(queue) == [1, 4]
    assert queue.is_flagged(4)
    assert not queue.is_flagged(5)
    assert list(queue.release(queue, [2], 64)) == []
    assert drained(queue) == [2]


def test_a_generation_begins_above_its_floor() -> None:
    """
    No number below is given; what lives there may have been seen; nothing waits for the gap.
    """
    queue = queue_of(2, mark=1)
    queue = served_again(queue, NEW_GENERATION)
    assert queue.assigned_sequence == FLOOR + 1
    assert queue.is_flagged(2)
    add_transient(queue, 1, queue.newest_under_way)
    queue.lasting.dispatch_mark = 3
    assert drained(queue) == [1, 2, -1]
    queue.assigned_sequence += 1
    add_transient(queue, 2, queue.newest_under_way)
    assert drained(queue) == []
    queue.index.put(FLOOR + 1, 9, 1)
    queue.lasting.next_sequence = FLOOR + 2
    queue.lasting.dispatch_mark = FLOOR + 100
    assert drained(queue) == [FLOOR + 1, -2]
    assert not queue.is_flagged(FLOOR + 1)


def test_an_empty_queue_begins_at_its_generations_first_number() -> None:
    """
    A queue where nothing lives does not look for it from 1 on.
    """
    queue = served(1, "q")
    queue = served_again(queue, NEW_GENERATION)
    assert (queue.choice.cursor, queue.newest_under_way) == (FLOOR + 1, 0)
    add_transient(queue, 1, queue.newest_under_way)
    assert drained(queue) == [-1]


def test_a_leader_leaves_out_what_one_before_may_have_given_in_vain() -> None:
    """
    A step for each term since the queue's last number, and none where nobody else can have led.
    """
    queue = queue_of(2, mark=1)
    queue.lasting.numbered_term = 5
    queue = served_again(queue, Numbering(term=8))
    assert queue.assigned_sequence == 3 + 3 * LEADERS_STEP
    assert queue.newest_under_way == 2
    assert not queue.is_flagged(2)
    queue = served_again(queue, Numbering(term=5))
    assert queue.assigned_sequence == 3
    queue = served_again(queue)
    assert queue.assigned_sequence == 3


def test_a_queue_without_traffic_has_little() -> None:
    """
    A hundred thousand of them are an ordinary broker; empty containers would be most of it.
    """
    queue = served(1, "q")
    queue.index.put(1, 1, 1)
    assert queue.is_idle
    assert queue.transient_count == 0
    assert not queue.is_held
    assert not queue.is_flagged(1)
    queue.forget([1])
    assert queue.is_idle
    assert not queue.choice.has_ready
    assert not queue.is_idle


def test_a_queue_built_anew_is_forgotten_like_any_other() -> None:
    """
    What it was given then is the leader's own, too.
    """
    queue = served(1, "q")
    queue.index.put(3, 3, 1)
    queue.renew({2, 3})  # The end of 2 is applied already.
    assert queue.custody.withheld == {3}
    assert served_again(queue).custody.withheld == set()


def test_much_is_released_in_steps_and_nothing_goes_out_meanwhile() -> None:
    """
    A transaction that settled much is rolled back; the old order is kept.
    """
    queue = queue_of(9)
    keys = [queue.choice.next_key() for _ in range(6)]
    queue.custody.reserved.update(keys)
    steps = queue.release("a transaction", keys, 2)
    for left in (4, 2):
        next(steps)
        assert queue.is_held
        assert len(queue.custody.reserved) == left
    assert list(steps) == []
    assert not queue.is_held
    assert not queue.custody.reserved
    assert [queue.choice.next_key() for _ in range(9)] == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_queue_hears_of_what_is_applied_to_its_lasting_half() -> None:
    """
    Contents come into memory and leave it, what is known of single messages goes with them.
    """
    queue = served(1)
    flow = queue.leadership.flow
    record = MessageRecord(1, 1, b"", b"body", 4)
    queue.index.put(1, 1, 4)
    queue.added(1, [record])
    assert (queue.cache, flow.memory_bytes) == ({1: record}, 4 + flow.overhead)
    queue.custody.redelivered.add(1)
    queue.index.remove([1])
    queue.gone([1])
    assert (queue.cache, flow.memory_bytes, queue.custody.redelivered) == ({}, 0, set())


def test_a_purge_leaves_the_contents_of_what_came_behind_it() -> None:
    """
    The rest is counted until it is let go of.
    """
    queue = queue_of(3)
    flow = queue.leadership.flow
    queue.added(1, [MessageRecord(1, number, b"", b"x", 1) for number in (1, 2, 3)])
    queue.index.detach_through(2)
    queue.purged()
    assert list(queue.cache) == [3]
    assert len(list(flow.discards.contents())) == 2
    while flow.discards:
        flow.let_go()
    assert flow.memory_bytes == 1 + flow.overhead


def test_what_is_on_its_way_as_somebody_first_asks_is_not_left_out() -> None:
    """
    The choice is made late, with numbers given and nothing applied yet.
    """
    queue = served(1)
    queue.assigned_sequence = 3
    assert queue.choice.cursor == 1
