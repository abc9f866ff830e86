"""
Questions of ActiveMQ's statistics plugin, as STOMP clients ask them.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.destination import Kind
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.sessions.question_limits import QUESTIONS_MAX
from holdfast.sessions.statistics import ANSWERS_MAX

PREFIX = "ActiveMQ.Statistics."


@pytest.fixture
def desk(desk):
    desk.broker.state.format_level = NEWEST_LEVEL
    return desk


def read(body: bytes) -> dict[str, object]:
    """Read a map as ActiveMQ's users do."""
    found: dict[str, object] = {}
    for entry in json.loads(body)["map"]["entry"]:
        name, *rest = entry["string"] if isinstance(entry["string"], list) else [entry["string"]]
        found[name] = rest[0] if rest else next(v for k, v in entry.items() if k != "string")
    return found


def ask(client, name: str, kind: str = "queue", **headers: str) -> list:
    """Ask, and give all that is answered."""
    destination = f"/{kind}/{PREFIX}{name}"
    told = client.ask("SEND", destination=destination, reply_to="/temp-queue/r", **headers)
    assert [frame for frame in told if frame.command == "ERROR"] == []
    return [frame for frame in told if frame.command == "MESSAGE"]


def asking(desk):
    client = desk.connect()
    client.subscribe("/temp-queue/r", id="r", ack="auto")
    return client


def test_a_queue_tells_what_is_on_it(desk) -> None:
    """
    By its name, with or without the dot; the answer has the question's correlation-id.
    """
    client = asking(desk)
    worker = desk.connect()
    worker.subscribe(activemq__prefetchSize="1")
    for _ in range(3):
        client.send(b"1234567890")
    client.say("SEND", b"12345", destination="/queue/orders")
    desk.turn()
    worker.say("ACK", id=worker.frames()[0].headers["ack"])
    desk.turn()
    for name in ("Destination.orders", "Destinationorders"):
        (frame,) = ask(client, name, correlation_id="a:1", receipt="q")
        assert frame.headers["correlation-id"] == "a:1"
        assert frame.headers["transformation"] == "jms-map-json"
        assert "persistent" not in frame.headers
        values = read(frame.body)
        assert values["destinationName"] == "queue://orders"
        assert values["brokerName"] == "n1"
        assert (values["size"], values["enqueueCount"], values["dequeueCount"]) == (3, 4, 1)
        assert (values["inflightCount"], values["consumerCount"]) == (1, 1)
        assert (values["memoryUsage"] >= 5, values["memoryPercentUsage"]) == (True, 0)
        assert isinstance(values["averageMessageSize"], float)
    assert desk.broker.destinations.queue_names() == ["orders", f"{client.session.address}.r"]


def test_a_pattern_tells_of_each_and_that_there_are_no_more(desk) -> None:
    """
    Queues or topics, as what is asked is one; nothing of the broker's own. Who wants to know when
    it is over gets an empty map.
    """
    client = asking(desk)
    for name in ("a.1", "a.2", "b"):
        client.send(b"x", f"/queue/{name}")
        desk.connect().subscribe(f"/topic/{name}", ack="auto")
    client.send(b"x", "/queue/a.3", AMQ_SCHEDULED_DELAY="1000")
    desk.turn()
    found = [read(it.body)["destinationName"] for it in ask(client, "Destination.a.*")]
    assert sorted(found) == ["queue://a.1", "queue://a.2"]
    found = [read(it.body)["destinationName"] for it in ask(client, "Destination.>", "topic")]
    assert sorted(found) == ["topic://a.1", "topic://a.2", "topic://b"]
    header = {"ActiveMQ__Statistics__Destination__List__End__With__Null": "true"}
    *_, last = [read(it.body) for it in ask(client, "Destination.b", **header)]
    assert last == {}
    assert ask(client, "Destination.none") == []


def test_a_topic_tells_what_is_stored_for_who_is_away(desk) -> None:
    """
    Each message once. It is there before anybody subscribes plainly, and under the next leader; a
    pattern finds it, once, whoever else listens.
    """
    client = asking(desk)
    away = [desk.connect(client_id=name) for name in "ab"]
    for each in away:
        each.subscribe("/topic/prices", id="d", activemq__subscriptionName="mine")
    desk.turn()
    away[0].say("DISCONNECT")
    for _ in range(3):
        client.send(b"1234567890", "/topic/prices")
    desk.turn()
    for name in ("Destination.prices", "Destination.>"):
        (frame,) = ask(client, name, "topic")
        values = read(frame.body)
        assert values["destinationName"] == "topic://prices"
        assert (values["size"], values["enqueueCount"], values["dequeueCount"]) == (3, 3, 0)
        assert (values["inflightCount"], values["consumerCount"]) == (3, 1)
        assert values["averageMessageSize"] > 10.0
    desk.connect().subscribe("/topic/prices", ack="auto")
    (frame,) = ask(client, "Destination.>", "topic")
    assert read(frame.body)["consumerCount"] == 2

    desk.fail_over()
    client = asking(desk)
    (frame,) = ask(client, "Destination.prices", "topic")
    values = read(frame.body)
    assert (values["size"], values["inflightCount"], values["consumerCount"]) == (3, 0, 0)
    assert desk.broker.destinations.topics == {}
    assert desk.broker.destinations.leadership.stored_topics == {}


def test_consumers_of_durable_subscriptions_are_told_of(desk) -> None:
    """
    As others of the topic are; one that nobody consumes from is no consumer.
    """
    client = asking(desk)
    for name in "ab":
        worker = desk.connect(client_id=name)
        worker.subscribe("/topic/prices", id="d", activemq__subscriptionName="mine")
    desk.turn()
    worker.say("DISCONNECT")
    client.send(b"x", "/topic/prices")
    desk.turn()
    found = [read(it.body) for it in ask(client, "Subscription")]
    (told,) = [it for it in found if it["destinationName"] == "topic://prices"]
    assert (told["clientId"], told["dispatchedQueueSize"]) == ("a", 1)


def test_the_broker_tells_of_all(desk) -> None:
    """
    In XML, too; what nobody counts here is not told.
    """
    client = asking(desk)
    client.send(b"x", "/queue/a")
    client.send(b"x", "/queue/b<")
    desk.turn()
    (frame,) = ask(client, "Broker", "topic")
    values = read(frame.body)
    assert (values["size"], values["enqueueCount"], values["consumerCount"]) == (2, 2, 1)
    assert "averageEnqueueTime" not in values
    (frame,) = ask(client, "Broker", transformation="jms-map-xml")
    entries = ET.fromstring(frame.body).findall("entry")
    assert {"brokerName": "n1"}.items() <= {
        entry[0].text: entry[1].text for entry in entries
    }.items()


def test_subscriptions_are_told_one_by_one(desk) -> None:
    """
    Of queues and topics, with what each has in delivery.
    """
    client = asking(desk)
    worker = desk.connect(client_id="billing")
    worker.subscribe(selector="a = 'x'", activemq__prefetchSize="7", activemq__exclusive="true")
    worker.subscribe("/topic/news", id="t", activemq__maximumPendingMessageLimit="3")
    client.send(b"x", a="x")
    desk.turn()
    found = {read(it.body)["destinationName"]: read(it.body) for it in ask(client, "Subscription")}
    queue = found["queue://orders"]
    assert (queue["clientId"], queue["prefetchSize"], queue["exclusive"]) == ("billing", 7, True)
    assert queue["connectionId"] == worker.session.id
    assert (queue["dispatchedQueueSize"], queue["slowConsumer"]) == (1, False)
    assert queue["selector"]
    assert found["topic://news"]["maximumPendingMessageLimit"] == 3


def test_a_question_gets_so_many_answers_in_steps(desk) -> None:
    """
    A hundred thousand queues would be a hundred megabytes of answers for one small frame.
    """
    client = asking(desk)
    for number in range(ANSWERS_MAX + 50):
        desk.broker.queue(f"q{number}")
    desk.turn()
    client.say("SEND", destination=f"/queue/{PREFIX}Destination.>", reply_to="/temp-queue/r")
    assert desk.broker.errands
    desk.turn()
    assert len(client.frames()) == ANSWERS_MAX


def test_where_there_is_no_room_nothing_is_answered(new_desk) -> None:
    """
    Memory for non-persistent messages is full of answers that nobody takes: no more come, and what
    goes on is not a loop.
    """
    desk = new_desk(BrokerSettings(memory_bytes=20_000))
    client = desk.connect()
    for number in range(100):
        desk.broker.queue(f"q{number}")
    client.say("SEND", destination=f"/queue/{PREFIX}Destination.>", reply_to="/queue/r")
    desk.turn()
    assert desk.broker.flow.volatile_bytes < 22_000
    assert not desk.broker.errands
    client.say("SUBSCRIBE", destination="/queue/r", id="1", ack="auto")
    desk.turn()
    assert 0 < len(client.frames()) < 40


def test_answers_go_to_topics_and_to_who_is_there_still(desk) -> None:
    """
    A temporary queue that went meanwhile ends the answering.
    """
    listener = desk.connect()
    listener.subscribe("/topic/answers", ack="auto")
    asker = desk.connect()
    asker.say("SEND", destination=f"/queue/{PREFIX}Broker", reply_to="/topic/answers")
    desk.turn()
    assert [frame.command for frame in listener.frames()] == ["MESSAGE"]
    for number in range(300):
        desk.broker.queue(f"q{number}")
    asker.say("SEND", destination=f"/queue/{PREFIX}Destination.>", reply_to="/temp-queue/r")
    asker.session.leave()
    desk.turn()
    assert not desk.broker.errands


@pytest.mark.parametrize(
    ("destination", "headers", "code", "why"),
    [
        ("/queue/ActiveMQ.Statistics.Broker", {}, "refused", "there is none"),
        ("/queue/ActiveMQ.Statistics.Broke", {"reply_to": "/queue/r"}, "destination", "nothing"),
        (
            "/queue/ActiveMQ.Statistics.Destination",
            {"reply_to": "/queue/r"},
            "destination",
            "which",
        ),
        (
            "/queue/ActiveMQ.Statistics.Destination.a>",
            {"reply_to": "/queue/r"},
            "destination",
            "stands at the end",
        ),
        ("/queue/ActiveMQ.Statistics.Broker", {"reply_to": "/queue/"}, "destination", "no name"),
        ("/queue/ActiveMQ.Statistics.Broker", {"reply_to": "$x"}, "destination", "own"),
        (
            "/queue/ActiveMQ.Statistics.Broker",
            {"reply_to": "/queue/r", "transformation": "jms-xml"},
            "refused",
            "jms-xml",
        ),
        (
            "/queue/ActiveMQ.Statistics.Broker",
            {"reply_to": "/queue/r", "ActiveMQ__Statistics__Broker__Reset": "1"},
            "not-served",
            "reset",
        ),
        (
            "/queue/ActiveMQ.Statistics.Broker,/queue/a",
            {"reply_to": "/queue/r"},
            "destination",
            "statistics",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused(desk, destination, headers, code, why) -> None:
    """
    With what is wrong, and the connection lives.
    """
    client = desk.connect()
    error = client.refusal("SEND", destination=destination, receipt="r", **headers)
    assert error.headers["code"] == code
    assert why in error.headers["message"]
    assert client.ask("SEND", destination="/queue/a", receipt="1")[0].command == "RECEIPT"


def test_a_transaction_asks_nothing(desk) -> None:
    """
    It would be answered though it is rolled back, or with what was before it.
    """
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    named = {"destination": f"/queue/{PREFIX}Broker", "reply_to": "/queue/r", "transaction": "t"}
    assert client.refusal("SEND", **named).headers["code"] == "not-served"


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_questions_are_not_subscribed_to(desk, kind) -> None:
    """
    Nothing is ever there.
    """
    error = desk.connect().refusal("SUBSCRIBE", destination=f"/{kind}/{PREFIX}Broker", id="1")
    assert "statistics" in error.headers["message"]


def test_of_questions_that_look_through_many_only_so_many_wait(desk) -> None:
    """
    What comes beyond is refused, and the connection lives; each other client may ask as many. What
    is asked of one destination waits for none of them.
    """
    client, other = asking(desk), asking(desk)
    for number in range(600):
        desk.broker.queue(f"q{number}")
    desk.turn()
    for name in ("Destination.>", "Subscription") * 20:
        client.say("SEND", destination=f"/queue/{PREFIX}{name}", reply_to="/topic/nobody")
    refused = client.frames()
    assert len(refused) == 40 - QUESTIONS_MAX
    assert {frame.headers["code"] for frame in refused} == {"limit-reached"}
    assert "16 questions" in refused[0].headers["message"]
    client.say("SEND", destination=f"/queue/{PREFIX}Destination.q1", reply_to="/temp-queue/r")
    assert desk.broker.destinations.find(f"{client.session.address}.r")[1].transient_count == 1
    other.say("SEND", destination=f"/queue/{PREFIX}Destination.>", reply_to="/topic/nobody")
    assert other.frames() == []
    desk.turn()
    assert not desk.broker.errands
    client.frames()
    assert len(ask(client, "Destination.>")) == 602


def test_all_who_look_at_once_have_one_list_of_names(desk) -> None:
    """
    A list for each would be a megabyte where there are a hundred thousand queues; nothing is looked
    at, and nothing listed, in the turn that reads the question.
    """
    clients = [asking(desk) for _ in range(3)]
    for number in range(600):
        desk.broker.queue(f"q{number}")
    desk.turn()
    listed = []
    for client in clients:
        for _ in range(QUESTIONS_MAX):
            client.say(
                "SEND", destination=f"/queue/{PREFIX}Destination.z.*", reply_to="/topic/nobody"
            )
    assert not desk.broker.bundling._names
    for _ in clients:
        desk.broker.errands.run(lambda: True)
        listed.append(desk.broker.bundling.names_of(Kind.QUEUE))
    assert listed[0] is listed[1] is listed[2]
    assert sorted(listed[0]) == sorted(desk.broker.destinations.queue_names())
    listed.clear()
    desk.turn()
    assert not desk.broker.bundling._names


def test_what_comes_while_somebody_looks_is_among_the_names(desk) -> None:
    """
    Who subscribes by a wildcard then looks through the same list.
    """
    client = asking(desk)
    for number in range(600):
        desk.broker.queue(f"q{number}")
    desk.turn()
    client.say("SEND", destination=f"/queue/{PREFIX}Destination.z.*", reply_to="/topic/nobody")
    desk.broker.errands.run(lambda: True)
    desk.broker.queue("late.1")
    client.subscribe("/queue/late.*", id="late")
    desk.turn()
    client.send(b"x", "/queue/late.1")
    assert client.bodies() == ["x"]


def test_who_is_gone_is_answered_nothing(desk) -> None:
    """
    What was asked ends with the connection, also where the answers go elsewhere.
    """
    client = desk.connect()
    for number in range(600):
        desk.broker.queue(f"q{number}")
    desk.turn()
    for _ in range(3):
        client.say("SEND", destination=f"/queue/{PREFIX}Destination.>", reply_to="/queue/answers")
    desk.broker.errands.run(lambda: True)
    client.leave()
    assert not desk.broker.errands.telling
    desk.turn()
    assert desk.broker.queue("answers").transient_count == 0


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_place_for_answers_that_cannot_be_again_ends_the_answering(new_desk, kind) -> None:
    """
    It was deleted, and there are as many queues as may be: an errand that raised ended the node.
    """
    desk = new_desk(BrokerSettings(queue_count_max=5, topic_count_max=1))
    desk.broker.state.format_level = NEWEST_LEVEL
    client = desk.connect()
    for number in range(4):
        desk.broker.queue(f"q{number}")
    desk.turn()
    client.say("SEND", destination=f"/queue/{PREFIX}Destination.>", reply_to=f"/{kind}/answers")
    if kind == "queue":
        desk.broker.delete("answers", client.session, b"r")
    else:
        desk.broker.topic("another")
    desk.seal()
    desk.commit()
    desk.broker.queue("another")
    desk.broker.errands.finish()
    assert desk.broker.errands.broken == []
    assert client.session.holdings.sending.question_count == 0
