"""
What is to be stored while there is no room on the disk: refused at once, or set aside until there
is some.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from tests.unit.sessions.conftest import Desk

FULL = "the disk is almost full"


@pytest.fixture
def desk() -> Desk:
    desk = Desk(BrokerSettings(send_fail_if_no_space=False))
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    desk.turn()
    fill(desk)
    return desk


def fill(desk, since: float = 1.0) -> None:
    desk.context.refusal, desk.context.refused_at = FULL, since


def told(client) -> list[tuple[str, str]]:
    client.desk.turn()
    return [
        (frame.command, frame.headers.get("code", frame.headers.get("receipt-id", "")))
        for frame in client.frames()
    ]


def test_it_waits_until_there_is_room_and_all_else_goes_on(desk) -> None:
    """
    In its order; what it sends to another queue waits, too, and what it acknowledges does not.
    """
    client = desk.connect()
    client.subscribe()
    desk.context.refusal = None
    client.send(b"before")
    desk.turn()
    (message,) = client.frames()
    fill(desk)
    for number in ("1", "2"):
        client.send(number.encode(), receipt=number)
    client.send(b"3", "/queue/others", receipt="3")
    client.say("ACK", id=message.headers["ack"], receipt="a")
    assert told(client) == [("RECEIPT", "a")]
    assert desk.broker.queue("orders").assigned_sequence == 2
    desk.context.refusal = None
    frames = told(client)
    assert [each for each in frames if each[0] == "RECEIPT"] == [
        ("RECEIPT", "1"),
        ("RECEIPT", "2"),
        ("RECEIPT", "3"),
    ]
    assert desk.broker.queue("others").index.live_count == 1


def test_after_its_time_it_is_refused_and_so_is_each_until_there_was_room(desk) -> None:
    """
    Nobody waits for ever; and the next time that the disk is full it is waited anew.
    """
    client = desk.connect()
    client.send(b"1", receipt="1")
    assert told(client) == []
    desk.context.now += desk.settings.send_wait_seconds_max + 1
    assert told(client) == [("ERROR", "store-full")]
    client.send(b"2", receipt="2")
    assert told(client) == [("ERROR", "store-full")]
    desk.context.refusal = None
    client.send(b"3", receipt="3")
    assert told(client) == [("RECEIPT", "3")]
    fill(desk, since=100.0)
    client.send(b"4", receipt="4")
    assert told(client) == []
    desk.context.refusal = None
    assert told(client) == [("RECEIPT", "4")]


def test_one_for_several_queues_waits_as_a_whole(desk) -> None:
    """
    It is on all of them then.
    """
    client = desk.connect()
    client.send(b"1", "/queue/a,/queue/b", receipt="1")
    assert told(client) == []
    assert desk.broker.state.live_count() == 0
    desk.context.refusal = None
    assert told(client) == [("RECEIPT", "1")]
    assert desk.broker.state.live_count() == 2


def test_what_is_known_is_confirmed_and_what_is_not_stored_goes_on(desk) -> None:
    """
    A number that was stored before takes no room, nor does what lives in memory only.
    """
    client = desk.connect()
    desk.context.refusal = None
    numbered = {"producer_id": "p", "producer_sequence": "1"}
    client.send(b"1", receipt="1", **numbered)
    assert told(client) == [("RECEIPT", "1")]
    fill(desk)
    client.send(b"1", receipt="again", **numbered)
    client.send(b"2", persistent="false", receipt="volatile")
    assert sorted(told(client)) == [("RECEIPT", "again"), ("RECEIPT", "volatile")]


def test_a_policy_and_a_commit_do_not_wait(desk) -> None:
    """
    `sendFailIfNoSpace` of the queue counts; a COMMIT is refused, and may be repeated.
    """
    said = json.dumps({"sendFailIfNoSpace": "true"})
    desk.broker.receipts.record(PolicyRecord("queue://urgent", said))
    client = desk.connect()
    desk.turn()
    client.send(b"1", "/queue/urgent", receipt="1")
    assert told(client) == [("ERROR", "store-full")]
    client.say("BEGIN", transaction="t")
    client.send(b"2", transaction="t")
    client.say("COMMIT", transaction="t", receipt="c")
    assert told(client) == [("ERROR", "store-full")]
    desk.context.refusal = None
    client.say("COMMIT", transaction="t", receipt="c")
    assert told(client) == [("RECEIPT", "c")]


def test_what_waits_has_a_bound(desk, monkeypatch) -> None:
    """
    Of all clients together; beyond it a message is refused at once.
    """
    desk.context.waiting_bytes = desk.settings.waiting_total_bytes_max + 1
    client = desk.connect()
    client.send(b"1", receipt="1")
    assert told(client) == [("ERROR", "store-full")]


@pytest.mark.parametrize("place", ["/queue/orders", "/queue/orders,/queue/others"])
def test_what_is_too_large_for_the_store_is_refused_to_its_sender_alone(desk, place: str) -> None:
    """
    It could never be stored in time; what is smaller, and what others send, is taken.
    """
    desk.context.refusal = None
    client, other = desk.connect(), desk.connect()
    client.subscribe(destination="/topic/lights")
    desk.context.message_bytes_max = 100
    client.send(b"x" * 101, "/topic/lights", persistent="false", receipt="transient")
    assert ("RECEIPT", "transient") in told(client)
    client.send(b"x" * 100, place, persistent="true", receipt="small")
    assert told(client)[-1] == ("RECEIPT", "small")
    client.send(b"x" * 101, place, persistent="true", receipt="large")
    assert told(client)[-1] == ("ERROR", "store-full")
    other.send(b"y", place, persistent="true", receipt="other")
    assert told(other)[-1] == ("RECEIPT", "other")


def test_a_transaction_that_is_too_large_for_the_store_is_refused_at_its_commit(desk) -> None:
    """
    Its parts may be small: they are stored together.
    """
    desk.context.refusal = None
    client = desk.connect()
    desk.context.message_bytes_max = 1000
    client.say("BEGIN", transaction="t")
    for _ in range(3):
        client.send(b"x" * 500, transaction="t")
    client.say("COMMIT", transaction="t", receipt="c")
    assert told(client)[-1] == ("ERROR", "store-full")
