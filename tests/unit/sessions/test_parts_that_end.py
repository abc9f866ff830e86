"""
Subscriptions to several queues whose queues go: what was delivered takes no room for ever, an
acknowledgement of it counts as any other does, and nothing is kept of what is over.
"""

from __future__ import annotations

import pytest

from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import PolicyRecord
from tests.unit.sessions.conftest import Desk, StompClient


@pytest.fixture
def desk(desk):
    desk.broker.state.format_level = NEWEST_LEVEL
    return desk


def fill(desk: Desk, *names: str, count: int = 1) -> None:
    """Put so many messages on each queue."""
    producer = desk.connect()
    for number in range(count):
        for name in names:
            producer.send(f"{name[-1]}{number}".encode(), f"/queue/{name}")
    desk.turn()
    assert producer.frames() == []


def messages(client: StompClient) -> list:
    client.desk.turn()
    frames = client.frames()
    assert [frame for frame in frames if frame.command != "MESSAGE"] == []
    return frames


def delete(desk: Desk, name: str) -> None:
    desk.broker.operating.delete(name, desk.connect().session, b"gone")
    desk.turn()


def test_a_cumulative_ack_answers_for_what_a_deleted_queue_had(desk) -> None:
    """
    Who acknowledges the last of what it was given has done with all before it, also with what was
    of a queue that has been deleted meanwhile: that takes up no room any more.
    """
    client = desk.connect()
    client.subscribe("/queue/R.*", ack="client", activemq__prefetchSize="2")
    for number in range(5):
        fill(desk, f"R.gone{number}", "R.stays")
        _, last = messages(client)
        assert last.headers["destination"] == "/queue/R.stays"
        delete(desk, f"R.gone{number}")
        client.say("ACK", id=last.headers["ack"])
        assert messages(client) == []
    fill(desk, "R.stays", count=3)
    assert len(messages(client)) == 2
    assert len(client.session.holdings.by_ordinal) == 1


@pytest.mark.parametrize("within", [False, True])
def test_an_ack_of_what_a_deleted_queue_had_is_cumulative(desk, within) -> None:
    """
    What was delivered before it on other queues is settled by it.
    """
    client = desk.connect()
    client.subscribe("/queue/D.*", ack="client", activemq__prefetchSize="3")
    fill(desk, "D.stays", "D.gone")
    _, last = messages(client)
    assert last.headers["destination"] == "/queue/D.gone"
    delete(desk, "D.gone")
    said = {}
    if within:
        client.say("BEGIN", transaction="t")
        said = {"transaction": "t"}
    client.say("ACK", id=last.headers["ack"], **said)
    if within:
        client.say("COMMIT", transaction="t")
    assert messages(client) == []
    assert desk.broker.destinations.existing("D.stays").index.live_count == 0
    fill(desk, "D.stays", count=4)
    assert len(messages(client)) == 3


def test_an_ack_may_be_said_again_after_its_transaction_was_rolled_back(desk) -> None:
    """
    An ABORT takes back what the ACK said; of what is there it may be said again, as ever.
    """
    client = desk.connect()
    client.subscribe("/queue/A.*", ack="client", activemq__prefetchSize="3")
    fill(desk, "A.stays", "A.gone")
    found = messages(client)
    assert len(found) == 2
    delete(desk, "A.gone")
    client.say("BEGIN", transaction="t")
    client.say("ACK", id=found[-1].headers["ack"], transaction="t")
    client.say("ABORT", transaction="t")
    assert messages(client) == []
    client.say("ACK", id=found[0].headers["ack"])
    assert messages(client) == []
    assert desk.broker.destinations.existing("A.stays").index.live_count == 0


def test_nothing_is_kept_of_queues_that_came_and_went(desk) -> None:
    """
    Neither of what waited for its turn, nor of what had something in delivery that was answered.
    """
    client = desk.connect()
    client.subscribe("/queue/K.*", ack="client-individual", activemq__prefetchSize="1")
    fill(desk, "K.stays")
    (held,) = messages(client)
    for number in range(100):
        fill(desk, f"K.{number}")
        delete(desk, f"K.{number}")
    (bundle,) = client.session.subscriptions.values()
    assert len(bundle.waiting) < 30
    client.say("ACK", id=held.headers["ack"])
    for number in range(100):
        fill(desk, f"K.{number}")
        (held,) = messages(client)
        delete(desk, f"K.{number}")
        client.say("ACK", id=held.headers["ack"])
    assert messages(client) == []
    assert len(client.session.holdings.by_ordinal) == 1


def test_what_transactions_committed_is_forgotten_while_another_is_open(desk) -> None:
    """
    An open transaction with one message of a queue does not keep what is known of others.
    """
    client = desk.connect()
    client.subscribe("/queue/T.*", ack="client", activemq__prefetchSize="5")
    fill(desk, "T.a")
    (first,) = messages(client)
    client.say("BEGIN", transaction="open")
    client.say("ACK", id=first.headers["ack"], transaction="open")
    for number in range(50):
        fill(desk, "T.a")
        (frame,) = messages(client)
        client.say("BEGIN", transaction=f"t{number}")
        client.say("ACK", id=frame.headers["ack"], transaction=f"t{number}")
        client.say("COMMIT", transaction=f"t{number}")
    assert messages(client) == []
    (bundle,) = client.session.subscriptions.values()
    assert [len(it.aside) for it in bundle.strands.values()] == [1]


@pytest.mark.parametrize("mode", ["client", "client-individual"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_by_message_id_what_a_deleted_queue_had_can_be_acknowledged_too(
    desk, mode, version
) -> None:
    """
    Clients of STOMP before 1.2 have no other name for it, and may name their subscription.
    """
    client = desk.connect(version)
    client.subscribe("/queue/I.*", ack=mode, activemq__prefetchSize="2")
    for number in range(4):
        fill(desk, "I.stays", f"I.{number}")
        found = messages(client)
        assert len(found) == 2
        delete(desk, f"I.{number}")
        for frame in found[1:] if mode == "client" else found:
            said = {"subscription": "s"} if version == "1.1" else {}
            client.say("ACK", message_id=frame.headers["message-id"], **said)
        assert messages(client) == []
    assert desk.broker.destinations.existing("I.stays").index.live_count == 0
    assert len(client.session.holdings.by_ordinal) == 1


def test_what_was_out_for_too_long_takes_no_room_once_its_queue_is_gone(desk) -> None:
    """
    Its late acknowledgement is taken, and gives the room back.
    """
    values = '{"deliverySecondsMax":5,"redeliveryDelay":60000,"initialRedeliveryDelay":60000}'
    desk.broker.receipts.record(PolicyRecord("queue://O.*", values))
    client = desk.connect()
    client.subscribe("/queue/O.*", activemq__prefetchSize="1")
    fill(desk, "O.gone")
    (late,) = messages(client)
    for _ in range(60):
        desk.broker.sending.now_microseconds += 100_000
        desk.broker.wake()
    fill(desk, "O.stays", count=2)
    assert messages(client) == []
    delete(desk, "O.gone")
    client.say("ACK", id=late.headers["ack"])
    assert len(messages(client)) == 1
    assert len(client.session.holdings.by_ordinal) == 1
