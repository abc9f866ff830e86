"""
Message groups on a queue, as a whole broker has them: one consumer for each, and its order kept.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.sequence_index import BY_GROUP
from holdfast.broker.serving.consumer import AcknowledgeMode, Claim
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.router import grouping
from holdfast.broker.serving.router.grouping import Grouping
from holdfast.broker.serving.router.owners import Owners
from holdfast.model.facts import Attributes, MessageFacts
from holdfast.model.policies import as_text
from holdfast.model.records import FormatRecord, PolicyRecord, ReturnCause

NOON = 1 << 40
"""In microseconds, behind whatever the log's clock says."""


def send(desk, *groups: int) -> None:
    """Send a message of each of these groups; 0: of none."""
    for group in groups:
        facts = MessageFacts(attributes=Attributes(group_hash=group)) if group else None
        desk.broker.send(desk.queue(), b"", b"x", desk.client, None, facts=facts)
    desk.turn()


def send_transient(desk, group: int) -> None:
    facts = MessageFacts(attributes=Attributes(group_hash=group))
    desk.broker.send_transient(desk.queue(), b"", b"x", facts)
    desk.turn()


def acknowledge(desk, subscription, *keys: int) -> None:
    for key in keys:
        desk.broker.acknowledge(subscription, key, subscription.receiver, None)
    desk.turn()


def set_policy(desk, **values: str | int) -> None:
    desk.broker.receipts.record(PolicyRecord("queue://orders", as_text(values)))
    desk.turn()


@pytest.fixture
def pair(desk, new_client):
    """Two consumers; each has one of the groups 1 and 2, which are the first two messages."""
    first, second = new_client(), new_client()
    subscriptions = [desk.subscribe(client=client) for client in (first, second)]
    send(desk, 1, 2)
    assert len(first.keys) == len(second.keys) == 1
    if first.keys == [2]:
        first, second = second, first
        subscriptions.reverse()
    return first, second, *subscriptions


def test_a_group_stays_with_its_consumer(desk, pair) -> None:
    """Its messages go to no other, and those of none to whose turn it is."""
    first, second, *_ = pair
    send(desk, 1, 1, 2, 1, 2, 0, 0)
    assert [key for key in first.keys if key < 8] == [1, 3, 4, 6]
    assert [key for key in second.keys if key < 8] == [2, 5, 7]
    assert {len(client.keys) for client in (first, second)} == {4, 5} or len(first.keys) == 5


def test_a_queue_without_groups_has_no_router(desk, new_client) -> None:
    """It begins with the first message of any, whoever is there already."""
    desk.subscribe(client=new_client())
    send(desk, 0, 0)
    assert type(desk.queue().choice) is Plain
    send(desk, 1)
    assert type(desk.queue().choice.order) is Grouping


def test_a_group_of_a_full_consumer_holds_nobody_up(desk, new_client) -> None:
    """Q2: what is behind goes to others; and it gets its own once it has room, in order."""
    slow, quick = new_client(), new_client()
    subscription = desk.subscribe(client=slow, prefetch=1)
    send(desk, 1)
    desk.subscribe(client=quick)
    send(desk, 1, 1, 2, 3, 1)
    assert (slow.keys, quick.keys) == ([1], [4, 5])
    acknowledge(desk, subscription, 1)
    assert slow.keys == [1, 2]
    acknowledge(desk, subscription, 2)
    acknowledge(desk, subscription, 3)
    assert slow.keys == [1, 2, 3, 6]


def test_what_a_closed_consumer_had_goes_to_one_other_in_order(desk, pair) -> None:
    """All of a group, what came back first; nothing of it before the log says it is back."""
    first, second, subscription, _ = pair
    send(desk, 1, 1)
    desk.broker.unsubscribe(subscription)
    send(desk, 1)
    desk.turn()
    assert first.keys == [1, 3, 4]
    assert second.keys == [2, 1, 3, 4, 5]


def test_a_group_that_is_out_waits_for_who_comes(desk, new_client) -> None:
    """Q3: a group that prefers who comes is his once nothing of it is out, and nobodys before."""
    old, new = new_client(), new_client()
    subscription = desk.subscribe(client=old)
    groups = range(1, 33)
    send(desk, *groups)
    assert len(old.keys) == 32
    desk.subscribe(client=new)
    send(desk, *groups)
    moving = [group for group in groups if group + 32 not in old.keys]
    assert moving and new.keys == []
    acknowledge(desk, subscription, moving[0])
    assert new.keys == [moving[0] + 32]
    acknowledge(desk, subscription, *[group for group in groups if group != moving[0]])
    assert sorted(new.keys) == [group + 32 for group in moving]
    assert sorted(new.keys + old.keys[32:]) == [group + 32 for group in groups]


def test_nothing_moves_where_a_policy_says_so(desk, new_client) -> None:
    """ActiveMQ's way: who comes gets new groups only."""
    set_policy(desk, groupRebalance="false")
    old, new = new_client(), new_client()
    desk.subscribe(client=old)
    send(desk, *range(1, 33))
    desk.subscribe(client=new)
    send(desk, *range(1, 33), 40)
    assert (len(old.keys), new.keys) == (64, [65])


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_what_a_transaction_holds_keeps_its_group(desk, pair, ending) -> None:
    """Q4: also of a consumer that is closed; rolled back, it goes before what came later."""
    first, second, subscription, _ = pair
    broker = desk.broker
    transaction = broker.begin("t")
    transaction.add_settlement(subscription, [1])
    broker.unsubscribe(subscription)
    send(desk, 1, 1)
    assert second.keys == [2]
    if ending == "commit":
        broker.commit(transaction, first, None)
    else:
        for _ in broker.abort(transaction):
            pass
    desk.turn()
    assert second.keys == ([2, 3, 4] if ending == "commit" else [2, 1, 3, 4])


@pytest.mark.parametrize("keeps", ["true", "false"])
def test_those_behind_one_that_comes_later_wait(desk, new_client, keeps) -> None:
    """Or pass, where a policy says so; other groups flow either way."""
    set_policy(desk, redeliveryKeepsOrder=keeps, maximumRedeliveries=3)
    desk.broker.receipts.record(FormatRecord(6))
    desk.turn()
    client = new_client()
    subscription = desk.subscribe(client=client)
    desk.broker.sending.now_microseconds = NOON
    send(desk, 1)
    due_ms = NOON // 1000 + 500
    desk.broker.give_back(subscription, 1, due_ms, client, None)
    send(desk, 1, 2)
    assert client.keys == ([1, 3] if keeps == "true" else [1, 2, 3])
    desk.broker.sending.now_microseconds = NOON + 600_000
    desk.broker.wake()
    desk.turn()
    assert client.keys == ([1, 3, 1, 2] if keeps == "true" else [1, 2, 3, 1])


def test_what_rests_holds_its_group_under_the_next_leader_too(desk, new_client) -> None:
    """It is known of the log alone."""
    desk.broker.receipts.record(FormatRecord(6))
    desk.turn()
    client = new_client()
    subscription = desk.subscribe(client=client)
    send(desk, 1)
    due_ms = NOON // 1000 + 500
    desk.broker.give_back(subscription, 1, due_ms, client, None)
    send(desk, 1, 2)
    desk.fail_over()
    client = new_client()
    desk.subscribe(client=client)
    desk.turn()
    assert client.keys == [3]
    desk.broker.sending.now_microseconds = NOON + 600_000
    desk.broker.wake()
    desk.turn()
    assert client.keys == [3, 1, 2]


def test_a_suspect_goes_to_who_holds_nothing_also_if_its_owner_is_full(desk, new_client) -> None:
    """Nothing of its group is out; what is parked behind it goes on where it was."""
    set_policy(desk, suspectAfter=1, maximumRedeliveries=9, groupRebalance="false")
    desk.broker.receipts.record(FormatRecord(6))
    lost = desk.subscribe(client=new_client(), prefetch=2)
    send(desk, 7, 0)
    owner = desk.subscribe(client=new_client(), prefetch=1)
    send(desk, 7)
    desk.broker.unsubscribe(lost, ReturnCause.LOST)
    desk.turn()
    assert [*owner.unacknowledged] == [1]
    desk.broker.give_back(owner, 1, 0, owner.receiver, None)
    desk.dispatch()
    assert [*owner.unacknowledged] == [2], "the log says later that the first is back"
    idle = desk.subscribe(client=new_client(), prefetch=1)
    desk.turn()
    assert [*idle.unacknowledged] == [1]
    acknowledge(desk, idle, 1)
    assert [*idle.unacknowledged] == [3]


def test_messages_in_memory_only_are_in_groups_as_others(desk, new_client) -> None:
    """In one order with those that are stored."""
    slow, quick = new_client(), new_client()
    subscription = desk.subscribe(client=slow, prefetch=1)
    send_transient(desk, 1)
    desk.subscribe(client=quick)
    send_transient(desk, 1)
    send(desk, 1)
    send_transient(desk, 1)
    send_transient(desk, 2)
    assert (slow.keys, quick.keys) == ([-1], [-4])
    for key in (-1, -2, 1):
        acknowledge(desk, subscription, key)
    assert slow.keys == [-1, -2, 1, -3]


def test_a_purge_takes_what_is_parked(desk, new_client) -> None:
    """And leaves groups to whom they are."""
    client = new_client()
    subscription = desk.subscribe(client=client, prefetch=1)
    send(desk, 1, 1, 1)
    desk.broker.purge("orders", client, b"r")
    desk.turn()
    send(desk, 1)
    assert client.keys == [1]
    acknowledge(desk, subscription, 1)
    assert client.keys == [1, 4]


def test_an_exclusive_consumer_has_all_groups(desk, pair, new_client) -> None:
    """Once nobody else holds anything; and all have them again when it is gone."""
    first, second, one, two = pair
    sole = new_client()
    subscription = desk.subscribe(client=sole, claim=Claim(is_exclusive=True))
    send(desk, 1, 2)
    assert sole.keys == []
    acknowledge(desk, one, 1)
    acknowledge(desk, two, 2)
    assert sole.keys == [3, 4]
    desk.broker.unsubscribe(subscription)
    desk.turn()
    assert sorted(first.keys[1:] + second.keys[1:]) == [3, 4]


def test_new_groups_go_to_the_highest_priority_and_old_ones_stay(desk, new_client) -> None:
    """A consumer of a higher priority that comes gets what is to be had, and what prefers it."""
    low, high = new_client(), new_client()
    desk.subscribe(client=low)
    send(desk, 1)
    desk.subscribe(client=high, claim=Claim(5))
    send(desk, 2, 3)
    assert high.keys == [2, 3]


def test_who_never_acknowledges_owns_groups_too(desk, new_client) -> None:
    """What it was given is out until the log says it is gone."""
    auto, other = new_client(), new_client()
    desk.subscribe(client=auto, mode=AcknowledgeMode.AUTO)
    send(desk, 1)
    desk.subscribe(client=other)
    send(desk, 1, 1, *range(2, 9))
    assert auto.keys[:3] == [1, 2, 3]
    assert other.keys
    desk.turn()
    assert not {*desk.queue().grouping.owners.empty()[0]} & {*auto.keys}


def test_groups_are_known_to_the_next_leader(desk, pair) -> None:
    """From the log alone, also of what was moved to another queue."""
    desk.fail_over()
    assert desk.queue().index.ordering == BY_GROUP
    assert [desk.queue().index.group_hash(key) for key in (1, 2)] == [1, 2]


@pytest.mark.parametrize("ending", ["commit", "abort"])
@pytest.mark.parametrize("is_late", [False, True], ids=["before anybody came", "as others wait"])
def test_those_behind_one_on_which_a_transaction_has_a_late_word_wait(
    desk, new_client, ending, is_late
) -> None:
    """It may be rolled back, and come again before them, or be somebody else's work still."""
    desk.subscribe(client=new_client())
    send(desk, 1, 2)
    desk.fail_over()
    send(desk, 1, 3)
    client = new_client()
    if is_late:
        desk.broker.unsubscribe(desk.subscribe())
        desk.turn()
    transaction = desk.broker.begin("t")
    desk.broker.hold_identity(transaction, desk.queue().number, 1)
    desk.subscribe(client=client)
    desk.turn()
    assert 3 not in client.keys
    assert {2, 4} <= {*client.keys}
    if ending == "commit":
        desk.broker.commit(transaction, client, None)
    else:
        for _ in desk.broker.abort(transaction):
            pass
    desk.turn()
    assert client.keys[2:] == ([3] if ending == "commit" else [1, 3])


def test_many_who_come_and_go_leave_nothing_behind(desk, new_client) -> None:
    """While nobody has room nothing is done about them, so of each nothing is kept but himself."""
    client = new_client()
    desk.subscribe(client=client, prefetch=2)
    send(desk, 1, 2, 3)
    order = desk.queue().grouping
    for _ in range(50):
        desk.broker.unsubscribe(desk.subscribe(client=new_client(), prefetch=0))
    assert not order._newcomers
    others = [desk.subscribe(client=new_client(), prefetch=0) for _ in range(2)]
    assert len(order._newcomers) == 2
    for each in others:
        desk.broker.unsubscribe(each)
    assert not order._newcomers


def test_an_owner_is_looked_for_among_some_of_very_many(desk, new_client, monkeypatch) -> None:
    """It takes no longer, however many there are; each has its turn to be among those."""
    monkeypatch.setattr(grouping, "_CHOSEN_AMONG_MAX", 3)
    clients = [new_client() for _ in range(12)]
    for client in clients:
        desk.subscribe(client=client)
    desk.turn()
    asked: list[int] = []
    choose = Owners.choose

    def counting(self, bucket, ready, count):
        asked.append(len(ready))
        return choose(self, bucket, ready, count)

    monkeypatch.setattr(Owners, "choose", counting)
    send(desk, *range(1, 41))
    assert asked == [3] * 40
    assert sum(bool(client.keys) for client in clients) > 6


def test_what_is_parked_goes_out_while_it_is_asked_about_newcomers(
    desk, new_client, monkeypatch
) -> None:
    """It takes a while for each of many who come: those who are there do not wait for that."""
    monkeypatch.setattr(grouping, "_LOOKED_AT_AT_ONCE", 8)
    client = new_client()
    subscription = desk.subscribe(client=client, prefetch=40)
    send(desk, *range(1, 81))
    order = desk.queue().grouping
    for _ in range(30):
        desk.subscribe(client=new_client(), prefetch=1)
    for key in client.keys[:30]:
        desk.broker.acknowledge(subscription, key, client, None)
    steps = desk.broker.dispatch()
    assert any(each[0] is subscription for step in steps for each in step)
    steps.close()
    assert order._newcomers, "it was asked about all of them first"
