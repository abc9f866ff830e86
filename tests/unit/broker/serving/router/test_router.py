"""
Whose turn it is on a queue whose consumers are not equal, as a whole broker has it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode, Claim
from holdfast.broker.serving.effective import Sharing
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.router.gate import WAIT_MS
from holdfast.broker.serving.router.router import Router
from holdfast.model.policies import as_text
from holdfast.model.records import PolicyRecord

EXCLUSIVE = Claim(is_exclusive=True)


def send(desk, count: int) -> None:
    for _ in range(count):
        desk.send(b"x")
    desk.turn()


def acknowledge(desk, subscription, *keys: int) -> None:
    for key in keys:
        desk.broker.acknowledge(subscription, key, subscription.receiver, None)
    desk.turn()


def set_policy(desk, **values: str | int) -> None:
    desk.broker.receipts.record(PolicyRecord("queue://orders", as_text(values)))
    desk.turn()


NOON = 1 << 40
"""In microseconds, behind whatever the log's clock says."""


def passes(desk, milliseconds: int) -> None:
    sending = desk.broker.sending
    sending.now_microseconds = max(NOON, sending.now_microseconds) + 1000 * milliseconds
    desk.broker.wake()
    desk.turn()


# Priority -----------------------------------------------------------------------------------------


def test_the_highest_with_room_get_messages_first(desk, new_client) -> None:
    """Q13: those of a lower priority only once no higher one has room; equal ones take turns."""
    low, high, other, middle = (new_client() for _ in range(4))
    desk.subscribe(client=low, claim=Claim(-1))
    subscription = desk.subscribe(client=high, claim=Claim(5), prefetch=2)
    desk.subscribe(client=other, claim=Claim(5), prefetch=1)
    desk.subscribe(client=middle, prefetch=1)
    send(desk, 6)
    assert (high.keys, other.keys, middle.keys, low.keys) == ([1, 3], [2], [4], [5, 6])
    acknowledge(desk, subscription, 3)
    send(desk, 2)
    assert (high.keys, low.keys) == ([1, 3, 7], [5, 6, 8])


def test_a_lower_one_goes_on_in_the_same_turn(desk, new_client) -> None:
    """What is there goes out at once, down to the lowest."""
    clients = [new_client() for _ in range(3)]
    for priority, client in enumerate(clients):
        desk.subscribe(client=client, claim=Claim(priority), prefetch=1)
    desk.send(b"x")
    desk.send(b"x")
    desk.send(b"x")
    desk.seal()
    desk.commit()
    desk.dispatch()
    assert [client.keys for client in clients] == [[3], [2], [1]]


def test_a_queue_is_served_as_before_where_nobody_claims_anything(desk, new_client) -> None:
    """Who does not use it pays nothing; also once whoever did has left."""
    before, special, after = (new_client() for _ in range(3))
    desk.subscribe(client=before)
    assert type(desk.queue().choice) is Plain
    order = desk.queue().choice
    claimed = desk.subscribe(client=special, claim=Claim(1))
    assert type(desk.queue().choice) is Router
    desk.subscribe(client=after)
    send(desk, 2)
    assert special.keys == [1, 2]
    desk.broker.unsubscribe(claimed)
    assert desk.queue().choice is order
    desk.turn()
    assert (before.deliveries, after.deliveries) == ([(1, True)], [(2, True)])
    send(desk, 2)
    assert (before.keys, after.keys) == ([1, 3], [2, 4])


def test_what_is_given_back_keeps_its_place(desk, new_client) -> None:
    """Also of what is not stored; a purge takes all of it."""
    one, two = new_client(), new_client()
    first = desk.subscribe(client=one, claim=Claim(1), prefetch=4)
    for _ in range(2):
        desk.send(b"x")
        desk.broker.send_transient(desk.queue(), b"", b"in memory")
    desk.turn()
    assert one.keys == [1, -1, 2, -2]
    desk.broker.unsubscribe(first)
    second = desk.subscribe(client=two, claim=Claim(1), prefetch=2)
    desk.turn()
    assert two.deliveries == [(1, True), (-1, True)]
    choice = desk.queue().choice
    assert choice.is_at_hand(2)
    assert choice.cursor == 3
    desk.broker.purge("orders", desk.client, b"p")
    acknowledge(desk, second, 1)
    assert two.keys == [1, -1]
    assert choice.cursor == 3


def test_priorities_count_only_where_a_policy_does_not_say_otherwise(desk, new_client) -> None:
    """`useConsumerPriority`; who is there already keeps what he has."""
    one, two = new_client(), new_client()
    set_policy(desk, useConsumerPriority="false")
    desk.subscribe(client=one, claim=Claim(1))
    assert type(desk.queue().choice) is Plain
    set_policy(desk, useConsumerPriority="true")
    desk.subscribe(client=two, claim=Claim(1), prefetch=1)
    send(desk, 2)
    assert (one.keys, two.keys) == ([2], [1])


# The only one -------------------------------------------------------------------------------------


def test_one_gets_all_and_the_next_goes_on_in_order(desk, new_client) -> None:
    """Q9: of three, whoever came first; each that dies is followed by the next, and nothing is
    out of order, whatever the prefetch."""
    clients = [new_client() for _ in range(3)]
    several = [desk.subscribe(client=each, claim=EXCLUSIVE, prefetch=3) for each in clients]
    send(desk, 9)
    seen: list[tuple[int, bool]] = []
    for client, subscription in zip(clients, several, strict=True):
        assert client.keys == [key for key, _ in client.deliveries]
        acknowledge(desk, subscription, client.keys[0])
        seen += client.deliveries
        desk.broker.unsubscribe(subscription)
        desk.turn()
    assert [key for key, _ in seen] == [1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6]
    assert [key for key, is_again in seen if not is_again] == [1, 2, 3, 4, 5, 6]


def test_others_get_nothing_while_there_is_one(desk, new_client) -> None:
    """And all get messages again once nobody asks for it any more."""
    plain, sole, late = (new_client() for _ in range(3))
    desk.subscribe(client=plain, prefetch=2)
    only = desk.subscribe(client=sole, claim=EXCLUSIVE)
    desk.subscribe(client=late, prefetch=2)
    send(desk, 3)
    assert (plain.keys, sole.keys, late.keys) == ([], [1, 2, 3], [])
    acknowledge(desk, only, 1, 2, 3)
    desk.broker.unsubscribe(only)
    send(desk, 4)
    assert type(desk.queue().choice) is Plain
    assert sorted(plain.keys + late.keys) == [4, 5, 6, 7]


def test_all_are_where_a_policy_says_so(desk, new_client) -> None:
    """`allConsumersExclusiveByDefault`: what ActiveMQ calls it, RabbitMQ's single active one."""
    set_policy(desk, allConsumersExclusiveByDefault="true")
    one, two = new_client(), new_client()
    first = desk.subscribe(client=one)
    desk.subscribe(client=two)
    send(desk, 2)
    assert (one.keys, two.keys) == ([1, 2], [])
    desk.broker.unsubscribe(first)
    desk.turn()
    assert two.deliveries == [(1, True), (2, True)]


def test_a_higher_one_takes_over_when_nothing_is_held(desk, new_client) -> None:
    """Q10: it waits until the old one has acknowledged all, and what comes meanwhile waits too."""
    old, new = new_client(), new_client()
    before = desk.subscribe(client=old, claim=EXCLUSIVE, prefetch=3)
    send(desk, 2)
    desk.subscribe(client=new, claim=Claim(1, is_exclusive=True))
    send(desk, 1)
    assert (old.keys, new.keys) == ([1, 2], [])
    acknowledge(desk, before, 2)
    assert new.keys == []
    acknowledge(desk, before, 1)
    assert (old.keys, new.keys) == ([1, 2], [3])


def test_an_equal_one_waits_for_its_turn(desk, new_client) -> None:
    """First come wins, but against the highest priority that there is."""
    clients = [new_client() for _ in range(3)]
    desk.subscribe(client=clients[0], claim=Claim(7, is_exclusive=True))
    desk.subscribe(client=clients[1], claim=Claim(7, is_exclusive=True))
    send(desk, 1)
    assert [each.keys for each in clients] == [[1], [], []]
    for each in clients[:2]:
        desk.subscribe("other", client=each, claim=Claim(127, is_exclusive=True))
    desk.turn()
    desk.send(b"x", "other")
    desk.turn()
    assert [each.keys for each in clients] == [[1], [1], []]


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_comes_back_as_it_drains_goes_to_the_next(desk, new_client, is_stored) -> None:
    """Not to the old one, and the change does not wait for it to be settled."""
    desk.broker.state.format_level = 4
    old, new = new_client(), new_client()
    before = desk.subscribe(client=old, claim=EXCLUSIVE)
    for _ in range(2):
        if is_stored:
            desk.send(b"x")
        else:
            desk.broker.send_transient(desk.queue(), b"", b"x")
    desk.turn()
    one, two = old.keys
    desk.subscribe(client=new, claim=Claim(1, is_exclusive=True))
    desk.broker.give_back(before, one, 0, old, b"r")
    desk.turn()
    assert (old.keys, new.keys) == ([one, two], [])
    acknowledge(desk, before, two)
    assert new.deliveries == [(one, True)]


def test_the_next_begins_only_when_the_log_says_what_came_back(desk, new_client) -> None:
    """Q12, rabbitmq#14141: else it would have later ones first."""
    desk.broker.state.format_level = 4
    old, new = new_client(), new_client()
    before = desk.subscribe(client=old, claim=EXCLUSIVE, prefetch=1)
    send(desk, 2)
    desk.subscribe(client=new, claim=Claim(1, is_exclusive=True))
    desk.broker.give_back(before, 1, 0, old, None)
    desk.dispatch()
    assert new.keys == []
    desk.turn()
    assert new.deliveries == [(1, True), (2, False)]


def test_what_rests_does_not_stop_the_change(desk, new_client) -> None:
    """A delay may be as long as a week."""
    desk.broker.state.format_level = 4
    old, new = new_client(), new_client()
    before = desk.subscribe(client=old, claim=EXCLUSIVE, prefetch=1)
    send(desk, 2)
    desk.subscribe(client=new, claim=Claim(1, is_exclusive=True))
    desk.broker.give_back(before, 1, 9_000_000, old, None)
    desk.turn()
    assert new.keys == [2]
    passes(desk, 9_000_000)
    assert new.deliveries == [(2, False), (1, True)]


def test_at_the_deadline_what_is_held_is_taken_back(desk, new_client) -> None:
    """Q10: after a minute; in its order and flagged, and its old owner has no say in it."""
    old, new = new_client(), new_client()
    before = desk.subscribe(client=old, claim=EXCLUSIVE, prefetch=200)
    send(desk, 150)
    desk.subscribe(client=new, claim=Claim(1, is_exclusive=True), prefetch=200)
    send(desk, 1)
    passes(desk, 0)
    passes(desk, 59_999)
    assert new.keys == []
    passes(desk, 1)
    assert new.deliveries == [(key, key < 151) for key in range(1, 152)]
    assert before.unacknowledged == {}
    send(desk, 1)
    assert (len(old.keys), new.keys[-1]) == (150, 152)


def test_who_held_messages_of_all_are_waited_for(desk, new_client) -> None:
    """Others had messages before somebody wanted to be the only one: many are asked in steps."""
    several = [desk.subscribe(client=new_client(), prefetch=1) for _ in range(200)]
    send(desk, 200)
    sole = new_client()
    desk.subscribe(client=sole, claim=EXCLUSIVE)
    send(desk, 1)
    for number, each in enumerate(several):
        assert sole.keys == [], number
        acknowledge(desk, each, *each.receiver.keys)
    assert sole.keys == [201]
    assert sum(len(each.receiver.keys) for each in several) == 200


def test_a_successor_that_leaves_is_followed_by_who_was_there(desk, new_client) -> None:
    """And that one goes on with what it holds, at once."""
    old, new = new_client(), new_client()
    desk.subscribe(client=old, claim=EXCLUSIVE)
    send(desk, 1)
    after = desk.subscribe(client=new, claim=Claim(1, is_exclusive=True))
    send(desk, 1)
    desk.broker.unsubscribe(after)
    desk.turn()
    assert (old.keys, new.keys) == ([1, 2], [])


def test_a_still_higher_one_comes_instead_of_the_successor(desk, new_client) -> None:
    """The one that was to be next waits for its turn."""
    clients = [new_client() for _ in range(3)]
    several = []
    for priority, client in enumerate(clients):
        several.append(desk.subscribe(client=client, claim=Claim(priority, is_exclusive=True)))
        if not priority:
            send(desk, 1)
    send(desk, 1)
    acknowledge(desk, several[0], 1)
    assert [each.keys for each in clients] == [[1], [], [2]]


def test_who_never_acknowledges_is_followed_at_once(desk, new_client) -> None:
    """It holds nothing."""
    old, new = new_client(), new_client()
    desk.subscribe(client=old, claim=EXCLUSIVE, mode=AcknowledgeMode.AUTO)
    send(desk, 1)
    desk.subscribe(client=new, claim=Claim(1, is_exclusive=True))
    send(desk, 1)
    assert (old.keys, new.keys) == ([1], [2])


# Transactions -------------------------------------------------------------------------------------


@pytest.fixture
def in_transaction(desk, new_client):
    """Of three messages two are acknowledged in a transaction of the old one; a new one waits."""
    old, new = new_client(), new_client()
    before = desk.subscribe(client=old, claim=EXCLUSIVE, prefetch=3)
    send(desk, 3)
    transaction = desk.broker.begin("t")
    transaction.add_settlement(before, [1, 2])
    acknowledge(desk, before, 3)
    desk.subscribe(client=new, claim=Claim(1, is_exclusive=True))
    send(desk, 1)
    assert new.keys == []
    return before, transaction, new


def roll_back(desk, transaction) -> None:
    for _ in desk.broker.abort(transaction):
        pass
    desk.turn()


def test_what_a_transaction_holds_is_held(desk, in_transaction) -> None:
    """Committed, it is gone."""
    before, transaction, new = in_transaction
    desk.broker.commit(transaction, before.receiver, b"c")
    desk.broker.errands.finish()
    desk.turn()
    assert new.keys == [4]


def test_what_is_rolled_back_is_the_old_ones_again(desk, in_transaction) -> None:
    """And is waited for."""
    before, transaction, new = in_transaction
    roll_back(desk, transaction)
    assert list(before.unacknowledged) == [1, 2]
    assert new.keys == []
    acknowledge(desk, before, 1, 2)
    assert new.keys == [4]


def test_what_is_rolled_back_after_the_change_is_the_next_ones(desk, in_transaction) -> None:
    """No two hold messages at once, though nobody waits for a transaction for ever."""
    before, transaction, new = in_transaction
    passes(desk, 0)
    passes(desk, 60_000)
    assert new.keys == [4]
    roll_back(desk, transaction)
    assert list(before.unacknowledged) == []
    assert new.deliveries == [(4, False), (1, True), (2, True)]


def test_a_transaction_of_who_is_gone_is_waited_for(desk, in_transaction) -> None:
    """Else what it gives back would come too late."""
    before, transaction, new = in_transaction
    desk.broker.unsubscribe(before)
    desk.turn()
    assert new.keys == []
    roll_back(desk, transaction)
    assert new.deliveries == [(1, True), (2, True), (4, False)]


def test_so_it_is_where_nobody_is_left_meanwhile(desk, new_client, in_transaction) -> None:
    """Whoever comes then goes on in order."""
    before, transaction, _ = in_transaction
    for each in [*desk.queue().subscriptions]:
        desk.broker.unsubscribe(each)
    desk.turn()
    last = new_client()
    desk.subscribe(client=last, claim=EXCLUSIVE)
    desk.turn()
    assert last.keys == []
    roll_back(desk, transaction)
    assert last.deliveries == [(1, True), (2, True), (4, False)]
    assert before.reserved_count == 0


# The gate -----------------------------------------------------------------------------------------


def test_the_first_wait_for_others(desk, new_client) -> None:
    """Q8: until enough are there, or for so long; and again when all have left."""
    set_policy(desk, consumersBeforeDispatchStarts=3, timeBeforeDispatchStarts=5_000)
    clients = [new_client() for _ in range(3)]
    send(desk, 6)
    several = [desk.subscribe(client=each) for each in clients[:2]]
    desk.turn()
    assert [each.keys for each in clients] == [[], [], []]
    several.append(desk.subscribe(client=clients[2]))
    desk.turn()
    assert [each.keys for each in clients] == [[1, 4], [2, 5], [3, 6]]
    for each in several:
        desk.broker.unsubscribe(each)
    desk.turn()
    last = new_client()
    desk.subscribe(client=last)
    passes(desk, 0)
    passes(desk, 4_999)
    assert last.keys == []
    passes(desk, 1)
    assert last.keys == [1, 2, 3, 4, 5, 6]
    assert type(desk.queue().choice) is Plain


def test_the_gate_is_closed_again_under_the_next_leader(desk, new_client) -> None:
    """Q8: consumers come back one by one; where only the number is said they wait a second."""
    set_policy(desk, consumersBeforeDispatchStarts=2)
    clients = [new_client() for _ in range(2)]
    for each in clients:
        desk.subscribe(client=each)
    send(desk, 2)
    assert [each.keys for each in clients] == [[1], [2]]
    desk.fail_over()
    first = new_client()
    desk.subscribe(client=first)
    passes(desk, 0)
    assert first.keys == []
    passes(desk, WAIT_MS)
    assert first.keys == [1, 2]


def test_a_gate_holds_the_only_one_up_too(desk, new_client) -> None:
    """All features together: who is the only one is known before the first message goes out."""
    set_policy(desk, consumersBeforeDispatchStarts=2)
    one, two = new_client(), new_client()
    desk.subscribe(client=one, claim=EXCLUSIVE)
    send(desk, 1)
    assert one.keys == []
    desk.subscribe(client=two, claim=Claim(1, is_exclusive=True))
    desk.turn()
    assert (one.keys, two.keys) == ([], [1])


def test_what_counts_of_a_claim() -> None:
    """A policy may take from it, and add to it."""
    assert Sharing(uses_priority=False).counted(Claim(3, is_exclusive=True)) == EXCLUSIVE
    assert Sharing(is_exclusive=True).counted(Claim(3)) == Claim(3, is_exclusive=True)
    assert Sharing().counted(Claim()) == Claim()
