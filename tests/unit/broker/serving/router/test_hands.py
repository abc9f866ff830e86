"""
Whoever wants what comes next of a group has it, and nobody else does meanwhile.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.consumer import Claim
from holdfast.broker.serving.router import hands
from holdfast.broker.serving.router.buckets import Stream
from holdfast.broker.serving.router.grouping import Grouping
from holdfast.broker.serving.router.hands import Hands
from holdfast.model.facts import Attributes, MessageFacts
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.limits import CONSUMER_PRIORITY_MAX
from holdfast.model.policies import as_text
from holdfast.model.records import FormatRecord, PolicyRecord
from tests.unit.broker.serving.router.wishes import Wish, subscribe

NOON = 1 << 40


def send(desk, *messages: str) -> None:
    """Send messages by the number of their group, 0 for none, and what they say: `1a`."""
    for message in messages:
        group, body = int(message[0]), message[1:].encode()
        facts = MessageFacts(attributes=Attributes(group_hash=group)) if group else None
        desk.broker.send(desk.queue(), b"", body, desk.client, None, facts=facts)
    desk.turn()


def acknowledge(desk, consumer, *keys: int) -> None:
    for key in keys:
        desk.broker.acknowledge(consumer, key, consumer.receiver, None)
    desk.turn()


def leave(desk, consumer) -> None:
    desk.broker.unsubscribe(consumer)
    desk.broker.errands.finish()
    desk.turn()


def hands_of(desk) -> Hands:
    found = desk.queue().grouping
    assert isinstance(found, Hands)
    return found


@pytest.fixture
def pair(desk, new_client):
    """One wants a, the other b."""
    clients = (new_client(), new_client())
    return *clients, *[subscribe(desk, *it) for it in zip(clients, "ab", strict=True)]


def test_a_group_goes_to_who_wants_what_comes_next(desk, pair) -> None:
    """Q6: once nobody has anything of it; those behind wait for that, also whose group it was."""
    one, other, first, second = pair
    send(desk, "1a", "1b", "1a", "2b")
    assert (one.keys, other.keys) == ([1], [4])
    acknowledge(desk, first, 1)
    assert (one.keys, other.keys) == ([1], [4, 2])
    acknowledge(desk, second, 2)
    assert one.keys == [1, 3]


def test_who_has_no_room_holds_up_nobody(desk, new_client) -> None:
    """What others want of a group passes what waits for somebody who is full."""
    full, free = new_client(), new_client()
    consumer = subscribe(desk, full, "a", prefetch=1)
    subscribe(desk, free, "b")
    send(desk, "2a", "1a", "1b", "1b")
    assert (full.keys, free.keys) == ([1], [3, 4])
    acknowledge(desk, consumer, 1)
    assert full.keys == [1], "the group is in other hands"


def test_who_has_a_group_has_more_of_it_when_he_has_room(desk, new_client) -> None:
    """And nobody does that wants the same, as long as anything of it is out."""
    clients = (new_client(), new_client())
    holder, _ = (subscribe(desk, client, "a", prefetch=2) for client in clients)
    send(desk, "1a", "1a", "1a", "1a")
    assert [client.keys for client in clients] == [[1, 2], []]
    acknowledge(desk, holder, 1)
    assert [client.keys for client in clients] == [[1, 2, 3], []]
    acknowledge(desk, holder, 2, 3)
    assert [client.keys for client in clients] == [[1, 2, 3, 4], []], "who had it last has it again"


def test_what_nobody_waits_for_any_more_lets_those_behind_pass(desk, new_client) -> None:
    """Whoever waited for the group has no room by now: it goes to who wants the next one."""
    holder, waiting = new_client(), new_client()
    first = subscribe(desk, holder, "a", prefetch=2)
    subscribe(desk, waiting, "b", prefetch=1)
    send(desk, "1a", "1b", "1a")
    assert (holder.keys, waiting.keys) == ([1], [])
    send(desk, "2b", "1a")
    assert (holder.keys, waiting.keys) == ([1], [4])
    acknowledge(desk, first, 1)
    assert holder.keys == [1, 3, 5]


def test_what_one_sleeps_for_who_leaves_is_anybodys(desk, pair, new_client) -> None:
    """Nobody is there who wants it: it stays, and those behind it go on; until one comes."""
    one, _, first, second = pair
    send(desk, "1a", "1b", "1a")
    leave(desk, second)
    acknowledge(desk, first, 1)
    assert one.keys == [1, 3]
    late = new_client()
    subscribe(desk, late, "b")
    desk.turn()
    assert late.keys == []
    acknowledge(desk, first, 3)
    assert late.keys == [2]


def test_what_is_given_back_comes_first(desk, pair, new_client) -> None:
    """Of whoever leaves, to whoever wants it; behind it nothing of its group goes."""
    one, other, first, _ = pair
    send(desk, "1a", "1a", "1b")
    leave(desk, first)
    assert (one.keys, other.keys) == ([1, 2], [3]), "nobody is there who wants the first"
    late = new_client()
    subscribe(desk, late, "a")
    desk.turn()
    assert late.keys == []


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_what_a_transaction_holds_keeps_its_group(desk, pair, ends: str) -> None:
    """Whatever becomes of it."""
    one, other, first, second = pair
    send(desk, "1a", "1b")
    transaction = desk.broker.begin("t")
    transaction.add_settlement(first, [1])
    leave(desk, first)
    assert (one.keys, other.keys) == ([1], [])
    if ends == "commit":
        desk.broker.commit(transaction, other, None)
    else:
        for _ in desk.broker.abort(transaction):
            pass
    desk.broker.errands.finish()
    desk.turn()
    assert other.keys == [2]
    assert second.unacknowledged


def test_groups_that_were_plain_before_are_selected_from(desk, new_client) -> None:
    """What is out stays with whom it is, what was parked is looked at; and back again, in order."""
    plain, picky = new_client(), new_client()
    first = desk.subscribe(client=plain, prefetch=2)
    send(desk, *["1a", "1b"], *["2b", "1b", "2a"])
    assert isinstance(desk.queue().grouping, Grouping)
    assert plain.keys == [1, 2]
    second = subscribe(desk, picky, "b")
    desk.turn()
    assert isinstance(desk.queue().grouping, Hands)
    assert picky.keys == [3], "the other group is in other hands"
    acknowledge(desk, first, 1, 2)
    assert (plain.keys, picky.keys) == ([1, 2, 4], [3])
    leave(desk, second)
    assert isinstance(desk.queue().grouping, Grouping)
    assert plain.keys == [1, 2, 4, 3], "its neighbour came back, and went out first"
    acknowledge(desk, first, 4)
    assert plain.keys == [1, 2, 4, 3, 5]


def test_what_was_parked_is_not_lost_on_who_leaves_at_once(desk, new_client) -> None:
    """Before it was looked at whether he wants any of it."""
    plain = new_client()
    first = desk.subscribe(client=plain, prefetch=1)
    send(desk, *["1a"] * 3)
    second = subscribe(desk, new_client(), "b")
    leave(desk, second)
    for key in (1, 2, 3):
        acknowledge(desk, first, key)
    assert plain.keys == [1, 2, 3]


def test_the_only_one_has_all_groups_of_what_he_wants(desk, pair, new_client) -> None:
    """Whoever had them; and what he does not want goes to the others when he has left."""
    one, other, first, second = pair
    send(desk, "1a", "2b")
    acknowledge(desk, first, 1)
    acknowledge(desk, second, 2)
    sole = new_client()
    claim = Claim(CONSUMER_PRIORITY_MAX, is_exclusive=True)
    only = subscribe(desk, sole, "a", claim=claim)
    send(desk, "1a", "2a", "1b", "2b", "1a")
    assert (sole.keys, one.keys, other.keys) == ([3, 4, 7], [1], [2])
    leave(desk, only)
    assert one.keys == [1, 3, 4, 7]
    acknowledge(desk, first, 3, 4)
    assert other.keys == [2, 6], "the other group is out"
    acknowledge(desk, first, 7)
    assert other.keys == [2, 6, 5]


def test_who_comes_has_groups_too(desk, new_client) -> None:
    """Those that nobody has anything of, in turns: whoever had them last counts no more."""
    one, late = new_client(), new_client()
    first = subscribe(desk, one, "a")
    send(desk, "1a", "2a", "3a", "4a")
    acknowledge(desk, first, 1, 2, 3, 4)
    subscribe(desk, late, "a")
    send(desk, "1a", "2a", "3a", "4a")
    assert len(one.keys) == 6
    assert len(late.keys) == 2


def test_a_thousand_selectors_of_one_group_cost_a_delivery_what_one_does(
    desk, new_client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them wait for one group: whoever is next is woken, and nobody else."""
    count, woken = 300, []
    wake = Hands.wake

    def counted(self: Hands) -> Stream | None:
        woken.append(1)
        return wake(self)

    monkeypatch.setattr(Hands, "wake", counted)
    client = new_client()
    consumers = [subscribe(desk, client, f"{number}") for number in range(count)]
    send(desk, *[f"1{number}" for number in range(count)])
    for key, consumer in enumerate(consumers, 1):
        assert client.keys[-1:] == [key]
        acknowledge(desk, consumer, key)
    assert client.keys == [*range(1, count + 1)]
    assert len(woken) <= 4 * count


def test_what_was_parked_before_is_looked_at_in_steps(
    desk, new_client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million that were parked do not hold up the loop."""
    monkeypatch.setattr(hands, "_POURED_AT_ONCE", 2)
    plain, picky = new_client(), new_client()
    for client in (plain, new_client()):
        desk.subscribe(client=client, prefetch=1)
    send(desk, *["1a", *["1b"] * 5])
    subscribe(desk, picky, Wish("b"), prefetch=100)
    effort, keys = hands_of(desk).adopt_some(100)
    assert (effort, len(keys)) == (3, 2)
    for key in keys:
        desk.queue().sifting._put_back(key)
    desk.turn()
    assert plain.keys == [1]
    assert picky.keys == [], "the group is in other hands"
    assert desk.queue().sifting.parked_count == 5


@pytest.fixture
def by_priority(desk) -> None:
    """Let the policy say that messages of a higher priority go first."""
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    policy = PolicyRecord("queue://orders", as_text({"prioritizedMessages": "true"}))
    desk.broker.receipts.record(policy)
    desk.turn()


def send_ranked(desk, *messages: str) -> None:
    """Send messages by group, priority and what they say: `19a`."""
    for message in messages:
        attributes = Attributes(group_hash=int(message[0]), priority=int(message[1]))
        body, facts = message[2:].encode(), MessageFacts(attributes=attributes)
        desk.broker.send(desk.queue(), b"", body, desk.client, None, facts=facts)
    desk.turn()
    desk.turn()  # The log has said by now that they may be sent.


@pytest.mark.usefixtures("by_priority")
def test_of_a_group_a_higher_priority_goes_first(desk, new_client) -> None:
    """To whoever wants it, once nobody else has anything of the group."""
    one, other = new_client(), new_client()
    first, second = (subscribe(desk, *it, prefetch=1) for it in ((one, "a"), (other, "b")))
    send_ranked(desk, "14a")
    send_ranked(desk, "11b", "14b", "14a", "18a", "19b", "11a")
    assert (one.keys, other.keys) == ([1], [])
    for key, consumer in ((1, first), (6, second), (5, first), (3, second), (4, first)):
        acknowledge(desk, consumer, key)
    assert (one.keys, other.keys) == ([1, 5, 4], [6, 3, 2])
    acknowledge(desk, second, 2)
    assert one.keys == [1, 5, 4, 7]


@pytest.mark.usefixtures("by_priority")
def test_what_sleeps_holds_up_nothing_of_a_higher_priority(desk, new_client) -> None:
    """Its holder gets that, and nothing of the same priority or of a lower one."""
    one, other = new_client(), new_client()
    holder, waiting = (subscribe(desk, *it) for it in ((one, "a"), (other, "b")))
    send_ranked(desk, "14a")
    send_ranked(desk, "14b", "14a", "11a", "19a")
    assert (one.keys, other.keys) == ([1, 5], [])
    acknowledge(desk, holder, 1, 5)
    assert (one.keys, other.keys) == ([1, 5], [2])
    acknowledge(desk, waiting, 2)
    assert one.keys == [1, 5, 3, 4]


@pytest.mark.usefixtures("by_priority")
def test_what_is_woken_has_its_place_by_priority(desk, new_client) -> None:
    """It goes before all that is parked of a lower one, whatever the group."""
    one, other = new_client(), new_client()
    holder = subscribe(desk, one, "a", prefetch=1)
    consumer = subscribe(desk, other, "b", prefetch=1)
    for messages in (["14a"], ["19b"], ["34b"], ["24b"]):
        send_ranked(desk, *messages)
    assert (one.keys, other.keys) == ([1], [3])
    desk.broker.acknowledge(holder, 1, one, None)
    acknowledge(desk, consumer, 3)
    assert other.keys == [3, 2]
    acknowledge(desk, consumer, 2)
    assert other.keys == [3, 2, 4]


@pytest.mark.usefixtures("by_priority")
@pytest.mark.parametrize("is_blocked", [False, True])
def test_what_is_his_alone_waits_for_what_is_new_of_a_higher_one(
    desk, new_client, is_blocked
) -> None:
    """Also while the next one of all that are there may not be sent yet."""
    one, other = new_client(), new_client()
    holder = subscribe(desk, one, "a", prefetch=2)
    subscribe(desk, other, "a")
    send_ranked(desk, "14a", "14a", "14a")
    assert (one.keys, other.keys) == ([1, 2], [])
    desk.broker.acknowledge(holder, 1, one, None)
    attributes = Attributes(group_hash=1, priority=9)
    facts = MessageFacts(attributes=attributes)
    desk.broker.send(desk.queue(), b"", b"a", desk.client, None, facts=facts)
    desk.seal()
    desk.commit()
    if is_blocked:
        turns = desk.queue().sifting._turns
        turns.hungry, turns.blocked = {}, dict(turns.ready)
    desk.turn()
    assert (one.keys, other.keys) == ([1, 2, 4], [])
    acknowledge(desk, holder, 2, 4)
    assert (one.keys, other.keys) == ([1, 2, 4, 3], [])


@pytest.mark.usefixtures("by_priority")
@pytest.mark.parametrize("selects", [True, False])
def test_what_rests_in_its_lane_holds_its_group_under_the_next_leader(
    desk, new_client, selects
) -> None:
    """It is known of the log alone; and other groups go on."""
    first = new_client()
    consumer = subscribe(desk, first, "a")
    send_ranked(desk, "14a")
    desk.broker.give_back(consumer, 1, NOON // 1000 + 500, first, None)
    send_ranked(desk, "14a", "24a", "11a", "09a")
    desk.fail_over()
    client = new_client()
    subscribe(desk, client, "a" if selects else None)
    desk.turn()
    desk.turn()
    assert client.keys == [5, 3]
    desk.broker.sending.now_microseconds = NOON + 600_000
    desk.broker.wake()
    desk.turn()
    assert client.keys == [5, 3, 1, 2, 4]


@pytest.mark.usefixtures("by_priority")
def test_groups_go_on_in_lanes_where_nobody_selects_any_more(desk, pair, new_client) -> None:
    """What was parked is there again, by priority; and groups have owners."""
    one, other, first, second = pair
    send_ranked(desk, "14a")
    send_ranked(desk, "14b", "11a", "19b")
    assert (one.keys, other.keys) == ([1], [])
    plain = new_client()
    consumer = subscribe(desk, plain, None)
    leave(desk, first)
    leave(desk, second)
    desk.turn()
    assert isinstance(desk.queue().grouping, Grouping)
    assert plain.keys == [4, 1, 2, 3]
    late = new_client()
    subscribe(desk, late, "b")
    send_ranked(desk, "19b", "29b")
    assert late.keys == [6], "the other group is in other hands"
    acknowledge(desk, consumer, 4, 1, 2, 3)
    assert 5 in (*late.keys, *plain.keys)
