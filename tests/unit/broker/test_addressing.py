"""
Where a message goes, name by name, and on which queues stands what is moved.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker import destinations
from holdfast.broker.addressing import Route
from holdfast.broker.returning import SILENT
from holdfast.broker.serving import virtual_consumers
from holdfast.broker.serving.burials import FORWARDED_MAX
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError
from holdfast.model.destination import parse_destinations
from holdfast.model.facts import Cause
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.limits import VIRTUAL_CONSUMERS_MAX
from holdfast.model.records import MoveRecord, PolicyRecord
from holdfast.model.wildcards import parse_pattern
from holdfast.store.record_codec import decode_records


@pytest.fixture
def desk(desk):
    desk.state.format_level = NEWEST_LEVEL
    return desk


def say(desk, pattern: str, **values: str) -> None:
    desk.broker.policy_changes.say(parse_pattern(pattern), values, desk.client, b"said")
    desk.turn()


class Asked:
    """Content of which these selectors are true; tells what was asked."""

    def __init__(self, *true: str) -> None:
        self.true = true
        self.asked: list[tuple[str, str]] = []

    def is_selected(self, selector: str, sent_to) -> bool:
        self.asked.append((selector, str(sent_to)))
        return selector in self.true


def route(desk, written: str, *true: str) -> list[str]:
    found = desk.broker.addressing.route(parse_destinations(written), Asked(*true))
    return [str(it) for it in found.destinations]


def depths(desk) -> dict[str, int]:
    queues = desk.state.by_name
    return {name: it.index.live_count for name, it in queues.items() if it.index.live_count}


def test_what_nobody_forwards_goes_where_it_is_sent(desk) -> None:
    """
    Nothing is looked up of it as long as no policy forwards anything, but of virtual topics.
    """
    addressing = desk.broker.addressing
    assert not addressing.directs(parse_destinations("/queue/a,/topic/b"))
    assert addressing.directs(parse_destinations("/queue/a,/topic/VirtualTopic.b"))
    say(desk, "x", forwardTo="y")
    assert addressing.directs(parse_destinations("/queue/a"))
    written = parse_destinations("/queue/a,/topic/b")
    assert addressing.route(written, Asked()) == Route(written, is_directed=False)


def test_a_selector_is_asked_of_what_was_sent_to_the_destination_that_has_it(desk) -> None:
    """
    Once for each destination on its way; where no list is true of it, it goes nowhere.
    """
    say(desk, "a", forwardTo="b when one, c when two")
    say(desk, "b", forwardTo="d when three", sendWhenNotMatched="true")
    content = Asked("one", "three")
    found = desk.broker.addressing.route(parse_destinations("/queue/a"), content)
    assert [str(it) for it in found.destinations] == ["/queue/d"]
    asked = [("one", "/queue/a"), ("two", "/queue/a"), ("three", "/queue/b")]
    assert content.asked == asked
    assert route(desk, "/queue/a", "one") == ["/queue/b"]
    assert route(desk, "/queue/a") == []
    assert desk.broker.addressing.route(parse_destinations("/queue/a"), Asked()).is_directed


def test_consumers_of_a_virtual_topic_may_be_composite_themselves(desk) -> None:
    """
    One resolver: a virtual topic leads to a queue, which leads on.
    """
    desk.queue("Consumer.A.VirtualTopic.t")
    desk.queue("Consumer.B.VirtualTopic.t")
    say(desk, "Consumer.A.VirtualTopic.t", forwardTo="archive", forwardOnly="false")
    found = route(desk, "/topic/VirtualTopic.t")
    assert set(found) == {
        *("/topic/VirtualTopic.t", "/queue/Consumer.A.VirtualTopic.t", "/queue/archive"),
        "/queue/Consumer.B.VirtualTopic.t",
    }
    say(desk, "topic://VirtualTopic.t", forwardTo="archive")
    assert route(desk, "/topic/VirtualTopic.t") == ["/queue/archive"], "it is there no more"


def test_policies_say_which_topics_are_virtual_and_how_their_queues_are_called(desk) -> None:
    """
    For any topics, with any parts around their names; and that one is none that has such a name.
    """
    for name in ("VTC.a.orders.q", "VTC.b.orders.q", "VTC.a.orders", "Consumer.A.VirtualTopic.x"):
        desk.queue(name)
    assert route(desk, "/topic/orders") == ["/topic/orders"]
    values = {"virtualTopic": "true", "virtualTopicPrefix": "VTC.*.", "virtualTopicPostfix": ".q"}
    say(desk, "topic://orders", **values)
    expected = {"/topic/orders", "/queue/VTC.a.orders.q", "/queue/VTC.b.orders.q"}
    assert set(route(desk, "/topic/orders")) == expected
    desk.queue("VTC.c.orders.q")
    assert set(route(desk, "/topic/orders")) == {*expected, "/queue/VTC.c.orders.q"}
    assert len(route(desk, "/topic/VirtualTopic.x")) == 2
    say(desk, "topic://VirtualTopic.>", virtualTopic="false")
    assert route(desk, "/topic/VirtualTopic.x") == ["/topic/VirtualTopic.x"]
    say(desk, "topic://VirtualTopic.>", virtualTopic="byName")
    assert len(route(desk, "/topic/VirtualTopic.x")) == 2


def test_as_many_queues_of_another_form_may_consume_a_topic(desk, monkeypatch) -> None:
    """
    And no more: one that would be too many cannot be declared.
    """
    monkeypatch.setattr(virtual_consumers, "VIRTUAL_CONSUMERS_MAX", 2)
    say(desk, "topic://orders", virtualTopic="true", virtualTopicPrefix="VTC.*.")
    route(desk, "/topic/orders")
    desk.queue("VTC.a.orders")
    desk.queue("VTC.b.orders")
    with pytest.raises(DestinationError, match="may consume topic 'orders'"):
        desk.queue("VTC.c.orders")
    desk.queue("Consumer.C.orders")
    for number in range(3):
        desk.queue(f"all.{number}.late")
    monkeypatch.setattr(destinations, "VIRTUAL_CONSUMERS_MAX", 2)
    monkeypatch.setattr(destinations, "BINDINGS_MAX", 0)
    say(desk, "topic://late", virtualTopic="true", virtualTopicPrefix="all.*.")
    with pytest.raises(DestinationError, match="may consume topic 'late'"):
        route(desk, "/topic/late")


def test_temporary_destinations_are_nobodys_pattern(desk) -> None:
    """
    Also where a pattern means every name.
    """
    say(desk, "all", forwardTo="")
    say(desk, ">", forwardTo="all", forwardOnly="false")
    assert route(desk, "/temp-queue/x") == ["/temp-queue/x"]
    assert set(route(desk, "/queue/x")) == {"/queue/x", "/queue/all"}


def test_too_many_destinations_are_refused(desk) -> None:
    """
    However they come to be so many.
    """
    for number in range(6):
        many = ",".join(f"m{number}.{place}" for place in range(63))
        say(desk, f"m{number}", forwardTo=f"{many},m{number + 1}")
    with pytest.raises(DestinationError, match=f"more than {FORWARDED_MAX} destinations"):
        route(desk, "/queue/m0")
    assert len(route(desk, "/queue/m3")) == 3 * 63 + 1


def test_too_many_that_consume_virtual_topics_are_refused(desk) -> None:
    """
    A thousand may consume each: of several topics in one SEND, which anybody may write, it would be
    minutes of the loop.
    """
    for topic in "ab":
        for number in range(VIRTUAL_CONSUMERS_MAX):
            desk.queue(f"Consumer.{number}.VirtualTopic.{topic}")
    desk.turn()
    assert len(route(desk, "/topic/VirtualTopic.a")) == VIRTUAL_CONSUMERS_MAX + 1
    with pytest.raises(DestinationError, match=r"2,002 destinations.*at most 1,100"):
        route(desk, "/topic/VirtualTopic.a,/topic/VirtualTopic.b")


def test_what_goes_in_a_circle_stays_where_it_was_sent(desk) -> None:
    """
    It was confirmed: nobody said of it that it may be nowhere. What a selector leaves out may.
    """
    book = desk.state.policies
    for pattern, forward_to in (
        *(("a", "b"), ("b", "c"), ("c", "a"), ("into", "b"), ("out", "a, end"), ("twice", "x, y")),
        *(("x", "z"), ("y", "z"), ("z", "end when one"), ("topic://s", "topic://t")),
        *(("topic://t", "topic://s"), ("Consumer.*.VirtualTopic.v", "topic://VirtualTopic.v")),
    ):
        written = str(parse_pattern(pattern))
        book.apply(PolicyRecord(written, json.dumps({"forwardTo": forward_to})), 1)
    desk.queue("Consumer.A.VirtualTopic.v")
    assert route(desk, "/queue/a") == ["/queue/a"]
    assert route(desk, "/queue/b") == ["/queue/b"]
    assert route(desk, "/queue/into") == ["/queue/into"]
    assert route(desk, "/queue/out") == ["/queue/end"], "a queue has it"
    assert route(desk, "/queue/twice") == [], "two ways to one place are no circle"
    assert set(route(desk, "/queue/a,/queue/end")) == {"/queue/a", "/queue/end"}
    assert route(desk, "/topic/t") == ["/topic/t"]
    assert set(route(desk, "/topic/VirtualTopic.v")) == {
        *("/topic/VirtualTopic.v", "/queue/Consumer.A.VirtualTopic.v")
    }


def test_policies_that_change_are_seen_at_once(desk) -> None:
    """
    What was worked out holds until then.
    """
    say(desk, "a", forwardTo="b")
    assert route(desk, "a") == route(desk, "a") == ["/queue/b"]
    say(desk, "a", forwardTo="c")
    assert route(desk, "a") == ["/queue/c"]
    say(desk, "a", forwardTo="")
    assert route(desk, "a") == ["/queue/a"]


# What is moved ------------------------------------------------------------------------------------


def dead(desk, name: str = "orders") -> None:
    """Send a message, take it and reject it for good."""
    desk.send(b"x", name)
    desk.turn()
    subscription = desk.subscribe(name)
    desk.turn()
    (key,) = subscription.unacknowledged
    desk.broker.reject(subscription, key, None, desk.client, None, "", Cause.REJECTED)
    desk.broker.unsubscribe(subscription)
    desk.turn()


def moves_of(desk, start: int, end: int | None = None) -> list[MoveRecord]:
    """What these entries move."""
    found = [record for _, _, body in desk.log[start:end] for record in decode_records(body)]
    return [record for record in found if isinstance(record, MoveRecord)]


def test_a_dead_letter_is_on_each_queue_of_a_composite_dead_letter_queue(desk) -> None:
    """
    Moved to one and copied to the others in one entry; topics and selectors have no part in it.
    """
    say(desk, "ActiveMQ.DLQ", forwardTo="eu, us, topic://t, big when AMQSize > 1")
    before = len(desk.log)
    dead(desk)
    assert depths(desk) == {"eu": 1, "us": 1}
    moves = moves_of(desk, before)
    assert [(it.is_copy, it.cause) for it in moves] == [
        (True, Cause.REJECTED),
        (False, Cause.REJECTED),
    ]
    desk.fail_over()
    assert depths(desk) == {"eu": 1, "us": 1}


@pytest.mark.parametrize(
    ("forward_to", "expected"),
    [
        ("topic://t", "ActiveMQ.DLQ"),
        ("topic://VirtualTopic.a, topic://VirtualTopic.Mirror.ActiveMQ.DLQ", "ActiveMQ.DLQ"),
        ("big when AMQSize > 1", "ActiveMQ.DLQ"),
    ],
)
def test_a_dead_letter_is_never_nowhere_nor_on_a_topic(desk, forward_to, expected) -> None:
    """
    Nor on the queues that consume one, or a mirror.
    """
    desk.queue("Consumer.x.VirtualTopic.a")
    desk.queue("Consumer.x.VirtualTopic.Mirror.ActiveMQ.DLQ")
    say(desk, ">", mirrored="true")
    say(desk, "ActiveMQ.DLQ", forwardTo=forward_to)
    dead(desk)
    assert depths(desk) == {expected: 1}


def test_many_dead_letters_on_many_queues_are_moved_in_bounded_entries(desk) -> None:
    """
    Of one entry no more is moved than of one record, and each message has all its places in one.
    """
    names = [f"d{number}" for number in range(30)]
    say(desk, "ActiveMQ.DLQ", forwardTo=",".join(names))
    for number in range(100):
        desk.send(b"%d" % number)
    desk.turn()
    queue = desk.queue()
    sequences = list(range(1, 101))
    desk.broker.moving.keep_from_all(queue, sequences)
    before = len(desk.log)
    desk.broker.settling.bury(queue, names, sequences, Cause.EXPIRED, 1)
    desk.turn()
    assert depths(desk) == dict.fromkeys(names, 100)
    for entry in range(before, len(desk.log)):
        moves = moves_of(desk, entry, entry + 1)
        assert sum(it.count for it in moves) <= 1_000
        assert sum(not it.is_copy for it in moves) * 30 == len(moves)


def test_there_must_be_place_for_all_of_its_queues(new_desk) -> None:
    """
    Else what expires waits on its own queue, as where the dead-letter queue itself cannot be.
    """
    desk = new_desk(BrokerSettings(queue_count_max=3))
    desk.state.format_level = NEWEST_LEVEL
    say(desk, "ActiveMQ.DLQ", forwardTo="one, two, three")
    queue, policies = desk.queue(), desk.broker.policies
    has_place = desk.broker.destinations.has_place
    assert not has_place(policies.burial_places(queue))
    say(desk, "ActiveMQ.DLQ", forwardTo="one, two")
    assert has_place(policies.burial_places(queue))


def test_places_that_consume_one_topic_are_asked_for_together(desk, monkeypatch) -> None:
    """
    Of two there was room for each, and not for both: what was dropped ended the node.
    """
    monkeypatch.setattr(virtual_consumers, "VIRTUAL_CONSUMERS_MAX", 2)
    desk.queue("Consumer.a.VirtualTopic.v")
    names = [f"Consumer.{name}.VirtualTopic.v" for name in "bc"]
    say(desk, "ActiveMQ.DLQ", forwardTo=", ".join(names))
    say(desk, "orders", maxLength="2", overflow="drop-head", deadLetterOverflow="true")
    assert desk.broker.destinations.has_place(names[:1])
    assert not desk.broker.destinations.has_place(names)
    with pytest.raises(DestinationError, match="may consume topic"):
        dead(desk)
    assert not any(map(desk.broker.destinations.has_queue, names)), "all of them or none"
    desk.broker.limiting.step()


def test_a_part_of_a_composite_dead_letter_queue_is_one_itself(desk) -> None:
    """
    Dead letters that die there are nowhere any more, rejected ones come again: copied to the other
    parts, three of them were twice as many on each round.
    """
    say(desk, "ActiveMQ.DLQ", forwardTo="one, two, three")
    say(desk, ">", maxLength="2", overflow="drop-head", deadLetterOverflow="true")
    for number in range(6):
        limited(desk, b"%d" % number)
    full = {"orders": 2, "one": 2, "two": 2, "three": 2}
    for _ in range(5):
        desk.broker.limiting.step()
        desk.turn()
        assert depths(desk) == full
    assert desk.broker.limiting.dropped_total == 4 + 3 * 2
    for name in ("one", "ActiveMQ.DLQ"):
        limited(desk, b"rejected", name)
        subscription = desk.subscribe(name)
        desk.turn()
        key = next(iter(subscription.unacknowledged))
        assert desk.broker.returning.due_of(subscription, key, SILENT) is not None


def limited(desk, body: bytes, name: str = "orders") -> None:
    """Send a message to a queue that has limits."""
    queue = desk.queue(name)
    desk.broker.limiting.are_limited([queue])
    before = queue.assigned_sequence
    desk.send(body, name)
    desk.broker.limiting.sent(queue, before, len(body))
    desk.turn()
    desk.turn()


def test_what_is_dropped_in_a_ring_is_nowhere_any_more(desk) -> None:
    """
    Each of these queues is the other's dead-letter queue: it went round for ever, unseen.
    """
    say(desk, ">", maxLength="2", overflow="drop-head", deadLetterOverflow="true")
    say(desk, "a", deadLetterQueue="b")
    say(desk, "b", deadLetterQueue="a")
    for number in range(6):
        limited(desk, b"%d" % number, "ab"[number % 2])
    before = len(desk.log)
    for _ in range(5):
        desk.broker.limiting.step()
        desk.turn()
    assert depths(desk) == {"a": 2, "b": 2}
    assert len(desk.log) == before
    assert desk.broker.policies.burial_places(desk.queue("a")) == ("b",), "for what is rejected"


def test_a_non_persistent_dead_letter_is_stored_once(desk) -> None:
    """
    With a place on each queue, as what is sent to several: sixty-four copies were no entry.
    """
    names = [f"d{number}" for number in range(64)]
    say(desk, "ActiveMQ.DLQ", forwardTo=", ".join(names))
    say(desk, ">", processNonPersistent="true", expiration="60000")
    queue = desk.queue()
    desk.broker.send_transient(queue, b"a:1\n", b"x" * 1_000)
    desk.turn()
    subscription = desk.subscribe()
    desk.turn()
    (key,) = subscription.unacknowledged
    message = queue.transients.find(key)
    before = len(desk.log)
    desk.broker.reject(subscription, key, message, desk.client, None, "ID:1", Cause.REJECTED)
    desk.turn()
    assert depths(desk) == dict.fromkeys(names, 1)
    assert sum(len(body) for _, _, body in desk.log[before:]) < 16_000
    desk.fail_over()
    assert depths(desk) == dict.fromkeys(names, 1)
    for name in (names[0], names[-1]):
        assert desk.state.by_name[name].index.expires_ms(1) > 0
