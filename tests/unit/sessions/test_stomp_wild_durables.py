"""
Durable subscriptions of wildcards, in STOMP's words: what they get, what they share, how they end.
"""

from __future__ import annotations

import pytest

from holdfast.broker import durables
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL, WILD_DURABLES_LEVEL
from holdfast.model.records import FormatRecord, MessageRecord
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.server.subscription_status import subscription_keys, subscription_statuses
from holdfast.store.record_codec import decode_records

NAMED = {"activemq__subscriptionName": "mine"}


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings())
    desk.broker.receipts.record(FormatRecord(WILD_DURABLES_LEVEL))
    desk.turn()
    return desk


def consumer(desk, place: str = "/topic/a.>", client_id: str = "ann", **headers: str):
    client = desk.connect(client_id=client_id)
    return take_up(client, place, **headers)


def take_up(client, place: str = "/topic/a.>", **headers: str):
    said = {"id": "s", "ack": "client-individual", "destination": place, **NAMED, **headers}
    client.say("SUBSCRIBE", **said)
    client.desk.turn()
    return client


def send(desk, *places: str, body: bytes = b"x", persistent: str = "true", **headers: str) -> None:
    producer = desk.connect()
    for place in places:
        producer.say("SEND", body, destination=place, persistent=persistent, **headers)
    desk.turn()
    assert producer.frames() == []
    producer.leave()


def messages(client) -> list:
    client.desk.turn()
    frames = client.frames()
    assert [frame for frame in frames if frame.command == "ERROR"] == []
    return [frame for frame in frames if frame.command == "MESSAGE"]


def refusal(client) -> str:
    client.desk.turn()
    (frame,) = client.frames()
    assert frame.command == "ERROR"
    return frame.headers["message"]


def places(frames) -> list[str]:
    return [frame.headers["destination"] for frame in frames]


def told(desk) -> list:
    return [it for it in subscription_statuses(desk.broker, subscription_keys(desk.broker)) if it]


def test_the_first_message_of_a_topic_stands_in_one_entry_with_all_it_needs(desk) -> None:
    """
    The topic, what each wildcard has of it, and the message: whoever has one has all.
    """
    consumer(desk).leave()
    consumer(desk, "/topic/*.x", "ben", selector="n = 1").leave()
    desk.turn()
    send(desk, "/topic/a.x")
    records = list(decode_records(desk.log[-1][2]))
    kinds = [type(each) for each in records]
    assert kinds == [TopicRecord, SubscriptionRecord, SubscriptionRecord, MessageRecord]
    assert [each.topic_number for each in records[:3]] == 3 * [records[3].queue_number]
    assert records[3].facts.skips, "the second does not want it"
    send(desk, "/topic/a.x", "/topic/b.y")
    kinds = [type(each) for each in decode_records(desk.log[-1][2])]
    assert kinds == [MessageRecord], "to what concerns nobody nothing is stored"


def test_it_gets_what_is_sent_to_each_topic_also_to_those_that_come_later(desk) -> None:
    """
    While it is away, over a failover, once each, under the one id and the topic's own name.
    """
    send(desk, "/topic/a.early")
    consumer(desk).leave()
    send(desk, "/topic/a.x", "/topic/a.early", "/topic/b", "/topic/a")
    desk.fail_over()
    desk.context.forget_sessions()
    send(desk, "/topic/a.y.z")
    client = consumer(desk)
    found = messages(client)
    assert sorted(places(found)) == ["/topic/a", "/topic/a.early", "/topic/a.x", "/topic/a.y.z"]
    assert {frame.headers["subscription"] for frame in found} == {"s"}
    send(desk, "/topic/a.new")
    found += messages(client)
    for frame in found:
        client.say("ACK", id=frame.headers["ack"])
    desk.turn()
    assert desk.broker.state.live_count() == 0
    client.leave()
    assert messages(consumer(desk)) == []


def test_what_is_not_persistent_comes_while_it_consumes(desk) -> None:
    """
    From the first message of a topic on, as of one that somebody subscribes to.
    """
    client = consumer(desk)
    send(desk, "/topic/a.x", "/topic/a.x", "/topic/b", persistent="false")
    found = messages(client)
    assert places(found) == ["/topic/a.x", "/topic/a.x"]
    for frame in found:
        client.say("ACK", id=frame.headers["ack"])
    client.leave()
    send(desk, "/topic/a.x", persistent="false")
    assert messages(consumer(desk)) == []


def test_topics_that_are_in_use_already_are_stored_from_its_receipt_on(desk) -> None:
    """
    Who sends to one all the time, and has its place worked out, stores from then on.
    """
    producer = desk.connect()
    for _ in range(2):
        producer.say("SEND", b"1", destination="/topic/a.x", persistent="true")
    desk.turn()
    assert not desk.broker.state.topics
    client = consumer(desk, receipt="r")
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    producer.say("SEND", b"2", destination="/topic/a.x", persistent="true")
    assert [frame.body for frame in messages(client)] == [b"2"]
    client.say("UNSUBSCRIBE", id="s", **NAMED)
    desk.turn()
    assert not desk.broker.topic("a.x").is_stored and not desk.broker.topic("a.x").is_outdated


def test_its_parts_share_one_prefetch_and_one_order(desk) -> None:
    """
    A cumulative acknowledgement settles what was delivered before, wherever it was sent.
    """
    client = consumer(desk, ack="client", **{"activemq.prefetchSize": "3"})
    send(desk, "/topic/a.x", "/topic/a.y", "/topic/a.x", "/topic/a.z", "/topic/a.y")
    found = messages(client)
    assert len(found) == 3
    client.say("ACK", id=found[2].headers["ack"])
    found = messages(client)
    assert len(found) == 2
    client.say("NACK", id=found[1].headers["ack"], requeue="true")
    again = messages(client)
    assert [it.headers["redelivered"] for it in again] == ["true"]
    assert again[0].headers["destination"] == found[1].headers["destination"]
    assert desk.broker.state.live_count() == 2


def test_a_transaction_stores_and_settles_for_it(desk) -> None:
    """
    What is sent in one to a topic that nobody had named, and what one settles and rolls back.
    """
    client = consumer(desk)
    producer = desk.connect()
    producer.say("BEGIN", transaction="t")
    for place in ("/topic/a.x", "/topic/a.y", "/topic/a.x"):
        producer.say("SEND", b"1", destination=place, persistent="true", transaction="t")
    desk.turn()
    assert messages(client) == []
    producer.say("COMMIT", transaction="t")
    found = messages(client)
    assert sorted(places(found)) == ["/topic/a.x", "/topic/a.x", "/topic/a.y"]
    client.say("BEGIN", transaction="u")
    for frame in found:
        client.say("ACK", id=frame.headers["ack"], transaction="u")
    client.say("ABORT", transaction="u")
    assert desk.broker.state.live_count() == 3
    client.say("BEGIN", transaction="v")
    for frame in found:
        client.say("ACK", id=frame.headers["ack"], transaction="v")
    client.say("COMMIT", transaction="v")
    desk.turn()
    assert desk.broker.state.live_count() == 0


def test_what_was_sent_before_it_was_made_and_is_committed_behind_is_its_own(desk) -> None:
    """
    As with a durable subscription of the topic: it is sent when it is committed.
    """
    consumer(desk, "/topic/a.y", "ben").leave()
    producer = desk.connect()
    producer.say("BEGIN", transaction="t")
    for place in ("/topic/a.x", "/topic/a.y"):
        producer.say("SEND", b"1", destination=place, persistent="true", transaction="t")
    desk.turn()
    client = consumer(desk)
    producer.say("COMMIT", transaction="t")
    assert sorted(places(messages(client))) == ["/topic/a.x", "/topic/a.y"]


def test_it_ends_as_a_whole(desk) -> None:
    """
    By its name, with a consumer here; its client is told behind it, and nothing of it is left.
    """
    client = consumer(desk)
    send(desk, *(f"/topic/a.{number}" for number in range(20)))
    assert len(messages(client)) == 20
    client.say("UNSUBSCRIBE", id="s", receipt="u", **NAMED)
    desk.turn()
    assert [frame.headers["receipt-id"] for frame in client.frames()] == ["u"]
    state = desk.broker.state
    assert not (state.subscriptions or state.topics or state.parts or state.live_count())
    client.say("UNSUBSCRIBE", id="s", receipt="v", **NAMED)  # stomp-php ends it twice.
    desk.turn()
    assert [frame.headers["receipt-id"] for frame in client.frames()] == ["v"]
    send(desk, "/topic/a.1")
    assert not state.topics and desk.broker.durables.count == 0


def test_who_leaves_it_without_its_name_takes_it_up_again_at_once(desk) -> None:
    """
    In the same turn, with many parts: it never seems to have a consumer still.
    """
    client = consumer(desk)
    send(desk, *(f"/topic/a.{number}" for number in range(20)))
    assert len(messages(client)) == 20
    client.say("UNSUBSCRIBE", id="s", receipt="u")
    take_up(client)
    found = client.frames()
    assert [it.command for it in found if it.command != "MESSAGE"] == ["RECEIPT"]
    again = [it for it in found if it.command == "MESSAGE"]
    assert len(again) == 20 and {it.headers["redelivered"] for it in again} == {"true"}
    client.session.closing = True
    client.leave()
    assert len(messages(consumer(desk))) == 20


def test_another_one_is_refused_while_somebody_consumes(desk) -> None:
    """
    Under another id; so is what means no topics, or several things.
    """
    client = consumer(desk)
    send(desk, "/topic/a.x", "/topic/a.y")
    assert len(messages(client)) == 2
    for headers, why in (
        ({"id": "other"}, "has an active consumer"),
        ({"id": "other", "place": "/topic/a.x"}, "has an active consumer"),
        ({"id": "other", "place": "/topic/>,/topic/b"}, "is several"),
        ({"id": "other", "place": "/topic/a.>.>"}, "'>' stands at the end"),
        ({"id": "other", "place": "/queue/a.>"}, "of topics only"),
    ):
        assert why in refusal(take_up(client, **headers))
    assert desk.broker.state.live_count() == 2


def test_one_that_wants_something_else_ends_and_begins_anew(desk) -> None:
    """
    Another wildcard, selector, or a single topic: in one entry; what it had is gone.
    """
    state = desk.broker.state
    for place, headers in (
        ("/topic/a.*", {}),
        ("/topic/a.*", {"selector": "n = 1"}),
        ("/topic/a.*", {"selector": "n = 1", "no_local": "true"}),
        ("/topic/a.x", {}),
        ("/topic/a.>", {}),
    ):
        client = consumer(desk, place, **headers)
        send(desk, "/topic/a.x", n="1")
        assert len(messages(client)) == 1
        client.leave()
        desk.turn()
        (only,) = told(desk)
        assert (only.topic, only.messages) == (place.removeprefix("/topic/"), 1)
    assert state.live_count() == 1


def test_rabbitmqs_words_do(desk) -> None:
    """
    By id and wildcard, without a client-id.
    """
    client = desk.connect()
    said = {"id": "d", "destination": "/topic/a.*", "durable": "true", "ack": "client"}
    client.say("SUBSCRIBE", **said)
    desk.turn()
    client.leave()
    send(desk, "/topic/a.x")
    client = desk.connect()
    client.say("SUBSCRIBE", **said)
    assert places(messages(client)) == ["/topic/a.x"]
    client.say("UNSUBSCRIBE", id="d", durable="true")
    desk.turn()
    assert not desk.broker.state.topics


def test_no_local_and_a_selector_hold_on_each_topic(desk) -> None:
    """
    Also on those that come later, and under another leader.
    """
    client = consumer(desk, selector="n = 1", no_local="true")
    desk.fail_over()
    desk.context.forget_sessions()
    client = consumer(desk, selector="n = 1", no_local="true")
    client.say("SEND", b"own", destination="/topic/a.x", persistent="true", n="1")
    send(desk, "/topic/a.x", body=b"other", n="1")
    send(desk, "/topic/a.x", body=b"unwanted", n="2")
    assert [frame.body for frame in messages(client)] == [b"other"]
    assert desk.broker.state.live_count() == 1


def test_not_every_member_knows_it_yet(desk) -> None:
    """
    Then it is refused, and single topics are not.
    """
    desk.broker.state.format_level = DURABLE_LEVEL
    client = desk.connect(client_id="ann")
    assert "durable subscriptions of wildcards" in refusal(take_up(client))
    assert messages(take_up(client, "/topic/a.x")) == []


def test_a_producer_is_told_that_there_are_too_many_topics(desk) -> None:
    """
    One that names ever new ones; what was known goes on, and room comes back as one ends.
    """
    desk.broker.durables.count_max = 3
    client = consumer(desk)
    send(desk, "/topic/a.1", "/topic/a.2", "/topic/b")
    producer = desk.connect()
    producer.say("SEND", b"x", destination="/topic/a.3", persistent="true")
    text = refusal(producer)
    assert "3 durable subscriptions, with one for each topic that a wildcard means" in text
    producer.say("BEGIN", transaction="t")
    producer.say("SEND", b"x", destination="/topic/a.3", persistent="true", transaction="t")
    assert "at most 3" in refusal(producer)
    send(desk, "/topic/a.1", "/topic/b")
    assert len(messages(client)) == 3
    client.say("UNSUBSCRIBE", id="s", **NAMED)
    take_up(client)
    send(desk, "/topic/a.3")
    assert len(messages(client)) == 1


def test_there_are_only_so_many_wildcards(desk, monkeypatch) -> None:
    """
    As all may mean one topic; nor may their selectors take too long together.
    """
    desk.broker.durables.wild_max = 2
    consumer(desk, "/topic/a.*", "ann")
    consumer(desk, "/topic/b.*", "ben").leave()
    client = desk.connect(client_id="carl")
    assert "are 2 durable subscriptions of wildcards" in refusal(take_up(client))
    assert messages(consumer(desk, "/topic/c.*", "ben")) == [], "it stands for what it had"
    desk.broker.durables.wild_max = 9
    desk.broker.durables.wild_effort_max = 0
    assert "steps a message, at most 0" in refusal(take_up(client, selector="n = 1"))
    assert durables._WILD_MAX <= 64


def test_one_row_tells_of_all_its_parts(desk) -> None:
    """
    Sums over them, on any node; no row is a part's.
    """
    client = consumer(desk, **{"activemq.prefetchSize": "2"})
    send(desk, "/topic/a.x", "/topic/a.y", "/topic/a.y", body=b"123")
    assert len(messages(client)) == 2
    (row,) = told(desk)
    assert (row.client_id, row.name, row.topic) == ("ann", "mine", "a.>")
    assert (row.messages, row.unacknowledged, row.is_active) == (3, 2, True)
    desk.fail_over()
    (again,) = told(desk)
    assert (again.messages, again.bytes, again.is_active) == (3, row.bytes, False)


def test_who_consumes_is_not_bothered_as_what_is_empty_goes(desk) -> None:
    """
    It leaves that part alone, and has the next message of the topic, and of all others.
    """
    client = consumer(desk)
    send(desk, "/topic/a.x", "/topic/a.y", "/topic/a.z")
    found = messages(client)
    for frame in found[1:]:
        client.say("ACK", id=frame.headers["ack"])
    desk.turn()
    topics = desk.broker.state.topics
    for name in ("a.y", "a.z"):
        (part,) = topics[name].subscriptions.values()
        desk.broker.durables.remove_part(part.key)
    desk.turn()
    assert set(topics) == {"a.>", "a.x"} and told(desk)[0].is_active
    client.say("ACK", id=found[0].headers["ack"])
    send(desk, "/topic/a.y", "/topic/a.x")
    assert sorted(places(messages(client))) == ["/topic/a.x", "/topic/a.y"]
    assert desk.broker.durables.count == 3


def test_a_leader_ends_what_the_last_one_did_not(desk) -> None:
    """
    Its end is one record: whoever leads then sees nothing of it, and takes its parts away.
    """
    consumer(desk).leave()
    send(desk, "/topic/a.x", "/topic/a.y")
    broker = desk.broker
    broker.durables.remove(broker.durables.find(("ann", "mine")))
    desk.seal()
    desk.commit()
    assert broker.state.parts and told(desk) == []
    before = digest_of(broker.state)
    desk.fail_over()
    assert digest_of(desk.broker.state) == before
    desk.context.forget_sessions()
    client = consumer(desk)
    assert messages(client) == [] and not desk.broker.state.live_count()
    send(desk, "/topic/a.x")
    assert len(messages(client)) == 1 and len(desk.broker.state.parts) == 1


@pytest.mark.parametrize("more", [{}, {"colour": "red"}])
def test_who_has_sent_there_before_sends_to_it_whoever_else_comes_and_goes(desk, more) -> None:
    """
    What a producer's headers came to before is looked at anew, also where the topic was stored for
    somebody meanwhile, and for nobody since.
    """
    live, producer = desk.connect(client_id="live"), desk.connect()
    live.ask("SUBSCRIBE", destination="/topic/a.x", id="l", ack="auto")

    def publish(body: bytes) -> None:
        said = {"persistent": "true", "receipt": "r", **more}
        (frame,) = producer.ask("SEND", body, destination="/topic/a.x", **said)
        assert frame.command == "RECEIPT"

    publish(b"0")
    publish(b"1")
    wanting = consumer(desk)
    other = desk.connect(client_id="bob")
    for command in ("SUBSCRIBE", "UNSUBSCRIBE"):
        other.ask(command, destination="/topic/a.x", id="o", activemq__subscriptionName="n")
    publish(b"2")
    publish(b"3")
    assert [frame.body for frame in messages(wanting)] == [b"2", b"3"]


def test_who_takes_it_up_before_all_topics_are_looked_at_gets_what_comes(desk) -> None:
    """
    Whoever made it was gone before that was done; nobody waits for it.
    """
    producer = desk.connect()
    for number in range(3_000):
        desk.broker.topic(f"a.t{number}")
    last = "/topic/a.last"
    for _ in range(2):
        producer.ask("SEND", b"before", destination=last, persistent="true")

    def turn() -> None:
        desk.seal()
        desk.commit()
        left = iter(range(1))
        desk.broker.errands.run(lambda: next(left, None) is None)
        desk.dispatch()

    said = {"id": "s", "ack": "client-individual", "destination": "/topic/a.>", **NAMED}
    first = desk.connect(client_id="ann")
    first.say("SUBSCRIBE", **said)
    turn()
    first.leave()
    second = desk.connect(client_id="ann")
    second.say("SUBSCRIBE", receipt="r", **said)
    while not second.frames():
        turn()
    producer.say("SEND", b"after", destination=last, persistent="true")
    assert [frame.body for frame in messages(second)] == [b"after"]


def test_a_connection_with_very_many_parts_leaves_them_in_steps(desk, monkeypatch) -> None:
    """
    Else the turn in which it is lost would take as long as it has parts.
    """
    client = consumer(desk)
    assert client.session.held_count == 2
    send(desk, *[f"/topic/a.{number}" for number in range(40)])
    desk.turn()
    assert client.session.held_count == 42


def test_who_comes_again_before_all_parts_are_left_takes_it_up(desk) -> None:
    """
    It waits for its last connection to have left them; what it says meanwhile is done then.
    """
    lost = consumer(desk)
    send(desk, *[f"/topic/a.{number}" for number in range(100)])
    desk.turn()
    lost.frames()
    leaving = lost.session.leaving()
    next(leaving)
    again = consumer(desk, receipt="r")
    came = again.frames()
    assert [frame.command for frame in came if frame.command != "MESSAGE"] == ["RECEIPT"]
    assert len(came) == 101
    assert next(leaving, None) is None
    assert not desk.context.leaving_by
