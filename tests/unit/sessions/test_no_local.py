"""
Consumers of topics that do not want what they send themselves, as STOMP clients ask for it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.model.records import FormatRecord
from holdfast.server.waking import Waking

TOPIC = "/topic/prices"
NAME = {"activemq__subscriptionName": "mine"}
NO_LOCAL = {"no_local": "true"}


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()
    return desk


def publish(client, *bodies, place=TOPIC, **headers):
    for body in bodies:
        client.send(body, place, **headers)
    client.desk.turn()


def settled(client):
    """Take what came, acknowledge it, and give the bodies."""
    client.desk.turn()
    found = [it for it in client.frames() if it.command == "MESSAGE"]
    for each in found:
        client.say("ACK", id=each.headers["ack"])
    client.desk.turn()
    return [it.body for it in found]


def fail_over(desk):
    """Lose all connections and go on under the next leader, from what the log says."""
    before = digest_of(desk.broker.state)
    desk.fail_over()
    assert digest_of(desk.broker.state) == before
    desk.context.forget_sessions()


@pytest.mark.parametrize("said", [NO_LOCAL, {"activemq__noLocal": "true"}, {}])
@pytest.mark.parametrize("persistent", ["true", "false"])
def test_who_does_not_want_his_own_gets_what_others_send(desk, said, persistent) -> None:
    """
    By either word, or the option of the destination; another consumer of the same connection that
    does not say so gets all, and so do others.
    """
    client, other = desk.connect(), desk.connect()
    place = TOPIC if said else f"{TOPIC}?consumer.noLocal=true"
    client.subscribe(place, "1", ack="auto", **said)
    publish(client, b"own", persistent=persistent)
    publish(other, b"other's", persistent=persistent)
    assert client.bodies() == ["other's"]
    client.subscribe(TOPIC, "2", ack="auto")
    other.subscribe(TOPIC, "3", ack="auto")
    publish(client, b"own", persistent=persistent)
    frames = client.frames()
    assert [it.headers["subscription"] for it in frames] == ["2"]
    assert other.bodies() == ["own"]
    client.ask("UNSUBSCRIBE", id="1")
    publish(client, b"own", persistent=persistent)
    assert client.bodies() == ["own"]


def test_it_is_of_the_connection_and_not_of_a_client_that_comes_back(desk) -> None:
    """
    What is sent over another connection of the same program is another's.
    """
    client = desk.connect(client_id="c1")
    client.subscribe(TOPIC, "1", ack="auto", **NO_LOCAL)
    second = desk.connect()
    publish(second, b"x")
    assert client.bodies() == ["x"]


def test_what_is_its_own_is_so_on_each_way(desk) -> None:
    """
    Of a transaction, of several destinations at once, where it goes to very many, and through a
    wildcard; with a selector the others are asked about as before.
    """
    client = desk.connect()
    client.subscribe("/topic/a.>", "wild", ack="auto", **NO_LOCAL)
    client.subscribe(TOPIC, "some", ack="auto", selector="n = 1", **NO_LOCAL)
    for _ in range(desk.settings.step_count_max + 1):
        desk.broker.topic("prices").effort += 1  # So what comes is spread.
    others = desk.connect()
    for who in (client, others):
        name = "own" if who is client else "other"
        who.say("BEGIN", transaction="t")
        for place in ("/topic/a.b", TOPIC):
            who.send(f"{name} in t".encode(), place, transaction="t", n="1")
        who.ask("COMMIT", transaction="t")
        publish(who, f"{name} to all".encode(), place=f"/topic/a.b,{TOPIC}", n="1")
        publish(who, f"{name} alone".encode(), place=TOPIC, n="2")
        publish(who, f"{name} not kept".encode(), place=TOPIC, n="1", persistent="false")
    got = [(it.headers["subscription"], it.body) for it in client.frames()]
    assert sorted(got) == [
        ("some", b"other in t"),
        ("some", b"other not kept"),
        ("some", b"other to all"),
        ("wild", b"other in t"),
        ("wild", b"other to all"),
    ]


@pytest.mark.parametrize(
    ("headers", "code", "why"),
    [
        ({"destination": "/queue/a", "no_local": "true"}, "destination", "header no-local"),
        (
            {"destination": f"{TOPIC},/queue/a", "activemq__noLocal": "true"},
            "destination",
            "header activemq.noLocal is of topics only, not of '/queue/a'",
        ),
        ({"destination": TOPIC, "no_local": "yes"}, "refused", "neither true nor false"),
        (
            {"destination": f"{TOPIC}?consumer.noLocal=1"},
            "refused",
            "option consumer.noLocal: '1' is neither",
        ),
        (
            {"destination": TOPIC, "no_local": "true", "durable": "true"},
            "destination",
            "needs a client-id",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(desk, headers, code, why) -> None:
    """
    With what is wrong; the connection lives on, and nothing is left behind.
    """
    client = desk.connect()
    error = client.refusal("SUBSCRIBE", id="1", receipt="r", **headers)
    assert (error.headers["code"], error.headers["receipt-id"]) == (code, "r")
    assert why in error.headers["message"]
    assert not client.session.subscriptions
    assert not desk.broker.state.subscriptions
    client.subscribe("/queue/a", no_local="false")
    publish(client, b"x", place="/queue/a")
    assert client.bodies() == ["x"]


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_durable_subscription_does_not_get_what_its_client_sends(desk, persistent) -> None:
    """
    Sent alone, in a transaction and to several; another one of the same topic has all.
    """
    client, other = desk.connect(client_id="c1"), desk.connect(client_id="c2")
    client.subscribe(TOPIC, "d", **NAME, **NO_LOCAL)
    other.subscribe(TOPIC, "d", **NAME)
    desk.turn()
    for who in (client, other):
        name = who.session.client_id.encode()
        publish(who, name + b" alone", persistent=persistent)
        publish(who, name + b" two", place=f"{TOPIC},/topic/x", persistent=persistent)
        who.say("BEGIN", transaction="t")
        who.send(name + b" in t", TOPIC, transaction="t", persistent=persistent)
        who.say("COMMIT", transaction="t")
        desk.turn()
    sent = [b"alone", b"two", b"in t"]
    assert settled(client) == [b"c2 " + it for it in sent]
    assert settled(other) == [b"c1 " + it for it in sent] + [b"c2 " + it for it in sent]
    assert desk.broker.state.live_count() == 0


def test_under_the_next_leaders_it_is_as_before(desk) -> None:
    """
    Also what it sends over a later connection is its own: it is known by its client-id. What was
    stored is as the log says, and what comes is as the subscription says.
    """
    client = desk.connect(client_id="c1")
    client.subscribe(TOPIC, "d", **NAME, **NO_LOCAL)
    desk.turn()
    client.leave()
    for round_count in range(2):
        client, other = desk.connect(client_id="c1"), desk.connect()
        publish(client, b"own %d" % round_count)
        publish(other, b"other's %d" % round_count)
        fail_over(desk)
    client = desk.connect(client_id="c1")
    client.subscribe(TOPIC, "d", **NAME, **NO_LOCAL)
    assert settled(client) == [b"other's 0", b"other's 1"]
    assert desk.broker.state.live_count() == 0
    fail_over(desk)
    (lasting,) = desk.broker.state.subscriptions.values()
    assert lasting.has_no_local


def test_what_is_done_for_one_that_is_gone_is_its_own(desk) -> None:
    """
    A large COMMIT before its entry is whole, and what was read of it and not done yet.
    """
    client = desk.connect(client_id="c1")
    client.subscribe(TOPIC, "d", **NAME, **NO_LOCAL)
    desk.turn()
    client.say("BEGIN", transaction="t")
    for number in range(600):
        client.send(b"%d" % number, TOPIC, transaction="t")
    client.say("COMMIT", transaction="t")
    client.session.disconnected()
    client.send(b"late", TOPIC)
    client.leave()
    desk.turn()
    assert desk.broker.state.live_count() == 0


@pytest.mark.parametrize("first", [True, False])
def test_with_another_word_it_begins_anew(desk, first) -> None:
    """
    Both ways; in one entry of the log, without what waited.
    """
    words = [NO_LOCAL, {}] if first else [{}, NO_LOCAL]
    client = desk.connect(client_id="c1")
    client.subscribe(TOPIC, "d", **NAME, **words[0])
    desk.turn()
    client.leave()
    publish(desk.connect(), b"old")
    entries = len(desk.log)
    client = desk.connect(client_id="c1")
    client.subscribe(TOPIC, "d", **NAME, **words[1])
    desk.seal()
    assert len(desk.log) == entries + 1
    publish(client, b"own")
    publish(desk.connect(), b"new")
    assert settled(client) == ([b"own", b"new"] if first else [b"new"])
    fail_over(desk)
    assert len(desk.broker.state.subscriptions) == 1


def test_what_was_scheduled_is_nobodys_own(desk) -> None:
    """
    The broker sends it, when its time comes, whoever leads then and whoever is connected.
    """
    client = desk.connect(client_id="c1")
    client.subscribe(TOPIC, "d", **NAME, **NO_LOCAL)
    client.subscribe(TOPIC, "plain", ack="auto", **NO_LOCAL)
    desk.turn()
    client.send(b"later", TOPIC, AMQ_SCHEDULED_DELAY="1000")
    desk.turn()
    assert client.frames() == []
    desk.broker.sending.now_microseconds += 2_000_000
    while Waking(desk.broker, desk, pytest.fail).step(lambda: False):
        desk.turn()
    desk.turn()
    assert sorted(it.headers["subscription"] for it in client.frames()) == ["d", "plain"]
