"""
Composite destinations and mirrors: where a message goes by what policies say of its destination.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import MessageRecord, PolicyRecord
from holdfast.model.wildcards import parse_pattern
from holdfast.server.waking import Waking
from holdfast.store.record_codec import decode_records


@pytest.fixture
def desk(desk):
    desk.broker.state.format_level = NEWEST_LEVEL
    return desk


def say(desk, pattern: str, **values: str | int) -> None:
    """Let a policy hold."""
    session = desk.connect().session
    desk.broker.policy_changes.say(parse_pattern(pattern), values, session, b"r")
    desk.turn()


def depths(desk) -> dict[str, int]:
    """How much is on each queue that holds anything."""
    queues = desk.broker.state.by_name
    return {name: it.index.live_count for name, it in queues.items() if it.index.live_count}


def stored(desk) -> list[MessageRecord]:
    found = [record for _, _, body in desk.log for record in decode_records(body)]
    return [record for record in found if isinstance(record, MessageRecord)]


def listener(desk, destination: str):
    client = desk.connect()
    client.subscribe(destination, ack="auto")
    desk.turn()
    client.frames()
    return client


def test_a_composite_queue_is_stored_once_where_it_is_forwarded(desk) -> None:
    """
    In one record with a place on each queue, and not on the composite one; a topic gets it, too.
    """
    say(desk, "all", forwardTo="queue://a, queue://b, topic://t")
    listening = listener(desk, "/topic/t")
    client = desk.connect()
    frames = client.ask("SEND", b"x", destination="/queue/all", persistent="true", receipt="r")
    assert [it.command for it in frames] == ["RECEIPT"]
    assert depths(desk) == {"a": 1, "b": 1}
    (record,) = stored(desk)
    assert len(record.places) == 2
    assert listening.bodies() == ["x"]
    desk.fail_over()
    assert depths(desk) == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("only", "keeps", "colour", "expected"),
    [
        ("true", "false", "red", {"r": 1}),
        ("true", "false", "green", {}),
        ("true", "true", "green", {"c": 1}),
        ("true", "true", "red", {"r": 1}),
        ("false", "false", "red", {"r": 1, "c": 1}),
        ("false", "true", "green", {"c": 1}),
    ],
)
def test_selectors_say_what_goes_where(desk, only, keeps, colour, expected) -> None:
    """
    What no selector matches stays, or goes nowhere, as the policy says; it is confirmed.
    """
    to = "r when colour = 'red', b when colour IN ('blue', 'azure')"
    say(desk, "c", forwardTo=to, forwardOnly=only, sendWhenNotMatched=keeps)
    client = desk.connect()
    for receipt in ("1", "2"):
        frames = client.ask(
            "SEND",
            destination="/queue/c",
            persistent="true",
            colour=colour,
            receipt=receipt,
            producer_id="p",
            producer_sequence=receipt,
        )
        assert [it.command for it in frames] == ["RECEIPT"]
    assert depths(desk) == {name: 2 * count for name, count in expected.items()}
    assert desk.broker.state.producers.last("p") == 2
    assert desk.broker.publishing.unmatched_total == (0 if expected else 2)


def test_the_size_of_a_body_is_each_messages_own(desk) -> None:
    """
    A selector is asked of each, though their headers are the same.
    """
    say(desk, "c", forwardTo="big when AMQSize > 200, small when AMQSize <= 200")
    client = desk.connect()
    for size in (1, 1000, 1):
        client.send(b"x" * size, "/queue/c")
    desk.turn()
    assert depths(desk) == {"big": 1, "small": 2}


def test_forwards_are_followed_and_each_place_gets_it_once(desk) -> None:
    """
    By however many ways it comes there; virtual topics and what the SEND itself names included.
    """
    listener(desk, "/queue/Consumer.A.VirtualTopic.v").leave()
    say(desk, "top", forwardTo="left, right")
    say(desk, "left", forwardTo="end", forwardOnly="false")
    say(desk, "right", forwardTo="end, topic://VirtualTopic.v")
    client = desk.connect()
    client.send(b"x", "/queue/top,/queue/end")
    desk.turn()
    assert depths(desk) == {"left": 1, "end": 1, "Consumer.A.VirtualTopic.v": 1}


def test_a_pattern_forwards_all_that_it_means(desk) -> None:
    """
    Topics as well; the more exact word counts, and what is taken back holds no more.
    """
    say(desk, "topic://news.>", forwardTo="archive", forwardOnly="false")
    say(desk, "topic://news.private", forwardTo="safe")
    listening = listener(desk, "/topic/news.sport")
    client = desk.connect()
    for name in ("news.sport", "news.private", "other"):
        client.say("SEND", destination=f"/topic/{name}", persistent="true")
    desk.turn()
    assert depths(desk) == {"archive": 1, "safe": 1}
    assert listening.bodies() == [""]
    desk.broker.policy_changes.take_back(parse_pattern("topic://news.>"), (), client.session, b"r")
    desk.turn()
    client.say("SEND", destination="/topic/news.sport", persistent="true")
    desk.turn()
    assert depths(desk) == {"archive": 1, "safe": 1}


def test_a_transaction_is_forwarded_with_all_it_sends(desk) -> None:
    """
    All or nothing, where it is committed.
    """
    say(desk, "all", forwardTo="a,b")
    client = desk.connect()
    for transaction, end in (("t", "ABORT"), ("u", "COMMIT")):
        client.say("BEGIN", transaction=transaction)
        client.send(b"x", "/queue/all", transaction=transaction)
        client.say(end, transaction=transaction)
        desk.turn()
    assert client.frames() == []
    assert depths(desk) == {"a": 1, "b": 1}


def test_a_circle_that_comes_to_be_does_no_harm(desk) -> None:
    """
    By what an older version wrote: each destination is looked at once, and what is confirmed is
    where it was sent; alone, repeated under its number, and in a transaction.
    """
    for pattern, to in (("x.>", "y"), ("y", "x.a")):
        record = PolicyRecord(f"queue://{pattern}", json.dumps({"forwardTo": to}))
        desk.broker.receipts.record(record)
    desk.turn()
    client = desk.connect()
    numbered = {"producer-id": "p", "producer-sequence": "1"}
    for receipt in "12":
        frames = client.ask(
            "SEND", b"x", destination="/queue/y", persistent="true", receipt=receipt, **numbered
        )
        assert [it.command for it in frames] == ["RECEIPT"]
    assert depths(desk) == {"y": 1}
    client.say("BEGIN", transaction="t")
    client.send(b"x", "/queue/x.a", transaction="t")
    client.say("COMMIT", transaction="t")
    desk.turn()
    assert depths(desk) == {"y": 1, "x.a": 1}


def test_one_queue_without_room_refuses_all_or_lets_all_wait(desk) -> None:
    """
    Limits of each queue hold for what is forwarded there: nothing of it is anywhere before.
    """
    say(desk, "all", forwardTo="a, full, topic://t")
    say(desk, "full", maxLength=1)
    listening = listener(desk, "/topic/t")
    client = desk.connect()
    client.send(b"1", "/queue/all")
    desk.turn()
    error = client.refusal("SEND", b"2", destination="/queue/all", persistent="true")
    assert "full" in error.headers["message"]
    assert depths(desk) == {"a": 1, "full": 1}
    say(desk, "full", overflow="block")
    client.send(b"3", "/queue/all", receipt="r")
    desk.turn()
    assert client.frames() == []
    assert depths(desk) == {"a": 1, "full": 1}
    taking = desk.connect()
    taking.subscribe("/queue/full", ack="auto")
    desk.turn()
    assert [it.command for it in client.frames()] == ["RECEIPT"]
    assert taking.bodies() == ["1", "3"]
    assert listening.bodies() == ["1", "3"]
    assert depths(desk) == {"a": 2}


def test_it_lives_as_long_as_the_strictest_of_its_queues_says(desk) -> None:
    """
    And is in its group on each of them.
    """
    say(desk, "all", forwardTo="a,b")
    say(desk, "b", ttlCeiling=5_000)
    client = desk.connect()
    client.send(b"x", "/queue/all", expiration="60000", JMSXGroupID="g")
    desk.turn()
    (record,) = stored(desk)
    attributes = record.facts.attributes
    now_ms = desk.broker.sending.now_microseconds // 1000
    assert attributes.expires_ms == now_ms + 5_000
    assert attributes.group_hash
    for name in ("a", "b"):
        assert desk.broker.state.by_name[name].index.expires_ms(1) == now_ms + 5_000


def test_a_scheduled_message_goes_by_the_policies_of_its_time(desk) -> None:
    """
    Q43: by what they say as it is due, with its own headers to be asked, and not as it is sent.
    """
    say(desk, "all", forwardTo="early")
    client = desk.connect()
    client.send(b"x", "/queue/all", AMQ_SCHEDULED_DELAY="1000", colour="red")
    desk.turn()
    say(desk, "all", forwardTo="a, red when colour = 'red', blue when colour = 'blue'")
    desk.broker.sending.now_microseconds += 2_000_000
    waking = Waking(desk.broker, desk, lambda error: None)
    waking.step(lambda: False)
    desk.turn()
    assert depths(desk) == {"a": 1, "red": 1}


def test_a_scheduled_message_that_fits_nothing_is_over(desk) -> None:
    """
    It has had its time: it is not tried again and again.
    """
    say(desk, "all", forwardTo="blue when colour = 'blue'")
    client = desk.connect()
    client.send(b"x", "/queue/all", AMQ_SCHEDULED_DELAY="1000")
    desk.turn()
    desk.broker.sending.now_microseconds += 2_000_000
    Waking(desk.broker, desk, lambda error: None).step(lambda: False)
    desk.turn()
    assert depths(desk) == {}
    assert desk.broker.firing.fired_total == 1


def test_a_copy_is_not_forwarded_again(desk) -> None:
    """
    Of what another broker has forwarded there are copies, too, each for its own queue.
    """
    say(desk, "all", forwardTo="a", forwardOnly="false")
    client = desk.connect(holdfast_carry="true")
    client.send(b"x", "/queue/all")
    desk.turn()
    assert depths(desk) == {"all": 1}


def test_non_persistent_messages_are_forwarded_too(desk) -> None:
    """
    In memory on each queue.
    """
    say(desk, "all", forwardTo="a,b")
    client = desk.connect()
    client.say("SEND", b"x", destination="/queue/all")
    desk.turn()
    assert stored(desk) == []
    for name in ("a", "b"):
        taking = desk.connect()
        taking.subscribe(f"/queue/{name}", ack="auto")
        assert taking.bodies() == ["x"]


def test_a_list_that_names_what_is_not_served_refuses_what_is_sent(desk) -> None:
    """
    As the name would where it is written by who sends.
    """
    say(desk, "all", forwardTo="a,topic://ActiveMQ.Scheduler.Management")
    client = desk.connect()
    error = client.refusal("SEND", b"x", destination="/queue/all", persistent="true")
    assert "a SEND to it alone, are not served" in error.headers["message"]
    assert depths(desk) == {}


def test_what_a_message_says_of_itself_before_it_is_on_a_queue(desk) -> None:
    """
    It has no id yet, its time is now, and it was sent to the composite destination.
    """
    selectors = {
        "named": "JMSMessageID IS NULL",
        "now": f"JMSTimestamp = {desk.broker.sending.now_microseconds // 1000}",
        "there": "JMSDestination = 'queue://all'",
        "kept": "JMSDeliveryMode = 'PERSISTENT'",
        "new": "NOT JMSRedelivered",
        "never": "missing = 1",
    }
    say(desk, "all", forwardTo=",".join(f"{name} when {it}" for name, it in selectors.items()))
    client = desk.connect()
    client.send(b"x", "/queue/all")
    desk.turn()
    assert depths(desk) == {"named": 1, "now": 1, "there": 1, "kept": 1, "new": 1}


def test_a_selector_that_this_version_cannot_read_is_true_of_nothing(desk) -> None:
    """
    A later version may have written it into the log.
    """
    record = PolicyRecord("queue://all", '{"forwardTo":"a, b when XPATH \'x\'"}')
    desk.broker.receipts.record(record)
    desk.turn()
    client = desk.connect()
    client.send(b"x", "/queue/all")
    desk.turn()
    assert depths(desk) == {"a": 1}


def test_a_mirror_gets_it_only_where_anybody_listens(desk) -> None:
    """
    A subscriber of its topic, or a queue that consumes it; else the queue alone has it.
    """
    say(desk, "m.>", mirrored="true")
    client = desk.connect()
    client.send(b"1", "/queue/m.a")
    desk.turn()
    assert "VirtualTopic.Mirror.m.a" not in desk.broker.destinations.topics
    listening = listener(desk, "/topic/VirtualTopic.Mirror.m.a")
    client.send(b"2", "/queue/m.a")
    assert listening.bodies() == ["2"]
    listening.leave()
    desk.turn()
    listener(desk, "/queue/Consumer.tap.VirtualTopic.Mirror.m.a").leave()
    client.send(b"3", "/queue/m.a")
    client.send(b"4", "/queue/m.b")
    desk.turn()
    assert depths(desk) == {
        "m.a": 3,
        "m.b": 1,
        "Consumer.tap.VirtualTopic.Mirror.m.a": 1,
    }
    assert len(stored(desk)) == 4


@pytest.mark.parametrize("later", [{}, {"AMQ_SCHEDULED_DELAY": "1000"}], ids=["now", "scheduled"])
@pytest.mark.parametrize(
    ("said", "is_over"),
    [
        ({"expiration": "90000"}, True),
        ({"expiration": "90000", "expires": "0"}, True),
        ({"expires": "1700000090000"}, True),
        ({"expiration": "0"}, False),
        ({"x": "expiration:90000"}, False),
        ({}, False),
    ],
)
def test_a_selector_knows_when_a_message_expires(desk, later, said, is_over) -> None:
    """
    Also if only is said how long it lives: then its consumers see when that is over.
    """
    say(
        desk,
        "in",
        forwardTo="queue://mortal when JMSExpiration > 1700000000000,"
        " queue://immortal when JMSExpiration = 0",
    )
    client = desk.connect()
    told = client.ask("SEND", b"x", destination="/queue/in", persistent="true", **said, **later)
    assert told == []
    if later:
        desk.broker.sending.now_microseconds += 2_000_000
        desk.turn()
        Waking(desk.broker, desk, desk.unreadable).step(lambda: False)
        desk.turn()
    assert depths(desk) == {"mortal" if is_over else "immortal": 1}


def test_a_selector_sees_of_a_fired_message_what_its_consumers_see(desk) -> None:
    """
    That it was scheduled, by which job, and nothing of what was said of that.
    """
    say(
        desk,
        "in",
        forwardTo="queue://own when AMQ_SCHEDULED_DELAY IS NOT NULL OR"
        " AMQ_SCHEDULED_DESTINATION IS NOT NULL, queue://fired when scheduledJobId LIKE 'ID:%'",
    )
    client = desk.connect()
    client.send(b"x", "/queue/in", AMQ_SCHEDULED_DELAY="1000")
    desk.turn()
    desk.broker.sending.now_microseconds += 2_000_000
    Waking(desk.broker, desk, desk.unreadable).step(lambda: False)
    desk.turn()
    assert depths(desk) == {"fired": 1}
    client.subscribe("/queue/fired", ack="auto")
    desk.turn()
    (frame,) = client.frames()
    assert frame.headers["scheduledJobId"].startswith("ID:")
    assert not [name for name in frame.headers if name.startswith("AMQ_SCHEDULED")]


@pytest.mark.parametrize(
    "forward_to",
    ["queue://ActiveMQ.Statistics.Broker", "queue://c, queue://e", "queue://a"],
    ids=["not served", "too many queues", "fewer"],
)
@pytest.mark.parametrize("sent_to", ["/queue/in", "/topic/VirtualTopic.in"])
def test_a_repetition_is_confirmed_wherever_it_would_go_now(new_desk, forward_to, sent_to) -> None:
    """
    It is stored: its answer was lost with the last leader, and the policy is another one now.
    """
    desk = new_desk(BrokerSettings(queue_count_max=3))
    desk.broker.state.format_level = NEWEST_LEVEL
    pattern = {"/queue/in": "queue://in", "/topic/VirtualTopic.in": "topic://VirtualTopic.in"}
    broker_says(desk, pattern[sent_to], forwardTo="queue://a, queue://b")
    numbered = {"producer_id": "p", "producer_sequence": "1", "receipt": "1"}
    for _ in range(2):
        client = desk.connect()
        told = client.ask("SEND", b"1", destination=sent_to, persistent="true", **numbered)
        assert [it.command for it in told] == ["RECEIPT"]
        assert depths(desk) == {"a": 1, "b": 1}
        desk.broker.destinations.queue("other")
        desk.turn()
        broker_says(desk, pattern[sent_to], forwardTo=forward_to)
    assert desk.broker.sending.duplicates_total == 1
    (late,) = client.ask(
        "SEND", b"2", destination="/queue/a", persistent="true", **numbered | {"receipt": "2"}
    )
    assert late.command == "RECEIPT"
    numbered |= {"producer_sequence": "2"}
    (new,) = client.ask("SEND", b"3", destination="/queue/a", persistent="true", **numbered)
    assert new.command == "RECEIPT"
    assert depths(desk) == {"a": 2, "b": 1}


def broker_says(desk, pattern: str, **values: str) -> None:
    """Let a policy hold, be it one that would be refused now."""
    desk.broker.receipts.record(PolicyRecord(pattern, json.dumps(values)))
    desk.turn()


def test_who_listens_to_a_mirror_and_takes_nothing_stops_no_producer(new_desk) -> None:
    """
    What waits for such a one is bounded, and what is sent to the queue is confirmed.
    """
    desk = new_desk(BrokerSettings(topic_pending_bytes_max=5_000))
    desk.broker.state.format_level = NEWEST_LEVEL
    say(desk, ">", mirrored="true")
    spy, client = desk.connect(), desk.connect()
    spy.say(
        "SUBSCRIBE",
        destination="/topic/VirtualTopic.Mirror.>",
        id="s",
        ack="client-individual",
        activemq__prefetchSize="1",
    )
    desk.turn()
    for number in range(30):
        client.send(b"x" * 1_000, "/queue/orders", receipt=str(number))
        desk.turn()
    assert [it.command for it in client.frames()] == ["RECEIPT"] * 30
    assert depths(desk) == {"orders": 30}
    (pending,) = desk.broker.publishing.backlogs.sizes.values()
    assert pending <= 8_000
