"""
Durable subscriptions of topics, as STOMP clients ask for them.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.model.records import FormatRecord, MessageRecord, PolicyRecord
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.store.record_codec import decode_records

TOPIC = "/topic/prices"
NAME = {"activemq__subscriptionName": "mine"}
"""`activemq.subscriptionName`, as `say` wants it written."""


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()
    return desk


def client_of(desk, client_id="c1"):
    return desk.connect(client_id=client_id)


def take_up(desk, client_id="c1", id="d", **headers):
    """Connect and subscribe durably."""
    client = client_of(desk, client_id)
    client.subscribe(TOPIC, id, **{**NAME, **headers})
    desk.turn()
    assert client.frames() == []
    return client


def messages(client):
    client.desk.turn()
    return [it for it in client.frames() if it.command == "MESSAGE"]


def records(desk, kind):
    return [it for _, _, body in desk.log for it in decode_records(body) if type(it) is kind]


def agree(desk):
    """The leader's state is what the log says."""
    before = digest_of(desk.broker.state)
    desk.fail_over()
    assert digest_of(desk.broker.state) == before


def test_what_is_sent_while_it_is_away_comes_when_it_is_back(desk) -> None:
    """
    Over a failover, too; with what it was given and has acknowledged no more. Stored once.
    """
    client = take_up(desk)
    sender = desk.connect()
    sender.send(b"1", TOPIC, receipt="r")
    desk.turn()
    assert [it.command for it in sender.frames()] == ["RECEIPT"]
    (first,) = messages(client)
    assert (first.body, first.headers["destination"]) == (b"1", TOPIC)
    client.ask("ACK", id=first.headers["ack"])
    client.leave()
    for body in (b"2", b"3"):
        sender.send(body, TOPIC)
    desk.turn()
    assert len(records(desk, MessageRecord)) == 3
    desk.fail_over()
    client = take_up_again = client_of(desk)
    take_up_again.subscribe(TOPIC, "d", **NAME)
    assert [it.body for it in messages(client)] == [b"2", b"3"]
    agree(desk)


def test_a_message_is_there_once_however_many_are_away(desk) -> None:
    """
    And gone when all have it: nothing of the topic lives then.
    """
    for number in range(5):
        take_up(desk, f"c{number}").leave()
    desk.turn()
    sender = desk.connect()
    sender.send(b"x" * 100, TOPIC)
    desk.turn()
    state = desk.broker.state
    assert (state.live_count(), len(records(desk, MessageRecord))) == (1, 1)
    for number in range(5):
        assert state.live_count() == 1
        client = client_of(desk, f"c{number}")
        client.subscribe(TOPIC, "d", **{**NAME, "ack": "auto"})
        assert [it.body for it in messages(client)] == [b"x" * 100]
    desk.turn()
    assert state.live_count() == 0
    agree(desk)


def test_a_topic_without_one_is_not_stored(desk) -> None:
    """
    Neither before the first nor after the last, though senders' headers are remembered.
    """
    sender, live = desk.connect(), desk.connect()
    live.subscribe(TOPIC, ack="auto")
    sender.send(b"0", TOPIC)
    desk.turn()
    assert records(desk, MessageRecord) == []
    client = take_up(desk)
    sender.send(b"1", TOPIC)
    desk.turn()
    assert len(records(desk, MessageRecord)) == 1
    client.ask("UNSUBSCRIBE", id="d", **NAME)
    sender.send(b"2", TOPIC)
    assert live.bodies() == ["0", "1", "2"]
    assert len(records(desk, MessageRecord)) == 1
    assert desk.broker.state.queues.keys() == set()
    assert desk.broker.durables.count == 0
    agree(desk)


def test_the_receipt_comes_when_the_log_has_the_subscription(desk) -> None:
    """
    It begins with the next message, whatever is on its way.
    """
    client, sender = client_of(desk), desk.connect()
    sender.send(b"0", TOPIC)
    client.subscribe(TOPIC, "d", receipt="r", **NAME)
    sender.send(b"1", TOPIC)
    assert client.frames() == []
    desk.turn()
    assert [it.command for it in client.frames()] == ["RECEIPT", "MESSAGE"]
    assert len(records(desk, TopicRecord)) == len(records(desk, SubscriptionRecord)) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"activemq__subscriptionName": "n"},
        {"activemq__subcriptionName": "n"},
        {"durable_subscription_name": "n"},
        {"durable_subscriber_name": "n"},
    ],
)
def test_each_name_of_the_header_does(desk, headers) -> None:
    """
    ActiveMQ's, as it is spelled and as it was once misspelled, and Artemis's.
    """
    client = client_of(desk)
    client.subscribe(TOPIC, "d", **headers)
    desk.turn()
    assert desk.broker.state.subscriptions.keys() == {("c1", "n")}
    client.ask("UNSUBSCRIBE", id="d", **headers)
    assert desk.broker.state.subscriptions == {}


def test_rabbitmqs_words_need_no_client_id(desk) -> None:
    """
    A subscription is known by topic and id then, and ended by the same words.
    """
    client = desk.connect()
    client.subscribe(TOPIC, "s1", durable="true", auto_delete="false")
    desk.turn()
    client.leave()
    sender = desk.connect()
    sender.send(b"1", TOPIC)
    desk.turn()
    client = desk.connect()
    client.subscribe(TOPIC, "s1", durable="true")
    assert [it.body for it in messages(client)] == [b"1"]
    assert client.ask("UNSUBSCRIBE", id="s1", durable="true") == []
    assert desk.broker.state.subscriptions == {}
    error = client.refusal("SUBSCRIBE", destination=TOPIC, id="s1", durable="perhaps")
    assert "neither true nor false" in error.headers["message"]


@pytest.mark.parametrize(
    "destination", ["/queue/q", "/temp-queue/q", "/temp-topic/q", "/queue/a.>"]
)
@pytest.mark.parametrize("flag", ["durable", "persistent"])
def test_rabbitmqs_words_say_nothing_of_what_is_no_topic(desk, destination, flag) -> None:
    """
    Neither in SUBSCRIBE nor in UNSUBSCRIBE, which ends the one that is meant by its id.
    """
    client = desk.connect()
    flags = {flag: "true", "auto_delete": "false"}
    assert client.ask("SUBSCRIBE", destination=destination, id="s", **flags) == []
    assert list(client.session.subscriptions) == ["s"]
    assert client.ask("UNSUBSCRIBE", id="s", **flags) == []
    assert not client.session.subscriptions
    desk.turn()
    assert desk.broker.state.subscriptions == {}


def test_persistent_alone_makes_no_subscription_that_lasts(desk) -> None:
    """
    ActiveMQ's clients send it with SUBSCRIBE, too; RabbitMQ's say that it is not deleted, either.
    """
    client = desk.connect()
    for destination in (TOPIC, "/topic/a.>"):
        assert client.ask("SUBSCRIBE", destination=destination, id="s", persistent="true") == []
        assert client.ask("UNSUBSCRIBE", id="s", persistent="true") == []
        assert not client.session.subscriptions
    desk.turn()
    assert desk.broker.state.subscriptions == {}
    client.subscribe(TOPIC, "s", persistent="true", auto_delete="false")
    desk.turn()
    assert list(desk.broker.state.subscriptions) == [("", "prices:s")]
    client.leave()
    other = desk.connect()
    assert other.ask("UNSUBSCRIBE", id="s", destination=TOPIC, persistent="true") == []
    assert desk.broker.state.subscriptions == {}


def test_an_unsubscribe_in_rabbitmqs_words_ends_what_has_the_id_here(desk) -> None:
    """
    Also where that is known by a name, which stays then, or does not last at all.
    """
    client = take_up(desk)
    client.subscribe(TOPIC, "plain")
    for id in ("d", "plain"):
        assert client.ask("UNSUBSCRIBE", id=id, durable="true") == []
    assert not client.session.subscriptions
    assert list(desk.broker.state.subscriptions) == [("c1", "mine")]
    error = client.refusal("UNSUBSCRIBE", id="d", durable="true")
    assert "name its 'destination'" in error.headers["message"]


def test_names_by_topic_and_id_do_not_run_into_each_other(desk) -> None:
    """
    Whatever a topic's name and an id have in them: nobody ends or takes another's.
    """
    pairs = [("a", "b:c"), ("a:b", "c"), ("a%3Ab", "c"), ("a%253Ab", "c"), ("a", "%3Ab:c")]
    for topic, id in pairs:
        client = desk.connect()
        client.subscribe(f"/topic/{topic}", id, durable="true")
        client.leave()
    sender = desk.connect()
    for topic in dict(pairs):
        sender.send(topic.encode(), f"/topic/{topic}")
    desk.turn()
    assert len(desk.broker.state.subscriptions) == len(pairs)
    for topic, id in pairs:
        client = desk.connect()
        client.subscribe(f"/topic/{topic}", id, durable="true")
        assert [it.body for it in messages(client)] == [topic.encode()]


def test_an_id_that_a_durable_subscription_is_known_by_is_short(desk) -> None:
    """
    As names are: it is in the log.
    """
    long = "x" * 1025
    error = desk.connect().refusal("SUBSCRIBE", destination=TOPIC, id=long, durable="true")
    assert "at most 1,024" in error.headers["message"]


def test_without_a_client_id_a_name_is_refused(desk) -> None:
    """
    ActiveMQ invents one, and the subscription is an orphan for ever.
    """
    error = desk.connect().refusal("SUBSCRIBE", destination=TOPIC, id="d", **NAME)
    assert "needs a client-id" in error.headers["message"]


def test_only_topics_have_any(desk) -> None:
    """
    The sentence names the destination.
    """
    error = client_of(desk).refusal("SUBSCRIBE", destination="/queue/q", id="d", **NAME)
    assert "'/queue/q'" in error.headers["message"]


def test_a_second_consumer_is_refused(desk) -> None:
    """
    On the same connection, and in RabbitMQ's words on another; the first goes on.
    """
    client = take_up(desk)
    error = client.refusal("SUBSCRIBE", destination=TOPIC, id="e", **NAME)
    assert "active consumer" in error.headers["message"]
    first, second = desk.connect(), desk.connect()
    first.subscribe(TOPIC, "s", durable="true")
    desk.turn()
    error = second.refusal("SUBSCRIBE", destination=TOPIC, id="s", durable="true")
    assert "active consumer" in error.headers["message"]
    error = second.refusal("UNSUBSCRIBE", id="s", destination=TOPIC, durable="true")
    assert "another connection" in error.headers["message"]
    desk.connect().send(b"1", TOPIC)
    assert (client.bodies(), first.bodies()) == (["1"], ["1"])


def test_unsubscribing_twice_is_fine(desk) -> None:
    """
    As stomp-php does it; an ordinary UNSUBSCRIBE leaves the subscription be.
    """
    client = take_up(desk)
    client.ask("UNSUBSCRIBE", id="d")
    assert desk.broker.state.subscriptions.keys() == {("c1", "mine")}
    for _ in range(2):
        assert [it.command for it in client.ask("UNSUBSCRIBE", id="d", receipt="r", **NAME)] == [
            "RECEIPT"
        ]
    assert desk.broker.state.subscriptions == {}
    agree(desk)


@pytest.mark.parametrize("changed", [{"selector": "a = '1'"}, {"destination": "/topic/other"}])
def test_one_that_wants_something_else_begins_anew(desk, changed) -> None:
    """
    In one entry of the log, without what waited.
    """
    take_up(desk).leave()
    sender = desk.connect()
    sender.send(b"old", TOPIC)
    desk.turn()
    entries = len(desk.log)
    client = client_of(desk)
    headers = {"destination": TOPIC, "id": "d", **NAME, **changed}
    client.say("SUBSCRIBE", **headers)
    desk.seal()
    assert len(desk.log) == entries + 1
    assert messages(client) == []
    sender.send(b"new", headers["destination"], a="1")
    assert [it.body for it in messages(client)] == [b"new"]
    assert len(desk.broker.state.subscriptions) == 1
    agree(desk)


def test_what_a_selector_leaves_out_does_not_wait(desk) -> None:
    """
    The log says for whom a message is not, so nothing of it is kept for them, under each leader.
    """
    everything = take_up(desk, "all")
    take_up(desk, "some", selector="colour = 'red'").leave()
    sender = desk.connect()
    for colour in ("red", "blue"):
        sender.send(colour.encode(), TOPIC, colour=colour)
    for message in messages(everything):
        everything.ask("ACK", id=message.headers["ack"])
    assert desk.broker.state.live_count() == 1
    everything.leave()
    desk.fail_over()
    sender = desk.connect()
    for colour in ("red", "blue"):
        sender.send(colour.encode(), TOPIC, colour=colour)
    desk.turn()
    some = client_of(desk, "some")
    some.subscribe(TOPIC, "d", selector="colour = 'red'", **NAME)
    assert [it.body for it in messages(some)] == [b"red", b"red"]
    agree(desk)


def test_transactions_of_messages_for_selective_ones(desk) -> None:
    """
    Each message is judged as the whole is stored; also many, which get their numbers in steps.
    """
    client = take_up(desk, selector="n < 3")
    sender = desk.connect()
    sender.say("BEGIN", transaction="t")
    for number in range(1000):
        sender.send(b"%d" % number, TOPIC, transaction="t", n=str(number))
    sender.say("COMMIT", transaction="t", receipt="r")
    batch = desk.broker.receipts.batch
    for steps in batch.unnumbered:
        for _ in steps:
            pass
    assert [it.body for it in messages(client)] == [b"0", b"1", b"2"]
    assert desk.broker.state.live_count() == 3
    agree(desk)


def test_a_transaction_for_a_topic_that_is_stored_no_more(desk) -> None:
    """
    Nothing of it is left anywhere.
    """
    client, sender, live = take_up(desk), desk.connect(), desk.connect()
    live.subscribe(TOPIC, ack="auto")
    sender.say("BEGIN", transaction="t")
    sender.send(b"1", TOPIC, transaction="t")
    client.ask("UNSUBSCRIBE", id="d", **NAME)
    sender.say("COMMIT", transaction="t", receipt="r")
    assert live.bodies() == ["1"]
    assert [it.command for it in sender.frames()] == ["RECEIPT"]
    assert desk.broker.state.queues == {}
    assert desk.broker.state.live_count() == 0
    agree(desk)


def test_what_is_sent_before_its_topic_is_stored_and_committed_after_is_kept(desk) -> None:
    """
    Who has the RECEIPT of a durable subscription gets all that commits behind it; before what is
    sent later, once, and what is not persistent not. Whoever listens gets each once as well.
    """
    sender, live = desk.connect(), desk.connect()
    live.subscribe(TOPIC, ack="auto")
    sender.say("BEGIN", transaction="t")
    for number in range(3):
        sender.send(b"%d" % number, TOPIC, transaction="t", n=str(number))
    sender.send(b"lost", TOPIC, transaction="t", persistent="false")
    sender.send(b"elsewhere", "/topic/other", transaction="t")
    take_up(desk).leave()
    take_up(desk, "c2", selector="n = 1").leave()
    sender.send(b"3", TOPIC, transaction="t", n="3")
    sender.say("COMMIT", transaction="t", receipt="r")
    assert live.bodies() == ["0", "1", "2", "lost", "3"]
    assert [it.command for it in sender.frames()] == ["RECEIPT"]
    desk.fail_over()
    client, other = client_of(desk), client_of(desk, "c2")
    client.subscribe(TOPIC, "d", **NAME)
    other.subscribe(TOPIC, "d", selector="n = 1", **NAME)
    assert [it.body for it in messages(client)] == [b"0", b"1", b"2", b"3"]
    assert [it.body for it in messages(other)] == [b"1"]
    agree(desk)


def test_a_transaction_that_was_rolled_back_left_nothing_for_a_topic_stored_since(desk) -> None:
    """
    Nor does one that is under way when its connection ends.
    """
    sender = desk.connect()
    for name in ("t", "u"):
        sender.say("BEGIN", transaction=name)
        sender.send(b"1", TOPIC, transaction=name)
    client = take_up(desk)
    sender.say("ABORT", transaction="t")
    sender.leave()
    assert messages(client) == []
    assert desk.broker.state.live_count() == 0


def test_what_is_not_acknowledged_comes_again(desk) -> None:
    """
    Flagged, to the same subscription alone, in the old order.
    """
    client, other = take_up(desk), take_up(desk, "c2")
    sender = desk.connect()
    for body in (b"1", b"2"):
        sender.send(body, TOPIC)
    assert [it.body for it in messages(client)] == [b"1", b"2"]
    assert [it.body for it in messages(other)] == [b"1", b"2"]
    client.leave()
    desk.turn()
    assert messages(other) == []
    client = client_of(desk)
    client.subscribe(TOPIC, "d", **NAME)
    again = messages(client)
    assert [(it.body, it.headers["redelivered"]) for it in again] == [
        (b"1", "true"),
        (b"2", "true"),
    ]
    assert again[0].headers["JMSXDeliveryCount"] == "2"
    agree(desk)


def test_where_links_may_be_stolen_who_comes_takes_it_from_who_has_it(desk) -> None:
    """
    What the one before had not settled comes again, flagged, before anything new.
    """
    desk.stomp = StompSettings(allow_link_stealing=True)
    first = take_up(desk)
    sender = desk.connect()
    for body in (b"1", b"2"):
        sender.send(body, TOPIC)
    settled, held = messages(first)
    first.ask("ACK", id=settled.headers["ack"])
    second = client_of(desk)
    second.subscribe(TOPIC, "d", **NAME)
    sender.send(b"3", TOPIC)
    again, new = messages(second)
    assert (again.body, again.headers["redelivered"]) == (b"2", "true")
    assert again.headers["message-id"] == held.headers["message-id"]
    assert (new.body, "redelivered" in new.headers) == (b"3", False)
    first.leave()
    assert messages(second) == []
    agree(desk)


def test_what_is_rejected_is_a_dead_letter_of_that_subscription(desk) -> None:
    """
    Others keep theirs; the dead letter says from which topic it comes.
    """
    client, other = take_up(desk), take_up(desk, "c2")
    desk.connect().send(b"1", TOPIC)
    (message,) = messages(client)
    client.ask("NACK", id=message.headers["ack"])
    dead = desk.connect()
    dead.subscribe("/queue/ActiveMQ.DLQ", ack="auto")
    (letter,) = messages(dead)
    assert letter.headers["original-destination"] == TOPIC
    assert letter.headers["original-message-id"] == message.headers["message-id"]
    assert [it.body for it in messages(other)] == [b"1"]
    agree(desk)


def test_policies_of_the_topic_say_what_becomes_of_what_is_rejected(desk) -> None:
    """
    How often it comes again, and where it goes then; each subscription counts by itself, and a
    queue of the topic's name has policies of its own.
    """
    values = (
        '{"maximumRedeliveries":1,"initialRedeliveryDelay":0,"deadLetterStrategy":"individual"}'
    )
    desk.broker.receipts.record(PolicyRecord(f"topic://{TOPIC[len('/topic/') :]}", values))
    desk.turn()
    client, other = take_up(desk), take_up(desk, "c2")
    desk.connect().send(b"1", TOPIC)
    (message,) = messages(client)
    client.say("NACK", id=message.headers["ack"])
    (again,) = messages(client)
    assert again.headers["JMSXDeliveryCount"] == "2"
    client.ask("NACK", id=again.headers["ack"])
    assert messages(client) == []
    (whole,) = messages(other)
    assert "JMSXDeliveryCount" not in whole.headers
    dead = desk.connect()
    dead.subscribe("/queue/ActiveMQ.DLQ.Topic.prices", ack="auto")
    (letter,) = messages(dead)
    assert letter.headers["original-destination"] == TOPIC
    agree(desk)


def test_a_topic_may_have_no_dead_letters(desk) -> None:
    """
    What is rejected there is nowhere any more.
    """
    desk.broker.receipts.record(PolicyRecord("topic://>", '{"deadLetterStrategy":"discard"}'))
    desk.turn()
    client = take_up(desk)
    desk.connect().send(b"1", TOPIC)
    (message,) = messages(client)
    client.ask("NACK", id=message.headers["ack"])
    desk.turn()
    assert not desk.broker.destinations.has_queue("ActiveMQ.DLQ")
    assert desk.broker.state.live_count() == 0
    agree(desk)


def test_rejected_to_come_again_it_does(desk) -> None:
    """
    Counted for each subscription.
    """
    client = take_up(desk)
    desk.connect().send(b"1", TOPIC)
    (message,) = messages(client)
    for count in (2, 3):
        client.say("NACK", id=message.headers["ack"], requeue="true")
        (message,) = messages(client)
        assert message.headers["JMSXDeliveryCount"] == str(count)
    agree(desk)


def test_late_acknowledgements_name_the_subscriptions_message(desk) -> None:
    """
    After a failover, by message id: nobody else's copy is touched.
    """
    client, other = take_up(desk), take_up(desk, "c2")
    desk.connect().send(b"1", TOPIC)
    (message,) = messages(client)
    messages(other)
    desk.fail_over()
    desk.context.forget_sessions()
    client = client_of(desk)
    answer = client.ask("ACK", id=message.headers["message-id"])
    assert answer == [] or answer[0].command != "ERROR", answer
    client.subscribe(TOPIC, "d", **NAME)
    assert messages(client) == []
    other = client_of(desk, "c2")
    other.subscribe(TOPIC, "d", **NAME)
    assert [it.body for it in messages(other)] == [b"1"]
    agree(desk)


def test_non_persistent_messages_are_for_who_is_there(desk) -> None:
    """
    As with any topic: nothing of them is stored.
    """
    client = take_up(desk, selector="a = '1'")
    take_up(desk, "c2").leave()
    sender = desk.connect()
    for value in ("1", "2"):
        sender.send(value.encode(), TOPIC, persistent="false", a=value)
    assert [it.body for it in messages(client)] == [b"1"]
    away = client_of(desk, "c2")
    away.subscribe(TOPIC, "d", **NAME)
    assert messages(away) == []
    assert records(desk, MessageRecord) == []


def test_a_log_of_an_older_level_has_none(desk) -> None:
    """
    The sentence names the level; nothing is left behind.
    """
    desk.broker.state.format_level = DURABLE_LEVEL - 1
    error = client_of(desk).refusal("SUBSCRIBE", destination=TOPIC, id="d", **NAME)
    assert "durable subscriptions" in error.headers["message"]
    assert desk.broker.durables.count == 0


def test_there_is_a_limit(desk) -> None:
    """
    Over all topics; one that is taken up again is no new one.
    """
    desk.broker.durables.count_max = 2
    for number in (1, 2):
        take_up(desk, f"c{number}").leave()
    error = client_of(desk, "c3").refusal("SUBSCRIBE", destination=TOPIC, id="d", **NAME)
    assert "durable subscriptions already; at most 2" in error.headers["message"]
    take_up(desk, "c2")


def test_selectors_have_a_limit_of_memory(desk) -> None:
    """
    Of all together, as they stay in the leader's; whoever ends one makes room.
    """
    desk.broker.durables.selector_bytes_max = 5_000
    first = take_up(desk, "c1", selector="a = 1")
    wanted = {"destination": TOPIC, "id": "d", **NAME, "selector": "b = '" + "x" * 60 + "'"}
    error = client_of(desk, "c2").refusal("SUBSCRIBE", **wanted)
    assert "selectors of durable subscriptions would take" in error.headers["message"]
    assert desk.broker.durables.count == 1
    first.say("UNSUBSCRIBE", id="d", **NAME)
    take_up(desk, "c3", selector=wanted["selector"])
    assert 4_000 < desk.broker.destinations.leadership.selector_bytes <= 5_000
    desk.fail_over()
    assert 4_000 < desk.broker.destinations.leadership.selector_bytes <= 5_000


def test_selectors_of_one_topic_have_a_limit_of_time(desk) -> None:
    """
    All are asked of each message; another topic's are not, and one that is replaced is none more.
    """
    desk.broker.durables.effort_max = 2
    for name in ("c1", "c2"):
        take_up(desk, name, selector="a = 1").leave()
    wanted = {"id": "d", **NAME, "selector": "a = 2"}
    error = client_of(desk, "c3").refusal("SUBSCRIBE", destination=TOPIC, **wanted)
    assert "'prices' would take 3 steps a message, at most 2" in error.headers["message"]
    take_up(desk, "c2", selector="a = 3")
    other = client_of(desk, "c4")
    other.subscribe("/topic/other", "d", **NAME, selector="a = 2")
    desk.turn()
    assert other.frames() == []


def test_what_they_want_is_read_before_a_leader_begins_in_steps(desk) -> None:
    """
    One selector a step: the first message of a topic with many of them holds up nobody.
    """
    for number in range(5):
        take_up(desk, f"c{number}", selector=f"a = {number}").leave()
    read = []
    broker = desk.broker
    reader = broker.destinations.read_selector

    def note(text, topic):
        read.append(text)
        return reader(text, topic)

    broker.destinations.read_selector = note
    broker.prepare(broker.numbering)
    steps = 0
    while broker.errands:
        assert len(read) == steps + 1
        broker.errands.run(lambda: True)
        steps += 1
    assert sorted(read) == [f"a = {number}" for number in range(5)]
    broker.lead(broker.numbering)
    topic = broker.destinations.stored.topic("prices")
    assert len(topic.selective) == len(read) == 5


def test_acknowledgements_on_their_way_do_not_bring_a_deleted_one_back(desk) -> None:
    """
    They would stand behind its end in the log.
    """
    take_up(desk, "c2")
    client = take_up(desk)
    desk.connect().send(b"1", TOPIC)
    (message,) = messages(client)
    client.say("ACK", id=message.headers["ack"])
    client.say("UNSUBSCRIBE", id="d", **NAME)
    desk.turn()
    assert [it.key for it in desk.broker.state.subscriptions.values()] == [("c2", "mine")]
    assert len(desk.broker.state.queues) == 2
    agree(desk)


def test_it_says_since_when_it_is_alone(desk) -> None:
    """
    In the log, so that every leader knows it.
    """
    client = take_up(desk)
    (lasting,) = desk.broker.state.subscriptions.values()
    assert lasting.detached_at == 0
    client.leave()
    desk.turn()
    assert lasting.detached_at > 0
    desk.fail_over()
    (lasting,) = desk.broker.state.subscriptions.values()
    assert lasting.detached_at > 0
    take_up(desk)
    assert lasting.detached_at == 0
    agree(desk)


def test_expired_messages_are_given_to_nobody(desk) -> None:
    """
    Also not to who was away; what does not expire is.
    """
    take_up(desk).leave()
    sender = desk.connect()
    now_ms = desk.broker.sending.now_microseconds // 1000
    sender.send(b"short", TOPIC, expires=str(now_ms + 1000))
    sender.send(b"long", TOPIC)
    desk.turn()
    desk.broker.sending.now_microseconds += 2_000_000
    client = client_of(desk)
    client.subscribe(TOPIC, "d", **NAME)
    assert [it.body for it in messages(client)] == [b"long"]
    agree(desk)


def test_numbers_of_producers_do_not_count_on_topics(desk) -> None:
    """
    Whether they are stored or not: one may begin or end between two numbers, and leave no gap.
    """
    sender = desk.connect()
    numbered = {"producer_id": "p", "persistent": "true"}
    sender.send(b"1", TOPIC, producer_sequence="1", **numbered)
    take_up(desk)
    for number in ("7", "7"):
        sender.send(b"again", TOPIC, producer_sequence=number, **numbered)
    desk.turn()
    assert sender.frames() == []
    assert [it.body for it in records(desk, MessageRecord)] == [b"again", b"again"]
    place = f"/queue/orders,{TOPIC}"
    for number in ("1", "1"):
        sender.send(b"once", place, producer_sequence=number, receipt=number, **numbered)
        desk.turn()
    assert [it.command for it in sender.frames()] == ["RECEIPT", "RECEIPT"]
    assert [it.body for it in records(desk, MessageRecord)][2:] == [b"once", b"once"]
    agree(desk)


def test_advisories_speak_of_its_topic(desk) -> None:
    """
    To whoever listens they are consumers of that; and nobody keeps advisories durably.
    """
    listener = desk.connect()
    listener.subscribe("/topic/ActiveMQ.Advisory.Consumer.Topic.>", "a", ack="auto")
    desk.turn()
    client = take_up(desk)
    (came,) = messages(listener)
    assert came.headers["destination"] == "/topic/ActiveMQ.Advisory.Consumer.Topic.prices"
    client.ask("UNSUBSCRIBE", id="d")
    assert len(messages(listener)) == 1
    advisories = "/topic/ActiveMQ.Advisory.Consumer.Topic.prices"
    error = client.refusal("SUBSCRIBE", destination=advisories, id="x", **NAME)
    assert "advisory messages are the broker's own" in error.headers["message"]
