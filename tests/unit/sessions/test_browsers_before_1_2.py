"""
STOMP 1.0 and 1.1 say what they acknowledge by message id: who only looks takes nothing by it.
"""

from __future__ import annotations

import pytest


@pytest.fixture
def desk(desk):
    """Three messages that somebody had before, and a new leader."""
    client = desk.connect()
    for number in range(3):
        client.send(b"%d" % number)
    client.subscribe()
    desk.turn()
    desk.fail_over()
    return desk


def looking(desk, version: str, mode: str):
    client = desk.connect(version)
    client.subscribe(id="look", ack=mode, browser="true")
    desk.turn()
    return client, [it for it in client.frames() if it.command == "MESSAGE" and it.body]


def acknowledge(client, version: str, id: str, subscription: str = "look"):
    named = {"subscription": subscription} if version == "1.1" else {}
    return client.ask("ACK", receipt="r", **{"message-id": id}, **named)


@pytest.mark.parametrize("mode", ["auto", "client", "client-individual"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_what_was_seen_stays_however_often_that_is_said(desk, version, mode) -> None:
    """
    Twice, out of order, or of what needs no word at all.
    """
    client, seen = looking(desk, version, mode)
    assert len(seen) == 3
    for message in (seen[2], seen[0], seen[2], seen[1], seen[1]):
        acknowledge(client, version, message.headers["message-id"])
    assert desk.broker.queue("orders").index.live_count == 3


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("looks_first", [True, False])
def test_a_consumers_word_is_its_own_beside_a_browser(desk, version, looks_first) -> None:
    """
    Of the same queue, on the same connection, whichever came first.
    """
    client = desk.connect(version)
    named = {"id": "take", "ack": "client-individual"}
    if not looks_first:
        client.subscribe(**named)
    client.subscribe(id="look", ack="client-individual", browser="true")
    if looks_first:
        client.subscribe(**named)
    desk.turn()
    ids = {it.headers["message-id"] for it in client.frames() if it.body}
    assert len(ids) == 3
    for id in ids:
        (told,) = acknowledge(client, version, id, "take")
        assert told.command == "RECEIPT"
    assert desk.broker.queue("orders").index.live_count == 0


@pytest.mark.parametrize("ended_by", ["id", "destination"])
def test_a_word_after_the_browser_has_gone_takes_nothing(desk, ended_by) -> None:
    """
    STOMP 1.0 does not say whose word it is; it can only be of what was shown here.
    """
    client, seen = looking(desk, "1.0", "client-individual")
    client.ask(
        "UNSUBSCRIBE",
        **{"id": {"id": "look"}, "destination": {"destination": "/queue/orders"}}[ended_by],
    )
    for message in seen:
        (told,) = acknowledge(client, "1.0", message.headers["message-id"])
        assert told.headers["code"] == "unknown-delivery"
    assert desk.broker.queue("orders").index.live_count == 3


def test_a_word_of_what_needed_none_takes_nothing_beside_a_consumer(desk) -> None:
    """
    A browser with `auto` holds nothing, nor does the consumer: the word is of what was shown.
    """
    client = desk.connect("1.0")
    client.subscribe(id="look", ack="auto", browser="true")
    client.subscribe(
        id="take", ack="client-individual", **{"activemq.prefetchSize": "1"}, selector="FALSE"
    )
    desk.turn()
    seen = [it for it in client.frames() if it.command == "MESSAGE" and it.body]
    assert len(seen) == 3
    for message in seen:
        (told,) = acknowledge(client, "1.0", message.headers["message-id"])
        assert told.headers["code"] == "unknown-delivery"
    assert desk.broker.queue("orders").index.live_count == 3


def test_who_has_never_looked_still_acknowledges_late(desk) -> None:
    """
    On a new connection, by the message's own id, as before.
    """
    shown = looking(desk, "1.0", "client-individual")[1]
    late = desk.connect("1.0")
    for message in shown:
        (told,) = acknowledge(late, "1.0", message.headers["message-id"])
        assert told.command == "RECEIPT"
    assert desk.broker.queue("orders").index.live_count == 0
