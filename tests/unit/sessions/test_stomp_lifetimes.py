"""
How long the message of a SEND lives: by its headers, by the policies, and by whose clock.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.serving.effective import Lifetimes
from holdfast.model.format_level import EXPIRY_LEVEL
from holdfast.model.records import PolicyRecord
from holdfast.sessions import stomp

NOW = 1_700_000_000_000
"""The desk's clock, in milliseconds."""


@pytest.fixture
def client(desk):
    desk.broker.state.format_level = EXPIRY_LEVEL
    return desk.connect()


def pass_time(desk, milliseconds: int) -> None:
    desk.broker.sending.now_microseconds += milliseconds * 1000
    desk.broker.expiring.step()
    desk.turn()


def policy(desk, **values: object) -> None:
    desk.broker.receipts.record(PolicyRecord("queue://>", json.dumps(values)))
    desk.turn()


def shown(client) -> list[str]:
    client.desk.turn()
    return [frame.headers["expires"] for frame in client.frames() if frame.command == "MESSAGE"]


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_message_lives_until_its_time_and_says_it(desk, client, persistent) -> None:
    """
    Whether it is a time or from now on; 0 is for ever, and the time counts where both are there.
    """
    for headers in (
        {"expires": str(NOW + 50)},
        {"expiration": "50"},
        {"expires": str(NOW + 50), "expiration": "9999"},
        {"expires": "0", "expiration": "0"},
        {"expires": str((1 << 63) - 1)},
        {"expires": "0", "expiration": "60"},
    ):
        client.send(b"x", **{"persistent": persistent, **headers})
    desk.turn()
    pass_time(desk, 50)
    client.subscribe()
    assert shown(client) == ["0", str((1 << 63) - 1), str(NOW + 60)]


@pytest.mark.parametrize("name", ["expires", "expiration"])
@pytest.mark.parametrize("text", ["soon", "-1", "1.5", str(1 << 63)])
def test_what_is_no_number_is_refused(desk, client, name, text) -> None:
    """
    And not even the queue comes into being.
    """
    error = client.refusal("SEND", destination="/queue/a", **{name: text})
    assert name in error.headers["message"]
    assert desk.broker.destinations.queue_names() == []


def test_what_has_expired_is_stored_confirmed_and_a_dead_letter(desk, client) -> None:
    """
    It says so: where it was, what became of it and when; and it expires no more.
    """
    client.send(b"late", expires=str(NOW - 5), receipt="r")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    pass_time(desk, 0)
    client.subscribe("/queue/ActiveMQ.DLQ")
    desk.turn()
    (frame,) = client.frames()
    said = {name: frame.headers[name] for name in ("expires", "originalExpiration")}
    assert said == {"expires": "0", "originalExpiration": str(NOW - 5)}
    assert frame.headers["dlqDeliveryFailureCause"] == f"Message Expired. Expiration:{NOW - 5}"
    assert frame.headers["original-destination"] == "/queue/orders"
    assert frame.headers["original-message-id"] == "ID:c0ffee-1-1"


def test_the_same_headers_come_to_another_time_with_each_message(desk, client) -> None:
    """
    What they come to is not kept with them.
    """
    for _ in range(2):
        client.send(b"x", expiration="50")
        pass_time(desk, 20)
    client.subscribe()
    assert shown(client) == [str(NOW + 50), str(NOW + 70)]


@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
@pytest.mark.parametrize("headers", [{"expiration": "50"}, {}])
def test_what_comes_at_one_moment_is_worked_out_once(
    desk, client, monkeypatch: pytest.MonkeyPatch, destination, headers
) -> None:
    """
    Whether its headers or a policy say how long it lives; as time passes it is worked out anew.
    """
    policy(desk, zeroExpirationOverride=70)
    client.subscribe(destination, ack="auto")
    found: list[bytes] = []
    work_out = stomp.resolve

    def noted(session, frame, **known):
        found.append(frame.body)
        return work_out(session, frame, **known)

    monkeypatch.setattr(stomp, "resolve", noted)
    for body in (b"1", b"2", b"3"):
        client.send(body, destination, **headers)
    first = shown(client)
    desk.broker.sending.now_microseconds += 1000
    for body in (b"4", b"5"):
        client.send(body, destination, **headers)
    second = shown(client)
    lasts = {"/queue/a": 70, "/topic/a": 0}[destination]
    lasts = 50 if headers else lasts
    assert first == 3 * [str(NOW + lasts) if lasts else "0"]
    assert second == 2 * [str(NOW + 1 + lasts) if lasts else "0"]
    assert found == [b"1", *([b"4"] if lasts else [])]


def test_policies_give_and_cut_lifetimes_also_of_who_sends_already(desk, client) -> None:
    """
    A producer that repeats its headers is looked at anew once the policies have changed.
    """
    client.subscribe()
    client.send(b"x")
    assert shown(client) == ["0"]
    policy(desk, zeroExpirationOverride=100, ttlCeiling=1_000)
    client.send(b"x")
    client.send(b"x", expires=str(NOW + 500))
    client.send(b"x", expiration="5000")
    assert shown(client) == [str(NOW + 100), str(NOW + 500), str(NOW + 1_000)]
    policy(desk)
    client.send(b"x")
    assert shown(client) == ["0"]


def test_a_lifetime_may_count_from_when_the_message_came() -> None:
    """
    `futureOnly`, of a sender whose clock is behind; nothing expires sooner than was said.
    """
    rules = Lifetimes(only_lengthens=True, ceiling_ms=50)
    assert rules.expires_ms(NOW - 10, NOW - 40, NOW) == NOW + 30
    assert rules.expires_ms(NOW + 10, 0, NOW) == NOW + 10
    assert rules.expires_ms(NOW + 90, NOW, NOW) == NOW + 90
    assert Lifetimes(ceiling_ms=50).expires_ms(NOW + 90, NOW, NOW) == NOW + 50
    assert Lifetimes(ceiling_ms=50).expires_ms(0, 0, NOW) == 0
    assert Lifetimes(default_ms=90, ceiling_ms=50).expires_ms(0, 0, NOW) == NOW + 50


def test_a_lifetime_is_no_shorter_under_a_leader_whose_clock_is_behind(desk, client) -> None:
    """
    The log's time is ahead of its clock by an hour; a minute is a minute.
    """
    desk.broker.state.timestamp = (NOW + 3_600_000) * 1000
    client.send(b"x", expires=str(NOW + 60_000))
    desk.turn()
    client.subscribe()
    assert shown(client) == [str(NOW + 60_000)]


def test_a_topic_sends_what_has_not_expired(desk, client) -> None:
    """
    What has is confirmed, and goes to nobody.
    """
    client.subscribe("/topic/t")
    client.send(b"late", "/topic/t", expires=str(NOW - 1), receipt="r")
    client.send(b"x", "/topic/t", expiration="5")
    desk.turn()
    frames = client.frames()
    assert sorted(frame.command for frame in frames) == ["MESSAGE", "RECEIPT"]


def test_what_a_transaction_sends_expires(desk, client) -> None:
    """
    Persistent or not, on queues and topics.
    """
    client.subscribe("/topic/t", "t")
    client.say("BEGIN", transaction="1")
    for body, lasts in (("a", "50"), ("b", "99")):
        for destination, persistent in (("/queue/orders", "true"), ("/queue/orders", "false")):
            client.send(
                body.encode(), destination, transaction="1", persistent=persistent, expiration=lasts
            )
    client.send(b"late", "/topic/t", transaction="1", expires=str(NOW - 1))
    client.say("COMMIT", transaction="1")
    desk.turn()
    pass_time(desk, 50)
    client.subscribe()
    assert client.bodies() == ["b", "b"]
