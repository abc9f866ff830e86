"""
Queues with limits, as producers of STOMP and of any protocol meet them.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.addressing import Addressing
from holdfast.errors import QueueFullError
from holdfast.model.format_level import LIMITS_LEVEL, NEWEST_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from tests.unit.sessions.speaker import Message, Speaker


def say(desk, pattern: str = "queue://orders", **values: object) -> None:
    desk.broker.receipts.record(FormatRecord(LIMITS_LEVEL))
    desk.broker.receipts.record(PolicyRecord(pattern, json.dumps(values)))
    desk.turn()


def count(desk, name: str = "orders") -> int:
    return desk.broker.queue(name).index.live_count


def test_what_is_too_much_is_an_error_that_says_what_to_do(desk) -> None:
    """
    Q59: also in one piece with what fits, for a SEND with a receipt and without; the connection
    lives, and what is taken off makes room.
    """
    say(desk, maxLength=2)
    client = desk.connect()
    for number in range(4):
        client.send(b"x", receipt=str(number))
    desk.turn()
    frames = client.frames()
    assert [it.command for it in frames] == ["ERROR", "ERROR", "RECEIPT", "RECEIPT"]
    assert frames[0].headers["code"] == "queue-full"
    assert frames[0].headers["receipt-id"] == "2"
    assert "at most 2 (maxLength); send again once" in frames[0].headers["message"]
    assert count(desk) == 2
    client.ask("SUBSCRIBE", id="s", destination="/queue/orders", ack="auto")
    client.send(b"x", receipt="5")
    desk.turn()
    assert "RECEIPT" in [it.command for it in client.frames()]


def test_a_commit_that_is_too_much_is_refused_and_can_be_repeated(desk) -> None:
    """
    Nothing of it is there.
    """
    say(desk, maxLength=3)
    client = desk.connect()
    client.send(b"x")
    desk.turn()
    client.ask("BEGIN", transaction="t")
    for _ in range(3):
        client.send(b"x", transaction="t")
    (error,) = client.ask("COMMIT", transaction="t", receipt="c")
    assert error.headers["code"] == "queue-full"
    assert count(desk) == 1
    desk.broker.purge("orders", Speaker(desk), b"")
    desk.turn()
    (receipt,) = client.ask("COMMIT", transaction="t", receipt="c")
    assert receipt.command == "RECEIPT"
    assert count(desk) == 3


def test_with_block_a_sender_waits_until_there_is_room(desk) -> None:
    """
    In order; what it does beside that goes on, so it may make the room itself.
    """
    say(desk, maxLength=1, overflow="block")
    client = desk.connect()
    client.send(b"1", receipt="1")
    client.send(b"2", receipt="2")
    client.send(b"3", receipt="3")
    desk.turn()
    assert [it.headers["receipt-id"] for it in client.frames()] == ["1"]
    frames = client.ask("SUBSCRIBE", id="s", destination="/queue/orders", ack="client-individual")
    message = next(it for it in frames if it.command == "MESSAGE")
    assert message.body == b"1"
    client.say("ACK", id=message.headers["ack"])
    desk.turn()
    client.session.send_waiting(lambda: False)
    desk.turn()
    told = {(it.command, it.headers.get("receipt-id"), it.body) for it in client.frames()}
    assert told == {("RECEIPT", "2", b""), ("MESSAGE", None, b"2")}


@pytest.mark.parametrize(
    ("key", "value", "seconds"),
    [("sendFailIfNoSpaceAfterTimeout", 2_000, 2.0), ("overflow", "block", 30.0)],
)
def test_it_does_not_wait_for_ever(desk, key: str, value: object, seconds: float) -> None:
    """
    For as long as the policy says, else the setting.
    """
    say(desk, **{"maxLength": 1, "overflow": "block", key: value})
    session = Speaker(desk)
    session.send(Message("/queue/orders"))
    session.send(Message("/queue/orders"))
    assert session.waiting
    desk.context.now += seconds - 0.1
    session.send_waiting()
    assert session.waiting
    desk.context.now += 0.2
    session.send_waiting()
    assert [each[2] for each in session.told] == ["queue-full"]
    with pytest.raises(QueueFullError):
        session.send(Message("/queue/orders"))


def test_send_fail_if_no_space_does_not_wait_at_all(desk) -> None:
    """
    As ActiveMQ calls it.
    """
    say(desk, maxLength=1, overflow="block", sendFailIfNoSpace="true")
    session = Speaker(desk)
    session.send(Message("/queue/orders"))
    with pytest.raises(QueueFullError):
        session.send(Message("/queue/orders"))


def test_non_persistent_messages_have_the_same_limits(desk) -> None:
    """
    With others, in one number; and in memory one of their own.
    """
    say(desk, maxLength=2)
    say(desk, "queue://small", memoryLimit=500, sendFailIfNoSpace="true")
    session = Speaker(desk)
    session.send(Message("/queue/orders", persistent=False))
    session.send(Message("/queue/orders"))
    with pytest.raises(QueueFullError):
        session.send(Message("/queue/orders", persistent=False))
    for _ in range(2):
        session.send(Message("/queue/small", persistent=False))
    with pytest.raises(QueueFullError, match="memoryLimit"):
        session.send(Message("/queue/small", persistent=False))
    session.send(Message("/queue/small"))


def test_of_several_destinations_all_have_room_or_none_gets_it(desk) -> None:
    """
    On all of them or nowhere.
    """
    say(desk, maxLength=1)
    client = desk.connect()
    client.send(b"x", "/queue/orders,/queue/other", receipt="1")
    client.send(b"x", "/queue/orders,/queue/other", receipt="2")
    desk.turn()
    assert sorted(it.command for it in client.frames()) == ["ERROR", "RECEIPT"]
    assert (count(desk), count(desk, "other")) == (1, 1)
    say(desk, maxLength=1, overflow="drop-head")
    client.send(b"x", "/queue/orders,/queue/other", receipt="3")
    desk.turn()
    assert (count(desk), count(desk, "other")) == (1, 2)


def test_a_repetition_is_confirmed_however_full_the_queue_is(desk) -> None:
    """
    It stores nothing: refused, its producer would take the message for lost.
    """
    say(desk, maxLength=1)
    client = desk.connect()
    numbered = {"producer_id": "p", "producer_sequence": "1"}
    client.send(b"x", receipt="1", **numbered)
    desk.turn()
    client.send(b"x", receipt="2", **numbered)
    desk.turn()
    assert [it.headers["receipt-id"] for it in client.frames()] == ["1", "2"]
    client.send(b"x", receipt="3", producer_id="p", producer_sequence="2")
    desk.turn()
    (error,) = client.frames()
    assert error.headers["code"] == "queue-full"
    desk.broker.purge("orders", Speaker(desk), b"")
    desk.turn()
    client.send(b"x", receipt="3", producer_id="p", producer_sequence="2")
    desk.turn()
    (receipt,) = client.frames()
    assert receipt.command == "RECEIPT"


def make_room(desk) -> None:
    desk.broker.purge("full", Speaker(desk), b"")


def forward_elsewhere(desk) -> None:
    say(desk, "queue://all", forwardTo="queue://a")


def delete(desk) -> None:
    desk.broker.delete("full", Speaker(desk), b"")


def lift_the_limit(desk) -> None:
    say(desk, "queue://full", maxLength=2, overflow="block")


@pytest.mark.parametrize("go_on", [make_room, forward_elsewhere, delete, lift_the_limit])
def test_what_waits_is_worked_out_anew_only_when_it_may_go(desk, monkeypatch, go_on) -> None:
    """
    One SEND to a thousand queues took the half of each turn for as long as one of them was full.
    """
    desk.broker.state.format_level = NEWEST_LEVEL
    say(desk, "queue://full", maxLength=1, overflow="block")
    say(desk, "queue://all", forwardTo="queue://a, queue://full")
    asked: list[object] = []
    whole = Addressing.route
    monkeypatch.setattr(Addressing, "route", lambda *said: (asked.append(said), whole(*said))[1])
    client, other = desk.connect(), desk.connect()
    for _ in range(2):
        client.send(b"x", "/queue/all")
        desk.turn()
    assert (count(desk, "a"), count(desk, "full")) == (1, 1)
    asked.clear()
    for number in range(20):
        other.send(b"y", "/queue/other")
        client.send(b"y", f"/queue/other{number}")  # It goes on; what waits is another's affair.
        desk.turn()
    assert [it for it in asked if it[1][0].name == "all"] == []
    go_on(desk)
    desk.turn()
    assert count(desk, "a") == 2
    assert not client.session.holdings.sending.waiting
