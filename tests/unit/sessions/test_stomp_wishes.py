"""
What a message wishes that would be ignored is refused, and says so; nothing is stored of it.
"""

from __future__ import annotations

import pytest

NOW = 1_700_000_000_000
"""The desk's clock, in milliseconds."""


@pytest.mark.parametrize(
    "wish",
    [
        {"AMQ_SCHEDULED_DELAY": "1000"},
        {"AMQ_SCHEDULED_PERIOD": "5"},
        {"AMQ_SCHEDULED_PERIOD": "5", "AMQ_SCHEDULED_REPEAT": "5"},
        {"AMQ_SCHEDULED_CRON": "* * * * *"},
        {"expires": "1"},
        {"expires": str(NOW)},
    ],
)
@pytest.mark.parametrize("destination", ["/queue/orders", "/topic/orders"])
def test_a_wish_that_would_be_ignored_is_refused(desk, destination, wish) -> None:
    """
    By name, with the receipt; not even the queue comes into being.
    """
    client = desk.connect()
    headers = "".join(f"{name}:{value}\n" for name, value in wish.items())
    client.raw(f"SEND\ndestination:{destination}\n{headers}receipt:r\n\nx\x00".encode())
    (error,) = client.frames()
    assert (error.command, error.headers["code"]) == ("ERROR", "not-served")
    assert error.headers["receipt-id"] == "r"
    assert next(iter(wish)) in error.headers["message"]
    assert desk.broker.destinations.queue_names() == []
    assert not client.session.is_closing


@pytest.mark.parametrize("wish", [{"priority": "high"}, {"expires": "soon"}, {"expires": "-1"}])
def test_a_wish_that_makes_no_sense_is_refused(desk, wish) -> None:
    """
    ActiveMQ does, too.
    """
    assert (
        desk.connect().refusal("SEND", destination="/queue/a", **wish).headers["code"] == "refused"
    )


def test_what_is_done_anyway_may_be_wished(desk) -> None:
    """
    Clients that write every header with its default are served.
    """
    client = desk.connect()
    client.send(b"x", priority=" 4", expires="0", AMQ_SCHEDULED_DELAY="0")
    client.raw(b"SEND\ndestination:/queue/orders\nAMQ_SCHEDULED_DELAY:0\npriority:4\n\ny\x00")
    client.subscribe()
    assert client.bodies() == ["x", "y"]


def test_a_lifetime_that_has_not_ended_is_taken_and_told_of(desk) -> None:
    """
    Half of all programs give one; before all members know it nothing expires, which is told.
    """
    told = []
    desk.context.refusals.tell = lambda _session, code, _text: told.append(code)
    client = desk.connect()
    for _ in range(3):
        client.send(b"x", expires=str(NOW + 1))
    client.say("ACK", id="1-1")
    client.subscribe()
    assert client.bodies() == ["x"] * 3
    assert told == ["ignored-expiry", "unknown-delivery"]
    assert desk.context.refusals.by_code["ignored-expiry"] == 3


def test_the_same_headers_expire_as_time_passes(desk) -> None:
    """
    A producer that repeats its headers is looked at with each message.
    """
    client = desk.connect()
    client.send(b"in time", expires=str(NOW + 1))
    desk.broker.sending.now_microseconds += 1_000
    error = client.refusal("SEND", b"late", destination="/queue/orders", expires=str(NOW + 1))
    assert error.headers["code"] == "not-served"


def test_a_message_that_is_stored_is_confirmed_however_late(desk) -> None:
    """
    The answer was lost and it is sent again: refused, its producer would take it for not stored.
    """
    client = desk.connect()
    numbered = {"producer_id": "p", "expires": str(NOW + 1), "receipt": "r"}
    client.send(b"x", **numbered, producer_sequence="1")
    desk.turn()
    assert client.frames()[0].command == "RECEIPT"
    desk.broker.sending.now_microseconds += 5_000
    client.send(b"x", **numbered, producer_sequence="1")
    assert client.frames()[0].command == "RECEIPT"
    client.send(b"y", **numbered, producer_sequence="2")
    assert client.frames()[0].headers["code"] == "not-served"
    client.subscribe()
    assert client.bodies() == ["x"]


def test_a_transaction_with_a_wish_that_is_refused_is_rolled_back(desk) -> None:
    """
    All or nothing.
    """
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    client.send(b"x", transaction="t")
    assert client.refusal("SEND", destination="/queue/a", transaction="t", priority="high")
    assert client.refusal("COMMIT", transaction="t").headers["code"] == "transaction"


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
@pytest.mark.parametrize(
    "name",
    [
        "/queue/ActiveMQ.Advisory.Connection",
        " /topic/ActiveMQ.Advisory.Unknown.Queue.a",
        "/queue/ActiveMQ.Statistics.Nobody",
    ],
)
def test_with_destinations_of_activemq_itself_nothing_would_happen(desk, command, name) -> None:
    """
    A consumer of them would wait for ever; it is told instead.
    """
    error = desk.connect().refusal(
        command, destination=name, id="1", receipt="r", reply_to="/queue/r"
    )
    assert error.headers["code"] == "destination"
    told = error.headers["message"]
    assert "not served" in told or "broker's own" in told or "answers nothing" in told


def test_a_client_that_copies_messages_may_carry_any_header(desk) -> None:
    """
    A replay of old messages: what they wished was another broker's affair, and stays to be seen.
    """
    client = desk.connect(holdfast_carry="true")
    client.send(b"x", priority="9", expires="5")
    client.send(b"y", priority="9", expires="5")
    client.subscribe()
    desk.turn()
    for frame in client.frames():
        assert (frame.headers["priority"], frame.headers["expires"]) == ("9", "5")
