"""
Topics that are stored are topics still: for plain subscribers, wildcards, policies and answers.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from holdfast.sessions import stomp_sending

TOPIC = "/topic/prices"
NAME = {"activemq__subscriptionName": "mine"}
"""`activemq.subscriptionName`, as `say` wants it written."""
SLOW = {
    "slowConsumerStrategy": "abortSlowConsumerStrategy",
    "checkPeriod": 1000,
    "maxSlowDuration": 2000,
}


def begin(desk):
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    desk.turn()
    return desk


@pytest.fixture
def desk(new_desk):
    return begin(new_desk(BrokerSettings()))


def durable(desk, topic: str = TOPIC, client_id: str = "c1", **headers: str):
    """Connect and subscribe durably."""
    client = desk.connect(client_id=client_id)
    client.subscribe(topic, "d", **{**NAME, **headers})
    desk.turn()
    assert client.frames() == []
    return client


def end(client) -> None:
    """End the durable subscription of a client, which leaves."""
    answers = client.ask("UNSUBSCRIBE", id="d", **NAME)
    assert {it.command for it in answers} <= {"MESSAGE"}
    client.leave()


def say(desk, pattern: str = "topic://>", **values) -> None:
    desk.broker.receipts.record(PolicyRecord(pattern, json.dumps({**SLOW, **values})))
    desk.turn()


def pass_time(desk, seconds: float = 4.1) -> None:
    """Let time go on, as a node sees it."""
    for _ in range(round(10 * seconds)):
        desk.broker.sending.now_microseconds += 100_000
        desk.broker.returning.look_at_the_clock()
        if desk.broker.has_to_wake:
            desk.broker.wake()
        desk.turn()


def send(desk, *bodies: str, topic: str = TOPIC, **headers: str) -> None:
    client = desk.connect()
    for body in bodies:
        client.send(body.encode(), topic, **headers)
    desk.turn()
    client.leave()


def errors(client) -> list:
    client.desk.turn()
    return [frame for frame in client.frames() if frame.command == "ERROR"]


def test_a_plain_subscriber_of_a_stored_topic_is_found_slow_and_ended(desk) -> None:
    """
    A durable subscription that somebody has left there protects nobody; producers go on.
    """
    say(desk, maxSlowDuration=4000)
    durable(desk).leave()
    slow = desk.connect()
    slow.subscribe(TOPIC, activemq__prefetchSize="1")
    send(desk, "a", "b", "c")
    assert slow.bodies() == ["a"]
    pass_time(desk, 3)
    assert desk.broker.slowness.slow_count == 1
    pass_time(desk, 3)
    (error,) = errors(slow)
    assert (error.headers["code"], error.headers["subscription"]) == ("slow-consumer", "s")
    assert "a consumer of topic 'prices' is slow" in error.headers["message"]


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_durable_consumer_that_is_slow_is_ended_and_loses_nothing(desk, persistent) -> None:
    """
    Its subscription stays: what it had comes again, as it was lost with its consumer, to who takes
    it up. Of what is not stored it has its copy.
    """
    say(desk)
    client = durable(desk, activemq__prefetchSize="2")
    send(desk, "a", "b", "c", persistent=persistent)
    assert client.bodies() == ["a", "b"]
    pass_time(desk)
    (error,) = errors(client)
    assert (error.headers["code"], error.headers["subscription"]) == ("slow-consumer", "d")
    assert "a consumer of topic 'prices' is slow" in error.headers["message"]
    assert not client.session.is_closing
    assert desk.broker.slowness.aborted_total == 1
    queue = desk.broker.durables.find(("c1", "mine"))
    assert queue is not None
    assert queue.detached_at > 0
    client.subscribe(TOPIC, "d", **NAME)
    desk.turn()
    again = [frame for frame in client.frames() if frame.command == "MESSAGE"]
    assert [(it.body, it.headers.get("redelivered")) for it in again] == [
        (b"a", "true"),
        (b"b", "true"),
        (b"c", None),
    ]


def test_all_of_the_connection_of_a_slow_durable_consumer_ends_where_that_is_said(desk) -> None:
    """
    As of any other; the subscription may be taken up at once.
    """
    say(desk, abortConnection="true")
    client = durable(desk, activemq__prefetchSize="1")
    send(desk, "a", "b")
    pass_time(desk)
    (error,) = errors(client)
    assert error.headers["code"] == "slow-consumer"
    assert client.session.is_closing
    client.leave()
    assert durable_bodies(desk) == ["a", "b"]


def durable_bodies(desk) -> list[str]:
    again = desk.connect(client_id="c1")
    again.subscribe(TOPIC, "d", **NAME)
    return again.bodies()


def test_a_durable_consumer_that_works_or_has_all_there_is_is_not_slow(desk) -> None:
    """
    One word in each period; and what a selector leaves out does not wait for it.
    """
    say(desk)
    busy = durable(desk, activemq__prefetchSize="2")
    full = durable(desk, client_id="c2", activemq__prefetchSize="1", selector="kind = 'gold'")
    send(desk, "gold", kind="gold")
    send(desk, *"abcdefgh", kind="tin")
    desk.turn()
    for _ in range(6):
        message = next(frame for frame in busy.frames() if frame.command == "MESSAGE")
        busy.say("ACK", id=message.headers["ack"])
        pass_time(desk, 0.9)
    assert (errors(full), desk.broker.slowness.aborted_total) == ([], 0)
    assert desk.broker.slowness.slow_count == 0


def test_who_listens_is_told_of_slow_consumers_of_stored_topics(desk) -> None:
    """
    Whether anybody ends them or not.
    """
    said = {"slowConsumerStrategy": "none", "advisoryForSlowConsumers": "true"}
    say(desk, **said)
    listener = desk.connect()
    listener.subscribe("/topic/ActiveMQ.Advisory.SlowConsumer.>", id="a", ack="auto")
    client = durable(desk, activemq__prefetchSize="1")
    plain = desk.connect()
    plain.subscribe(TOPIC, activemq__prefetchSize="1")
    send(desk, "a", "b")
    pass_time(desk)
    told = [frame for frame in listener.frames() if frame.command == "MESSAGE"]
    ids = sorted(frame.headers["consumerId"].partition(":")[0] for frame in told)
    assert ids == sorted([client.session.id, plain.session.id])
    places = {frame.headers["destination"] for frame in told}
    assert places == {"/topic/ActiveMQ.Advisory.SlowConsumer.Topic.prices"}


@pytest.mark.parametrize("order", ["subscriber first", "durable first"])
def test_topics_that_were_stored_are_forgotten_like_others(new_desk, order) -> None:
    """
    Once nobody subscribes any more, plainly or durably, whoever left first: else their names would
    be used up until another leads.
    """
    desk = begin(new_desk(BrokerSettings(topic_count_max=3)))
    for number in range(8):
        topic = f"/topic/t{number}"
        plain = desk.connect()
        if order == "subscriber first":
            plain.subscribe(topic)
            kept = durable(desk, topic)
        else:
            kept = durable(desk, topic)
            plain.subscribe(topic)
        desk.turn()
        assert plain.frames() == []
        if number % 2:
            end(kept)
            plain.leave()
        else:
            plain.leave()
            end(kept)
    assert len(desk.broker.destinations.topics) <= 3


def test_a_stored_topic_that_is_forgotten_is_stored_still(new_desk) -> None:
    """
    Nobody subscribes plainly, so the name makes room; what is sent there later is kept.
    """
    desk = begin(new_desk(BrokerSettings(topic_count_max=2)))
    durable(desk).leave()
    sender = desk.connect()
    sender.send(b"1", TOPIC)
    for number in range(4):
        sender.send(b"x", f"/topic/t{number}")
    assert "prices" not in desk.broker.destinations.topics
    sender.send(b"2", TOPIC)
    assert durable_bodies(desk) == ["1", "2"]


@pytest.mark.parametrize("wanted", ["/topic/>", "/topic/*"])
@pytest.mark.parametrize("has_failed_over", [False, True])
def test_who_subscribes_by_a_wildcard_gets_what_is_sent_to_stored_topics(
    desk, wanted, has_failed_over
) -> None:
    """
    To those that were stored before it came, too, and those that this leader has not met yet.
    """
    durable(desk).leave()
    durable(desk, "/topic/others", client_id="c2").leave()
    send(desk, "before")
    if has_failed_over:
        desk.fail_over()
    wild = desk.connect()
    wild.subscribe(wanted, id="w", ack="auto")
    desk.turn()
    send(desk, "a")
    send(desk, "b", topic="/topic/others")
    send(desk, "c", persistent="false")
    assert wild.bodies() == ["a", "b", "c"]


def test_a_send_that_was_worked_out_before_the_topic_was_stored_is_stored(desk) -> None:
    """
    What its headers came to is kept with them, and is looked at anew; in a template as well.
    """
    sender = desk.connect()
    for number in range(2):
        sender.send(b"%d" % number, TOPIC)
        sender.send(b"%d" % number, TOPIC, own=str(number))
    client = durable(desk)
    for number in range(2, 4):
        sender.send(b"%d" % number, TOPIC)
        sender.send(b"%d own" % number, TOPIC, own=str(number))
    assert client.bodies() == ["2", "2 own", "3", "3 own"]


def test_an_answer_goes_to_a_stored_topic(desk) -> None:
    """
    Whoever asks may name it in `reply-to`: both kinds of subscribers are there.
    """
    client = durable(desk, "/topic/answers")
    plain = desk.connect()
    plain.subscribe("/topic/answers", ack="auto")
    desk.turn()
    asking = desk.connect()
    asking.say("SEND", destination="/queue/ActiveMQ.Statistics.Broker", reply_to="/topic/answers")
    desk.turn()
    assert asking.frames() == []
    assert len(client.bodies()) == 1
    assert len(plain.bodies()) == 1


def told(listener) -> list[tuple[str, str]]:
    """Give what a listener is told of topics: name, and 0 for one that is there, 1 for gone."""
    listener.desk.turn()
    frames = [frame for frame in listener.frames() if frame.command == "MESSAGE"]
    return sorted((it.headers["destinationName"], it.headers["operationType"]) for it in frames)


def listen(desk):
    listener = desk.connect()
    listener.subscribe("/topic/ActiveMQ.Advisory.Topic", id="a", ack="auto")
    return listener


def test_who_listens_hears_once_that_a_topic_is_there_and_once_that_it_is_gone(new_desk) -> None:
    """
    It is there as long as anybody subscribes or is subscribed; what stands beside it in memory
    comes and goes meanwhile without a word.
    """
    desk = begin(new_desk(BrokerSettings(topic_count_max=1)))
    listener = listen(desk)
    assert told(listener) == []
    client = durable(desk)
    assert told(listener) == [("prices", "0")]
    send(desk, "a")
    send(desk, "b", topic="/topic/others")
    assert told(listener) == [("others", "0")]
    send(desk, "c", topic="/topic/more")
    assert told(listener) == [("more", "0"), ("others", "1")]
    end(client)
    assert told(listener) == [("prices", "1")]


@pytest.mark.parametrize("has_failed_over", [False, True])
def test_who_begins_to_listen_is_told_of_stored_topics_each_once(desk, has_failed_over) -> None:
    """
    With plain subscribers or none, and of those that this leader has not met yet.
    """
    durable(desk).leave()
    durable(desk, "/topic/both", client_id="c2")
    ended = durable(desk, "/topic/ended", client_id="c3")
    end(ended)
    if has_failed_over:
        desk.fail_over()
    plain = desk.connect()
    plain.subscribe("/topic/both")
    plain.subscribe("/topic/plain", id="p")
    desk.turn()
    names = ["both", "plain", "prices"]
    assert told(listen(desk)) == [(name, "0") for name in names]


ALL_KINDS = {
    "advisoryForDelivery": "true",
    "advisoryForDispatched": "true",
    "sendAdvisoryIfNoConsumers": "true",
}


def kinds(listener) -> list[tuple[str, str]]:
    """Give which advisories of messages came, and of which message."""
    for _ in range(2):
        listener.desk.turn()  # They are said when there is time.
    frames = [frame for frame in listener.frames() if frame.command == "MESSAGE"]
    found = []
    for each in frames:
        kind = each.headers["destination"].removeprefix("/topic/ActiveMQ.Advisory.")
        assert kind.endswith(".Topic.prices")
        if not kind.startswith("Consumer."):
            found.append((kind.partition(".")[0], each.headers.get("orignalMessageId", "")))
    return found


def listener_to_messages(desk):
    say(desk, **ALL_KINDS)
    listener = desk.connect()
    listener.subscribe("/topic/ActiveMQ.Advisory.*.Topic.prices", id="a", ack="auto")
    return listener


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("is_there", [False, True])
def test_that_a_stored_message_of_a_topic_has_come_is_said_once_of_what_is_stored(
    desk, is_there, in_transaction
) -> None:
    """
    Under the topic's number for it, once it is stored. Nobody says that no one consumes it.
    """
    listener = listener_to_messages(desk)
    client = durable(desk)
    plain = desk.connect()
    plain.subscribe(TOPIC, ack="auto")
    if not is_there:
        client.leave()
        plain.leave()
    topic = desk.broker.destinations.stored.topic("prices")
    sender = desk.connect()
    if in_transaction:
        sender.say("BEGIN", transaction="t")
        sender.send(b"x", TOPIC, transaction="t")
        sender.say("COMMIT", transaction="t")
    else:
        sender.send(b"x", TOPIC)
    desk.seal()
    told = kinds(listener)
    arrived = ("MessageDelivered", f"ID:c0ffee-{topic.number}-1")
    assert told.count(arrived) == 1
    assert [kind for kind, _ in told].count("MessageDelivered") == 1
    assert "NoConsumer" not in [kind for kind, _ in told]
    assert [kind for kind, _ in told].count("MessageDispatched") == 2 * is_there


def test_that_a_message_in_memory_has_come_is_said_once_and_if_nobody_consumes_it(desk) -> None:
    """
    A durable subscription that somebody consumes from is somebody; one that is left alone is none,
    as such a message does not wait for it.
    """
    listener = listener_to_messages(desk)
    client = durable(desk)
    send(desk, "a", persistent="false")
    assert [kind for kind, _ in kinds(listener)] == ["MessageDelivered", "MessageDispatched"]
    client.leave()
    send(desk, "b", persistent="false")
    assert sorted(kind for kind, _ in kinds(listener)) == ["MessageDelivered", "NoConsumer"]


@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("has_another", [False, True])
def test_what_a_transaction_sends_is_for_the_durable_subscriptions_at_its_commit(
    desk, persistent, has_another
) -> None:
    """
    Whether the topic was stored when it was sent or not: each gets it once, and so do plain
    subscribers. What it sends after the first durable subscription came, too.
    """
    other = durable(desk, client_id="c2") if has_another else None
    sender = desk.connect()
    sender.say("BEGIN", transaction="t")
    said = {"persistent": persistent, "transaction": "t"}
    sender.send(b"before", TOPIC, **said)
    client = durable(desk)
    plain = desk.connect()
    plain.subscribe(TOPIC, ack="auto")
    sender.send(b"behind", TOPIC, **said)
    sender.say("COMMIT", transaction="t")
    assert client.bodies() == ["before", "behind"]
    assert plain.bodies() == ["before", "behind"]
    assert other is None or other.bodies() == ["before", "behind"]


def test_what_a_transaction_sends_is_for_nobody_who_has_ended_by_its_commit(desk) -> None:
    """
    A durable subscription that was there at the SEND and is gone at the COMMIT gets nothing.
    """
    client = durable(desk)
    plain = desk.connect()
    plain.subscribe(TOPIC, ack="auto")
    sender = desk.connect()
    sender.say("BEGIN", transaction="t")
    for persistent in ("true", "false"):
        sender.send(persistent.encode(), TOPIC, persistent=persistent, transaction="t")
    end(client)
    sender.say("COMMIT", transaction="t")
    assert plain.bodies() == ["true", "false"]
    assert desk.broker.destinations.stored.topic("prices") is None


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where those SENDs go that are worked out, and not as the one before."""
    found: list[str] = []
    work_out = stomp_sending._worked_out

    def noted(session, frame, **known):
        found.append(frame.block.headers["destination"])
        return work_out(session, frame, **known)

    monkeypatch.setattr(stomp_sending, "_worked_out", noted)
    return found


def test_what_a_send_comes_to_is_worked_out_once(desk, worked_out) -> None:
    """
    As for a queue; also where each message has headers of its own.
    """
    client = durable(desk)
    sender = desk.connect()
    for number in range(3):
        sender.send(b"%d" % number, TOPIC)
    for number in range(3):
        sender.send(b"%d" % number, TOPIC, correlation_id=f"c{number}")
    desk.turn()
    assert client.bodies() == ["0", "1", "2", "0", "1", "2"]
    assert worked_out == [TOPIC]


@pytest.mark.parametrize("own", [False, True])
def test_it_is_worked_out_anew_as_subscriptions_come_and_end(desk, worked_out, own) -> None:
    """
    For whoever sends on and says the same, or with headers of each message's own. What nobody
    needs later is not stored, and what somebody does is, at once.
    """
    sender, numbers = desk.connect(), iter(range(100))

    def send(body: bytes) -> None:
        headers = {"correlation_id": f"c{next(numbers)}"} if own else {}
        sender.send(body, TOPIC, receipt="r", **headers)
        desk.turn()
        assert [it.command for it in sender.frames()] == ["RECEIPT"]

    listener = desk.connect()
    listener.subscribe(TOPIC, "l", ack="auto")
    first, second = durable(desk), durable(desk, client_id="c2")
    send(b"1")
    assert (first.bodies(), second.bodies(), listener.bodies()) == (["1"], ["1"], ["1"])
    end(first)
    send(b"2")
    assert (second.bodies(), listener.bodies()) == (["2"], ["2"])
    before = len(worked_out)
    assert before == 1
    end(second)
    desk.turn()
    assert desk.broker.state.live_count() == 0
    send(b"3")
    assert (desk.broker.state.live_count(), listener.bodies()) == (0, ["3"])
    third = durable(desk, client_id="c3")
    third.leave()
    send(b"4")
    assert (desk.broker.state.live_count(), listener.bodies()) == (1, ["4"])
    third = desk.connect(client_id="c3")
    third.subscribe(TOPIC, "d", **NAME)
    assert third.bodies() == ["4"]
    assert len(worked_out) == before + 2


def test_it_is_worked_out_anew_where_the_topic_was_forgotten_meanwhile(new_desk) -> None:
    """
    As there were too many: who subscribes plainly then gets what comes.
    """
    desk = begin(new_desk(BrokerSettings(topic_count_max=1)))
    client, sender = durable(desk), desk.connect()
    sender.send(b"1", TOPIC)
    forgotten = desk.broker.destinations.topics["prices"]
    desk.connect().send(b"x", "/topic/other")
    assert forgotten.is_deleted
    listener = desk.connect()
    listener.subscribe(TOPIC, "l", ack="auto")
    sender.send(b"2", TOPIC)
    desk.turn()
    assert (client.bodies(), listener.bodies()) == (["1", "2"], ["2"])


def test_a_wildcard_that_comes_meanwhile_gets_what_is_sent_next(desk, worked_out) -> None:
    """
    By whoever sends on and says the same.
    """
    client, sender = durable(desk, "/topic/a.b"), desk.connect()
    sender.send(b"1", "/topic/a.b")
    wild = durable(desk, "/topic/a.*", client_id="c2")
    for body in (b"2", b"3"):
        sender.send(body, "/topic/a.b")
    desk.turn()
    assert (client.bodies(), wild.bodies()) == (["1", "2", "3"], ["2", "3"])
    assert worked_out == 2 * ["/topic/a.b"]
