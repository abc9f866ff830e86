"""
Durable subscriptions: each way to name one, by stomp.py and by a raw socket; the command line.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.test_headers import RawSpeaker, StompPySpeaker, nothing_waits

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TOPIC = "/topic/prices"
NAMES = (
    "activemq.subscriptionName",
    "activemq.subcriptionName",
    "durable-subscription-name",
    "durable-subscriber-name",
)
NUMBERS = itertools.count(1)


@pytest.fixture(params=[RawSpeaker, StompPySpeaker], ids=["raw", "stomp.py"])
def connect(request: pytest.FixtureRequest, broker: LocalNode) -> Iterator[Any]:
    """Makes connections of one kind, and closes what is left of them."""
    broker.wait_until(lambda status: status["format_level"] >= DURABLE_LEVEL, "at the level")
    speakers: list[Any] = []

    def connected(client_id: str = "") -> Any:
        said = {"client-id": client_id} if client_id else {}
        speakers.append(request.param(broker.stomp_port, **said))
        return speakers[-1]

    yield connected
    for speaker in speakers:
        speaker.close()


@pytest.fixture
def client_id() -> str:
    """Nobody else's."""
    return f"client-{next(NUMBERS)}"


def subscribe(client: Any, place: str = TOPIC, **headers: str) -> None:
    said = {"id": "d", "destination": place, "ack": "client-individual", **headers}
    client.send("SUBSCRIBE", said)


def taken_up(client: Any, place: str = TOPIC, **headers: str) -> Any:
    """Subscribe, and find that it is done."""
    subscribe(client, place, **headers, receipt="s")
    assert client.next().headers["receipt-id"] == "s"
    return client


def back(client: Any, place: str = TOPIC, **headers: str) -> Any:
    """Subscribe where something waits, which may come before a receipt."""
    subscribe(client, place, **headers)
    return client


def leave(client: Any) -> None:
    client.send("DISCONNECT", {"receipt": "bye"})
    assert client.next().headers["receipt-id"] == "bye"
    client.close()


def publish(client: Any, *bodies: bytes, place: str = TOPIC, **headers: str) -> None:
    for body in bodies:
        said = {"destination": place, "persistent": "true", "receipt": "p", **headers}
        client.send("SEND", said, body)
        assert client.next().headers["receipt-id"] == "p"


def read(client: Any, count: int) -> list[bytes]:
    """Take and acknowledge so many."""
    bodies = []
    for _ in range(count):
        message = client.next()
        assert message.command == "MESSAGE", message
        bodies.append(message.body)
        client.send("ACK", {"id": message.headers["ack"]})
    return bodies


@pytest.mark.parametrize("name", NAMES)
def test_what_is_sent_while_it_is_away_waits(connect, client_id, name) -> None:
    """
    Under each name of the header; what was acknowledged does not come again. Its end by the same.
    """
    place, named = f"{TOPIC}.{client_id}", {name: "mine"}
    client, sender = taken_up(connect(client_id), place, **named), connect()
    publish(sender, b"1", place=place)
    assert read(client, 1) == [b"1"]
    leave(client)
    publish(sender, b"2", b"3", place=place)
    client = back(connect(client_id), place, **named)
    assert read(client, 2) == [b"2", b"3"]
    for _ in range(2):  # stomp-php ends it twice.
        client.send("UNSUBSCRIBE", {"id": "d", "receipt": "u", **named})
        assert client.next().headers["receipt-id"] == "u"
    publish(sender, b"4", place=place)
    taken_up(client, place, **named)
    assert nothing_waits(client)


@pytest.mark.parametrize("flag", ["durable", "persistent"])
def test_rabbitmqs_words_do(connect, client_id, flag) -> None:
    """
    By `id` and destination, without a client-id; `auto-delete` says what is so anyway.
    """
    place = f"{TOPIC}.{client_id}"
    said = {flag: "true", "auto-delete": "false"}
    leave(taken_up(connect(), place, **said))
    sender = connect()
    publish(sender, b"1", place=place)
    client = back(connect(), place, **said)
    assert read(client, 1) == [b"1"]
    client.send("UNSUBSCRIBE", {"id": "d", "destination": place, "receipt": "u", flag: "true"})
    assert client.next().headers["receipt-id"] == "u"
    publish(sender, b"2", place=place)
    taken_up(client, place, **said)
    assert nothing_waits(client)


def test_what_cannot_be_is_said(connect, client_id) -> None:
    """
    By what is missing or wrong; the connection lives on.
    """
    named = {NAMES[0]: "mine"}
    nobody, client, other = connect(), connect(client_id), connect()
    for who, place, headers, why in (
        (nobody, TOPIC, named, "client-id"),
        (client, "/queue/orders", named, "topics only"),
        (client, f"{TOPIC},/topic/news", named, "of one topic"),
        (client, "/topic/news.>.>", named, "stands at the end"),
        (client, TOPIC, {**named, "activemq.retroactive": "true"}, "activemq.retroactive"),
        (nobody, TOPIC, {"durable": "true", "no-local": "true"}, "client-id"),
        (client, TOPIC, {**named, "selector": "price >"}, "column"),
    ):
        subscribe(who, place, **headers)
        error = who.next()
        assert error.command == "ERROR"
        assert why in error.headers["message"]
    taken_up(client, durable="true")
    subscribe(other, durable="true")
    assert "active consumer" in other.next().headers["message"]
    other.send("UNSUBSCRIBE", {"id": "d", "destination": TOPIC, "durable": "true"})
    assert "another connection" in other.next().headers["message"]
    assert all(map(nothing_waits, (nobody, client, other)))
    client.send("UNSUBSCRIBE", {"id": "d", "durable": "true", "receipt": "u"})
    assert client.next().headers["receipt-id"] == "u"


def test_it_may_select(connect, client_id) -> None:
    """
    What it does not want does not wait for it; with another selector it begins anew.
    """
    place, named = f"{TOPIC}.{client_id}", {NAMES[0]: "mine"}
    leave(taken_up(connect(client_id), place, **named, selector="kind = 'gold'"))
    sender = connect()
    publish(sender, b"1", place=place, kind="tin")
    publish(sender, b"2", place=place, kind="gold")
    client = back(connect(client_id), place, **named, selector="kind = 'gold'")
    assert read(client, 1) == [b"2"]
    assert nothing_waits(client)
    leave(client)
    publish(sender, b"3", place=place, kind="gold")
    client = taken_up(connect(client_id), place, **named, selector="kind = 'tin'")
    assert nothing_waits(client)
    client.send("UNSUBSCRIBE", {"id": "d", "receipt": "u", **named})
    assert client.next().headers["receipt-id"] == "u"


@pytest.mark.parametrize("word", ["activemq.noLocal", "no-local"])
def test_it_may_leave_out_its_own(connect, client_id, word) -> None:
    """
    What its client sends is not for it, whoever leads then; what others send is. Without the word
    it begins anew. So it is with one that is not durable, by its connection.
    """
    place, named = f"{TOPIC}.{client_id}", {NAMES[0]: "mine", word: "true"}
    client, other = taken_up(connect(client_id), place, **named), connect()
    client.send("SUBSCRIBE", {"id": "p", "destination": place, word: "true", "receipt": "p"})
    assert client.next().headers["receipt-id"] == "p"
    publish(client, b"own", place=place)
    publish(other, b"other's", place=place)
    found = {it.headers["subscription"]: it for it in (client.next(), client.next())}
    assert {name: it.body for name, it in found.items()} == {"d": b"other's", "p": b"other's"}
    client.send("ACK", {"id": found["d"].headers["ack"]})
    assert nothing_waits(client)
    leave(client)
    publish(other, b"2", place=place)
    client = back(connect(client_id), place, **named)
    assert read(client, 1) == [b"2"]
    publish(client, b"own again", place=place)
    assert nothing_waits(client)
    leave(client)
    publish(other, b"3", place=place)
    client = taken_up(connect(client_id), place, **{NAMES[0]: "mine"})
    assert nothing_waits(client)


def test_policies_say_what_it_keeps_and_what_is_rejected(connect, client_id, broker) -> None:
    """
    Of one that is away the oldest go, and it gets the rest; what it rejects comes again so often,
    and then is a dead letter of its topic. The command line sets it.
    """
    place = f"{TOPIC}.{client_id}"
    values = ("maxLength=2", "maximumRedeliveries=1", "initialRedeliveryDelay=0")
    values += ("deadLetterStrategy=individual",)
    run("queues", "set", place, *values, "--admin", broker.admin)
    named = {NAMES[0]: "mine"}
    leave(taken_up(connect(client_id), place, **named))
    publish(connect(), b"1", b"2", b"3", b"4", place=place)
    broker.wait_until(lambda _: kept(broker, client_id) == 2, "cut to two messages")
    client = back(connect(client_id), place, **named)
    assert read(client, 1) == [b"3"]
    for _ in range(2):
        message = client.next()
        assert message.body == b"4"
        client.send("NACK", {"id": message.headers["ack"]})
    dead = back(connect(), f"/queue/ActiveMQ.DLQ.Topic.{place.removeprefix('/topic/')}")
    assert read(dead, 1) == [b"4"]


def kept(broker: LocalNode, client_id: str) -> int:
    told = broker.get("/subscriptions")["subscriptions"]
    return sum(each["messages"] for each in told if each["client_id"] == client_id)


def test_the_command_line_keeps_one(broker: LocalNode) -> None:
    """
    `receive` takes it up again, and says what it needs.
    """
    uri = f"stomp://127.0.0.1:{broker.stomp_port}"
    durable = ["--client-id", "cli", "--durable", "mine", "--timeout", "0", "--quiet"]
    assert run("receive", "--uri", uri, TOPIC, *durable) == ""
    run("send", "--uri", uri, TOPIC, "while it is away", "--quiet")
    assert (
        run("receive", "--uri", uri, TOPIC, *durable[:-2], "1", "--quiet") == "while it is away\n"
    )
    (told,) = (
        each
        for each in json.loads(run("subscriptions", "--admin", broker.admin, "--json"))[
            "subscriptions"
        ]
        if each["client_id"] == "cli"
    )
    assert (told["name"], told["topic"], told["messages"]) == ("mine", "prices", 0)
    ended = run("subscriptions", "end", "cli", "mine", "--yes", "--admin", broker.admin)
    assert ended == "mine of cli has ended, with 0 messages\n"
    refused = done("receive", "--uri", uri, TOPIC, "--durable", "mine")
    assert refused.returncode == 2
    assert "--client-id" in refused.stderr


def run(*arguments: str) -> str:
    ended = done(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def done(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
