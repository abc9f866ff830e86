"""
The plain choice: in order, to whoever has room, one after the other.
"""

from __future__ import annotations

from holdfast.broker.lasting.seen_ranges import Seen


def test_consumers_take_turns_and_one_without_room_holds_nobody_up(desk, new_client) -> None:
    """
    Each message goes to the one at the head of the ring, which then moves to the tail.
    """
    first, second, full = new_client(), new_client(), new_client()
    full.room_bytes = 0
    for client in (first, full, second):
        desk.subscribe(client=client)
    for number in range(4):
        desk.send(b"%d" % number)
    desk.turn()
    assert (first.keys, second.keys, full.keys) == ([1, 3], [2, 4], [])


def test_many_that_close_leave_the_ring_together(desk, new_client) -> None:
    """
    Each by itself would look through all the others.
    """
    consumers = [desk.subscribe(client=new_client()) for _ in range(9)]
    ring = desk.queue().choice.ready
    seen = []
    for consumer in consumers:
        desk.broker.unsubscribe(consumer)
        seen.append(len(desk.queue().choice.ready))
    assert seen[:5] == [9, 9, 9, 9, 4]
    assert len(ring) <= 1


def test_what_is_kept_from_everybody_is_gone_past_in_steps(desk) -> None:
    """
    A transaction may settle a hundred thousand by their ids.
    """
    for _ in range(9):
        desk.send(b"x")
    desk.turn()
    queue = desk.queue()
    for key in range(1, 8):
        queue.custody.reserve(key)
    for _ in range(3):
        assert queue.choice.pass_over(4) <= 4
    assert queue.choice.cursor == 8


def test_also_steps_of_one_go_past_what_is_kept_from_everybody(desk) -> None:
    """
    Each comes further than the one before, else nothing behind would ever go out.
    """
    for _ in range(4):
        desk.send(b"x")
    desk.turn()
    queue = desk.queue()
    for key in (1, 2, 3):
        queue.custody.reserve(key)
    for _ in range(4):
        queue.choice.pass_over(1)
    assert queue.choice.next_key() == 4


def test_what_stands_before_a_purge_is_left_out(desk) -> None:
    """
    It never goes back.
    """
    choice = desk.queue().choice
    choice.skip_to(7)
    choice.skip_to(3)
    assert choice.cursor == 7
    assert choice.is_at_hand(7)
    assert not choice.is_at_hand(6)


def test_what_no_leader_before_may_have_sent_is_not_flagged(desk, new_client) -> None:
    """Also between others, as these went first by priority until the policy changed."""
    for _ in range(6):
        desk.send(b"x")
    desk.turn()
    queue = desk.queue()
    queue.flag_through, queue.flag_seen = 5, Seen(1, ((4, 5),))
    client = new_client()
    desk.subscribe(client=client)
    desk.turn()
    expected = [(1, True), (2, False), (3, False), (4, True), (5, True), (6, False)]
    assert client.deliveries == expected
    assert [queue.is_flagged(key) for key, _ in expected] == [it for _, it in expected]
