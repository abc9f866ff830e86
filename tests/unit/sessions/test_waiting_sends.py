"""
A SEND without room waits; everything else of its client, and everybody else, goes on.
"""

from __future__ import annotations

import tracemalloc

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import PolicyRecord

FULL = BrokerSettings(
    memory_bytes=1000, message_memory_overhead_bytes=100, waiting_total_bytes_max=70_000
)
VOLATILE = "/queue/volatile"


@pytest.fixture
def full(new_desk):
    """A desk whose memory for non-persistent messages is full."""
    desk = new_desk(FULL)
    client = desk.connect()
    for _ in range(2):
        client.ask("SEND", b"x" * 450, destination=VOLATILE)
    assert not client.session.waiting
    assert desk.broker.flow.volatile_bytes > FULL.memory_bytes
    desk.filler = client
    return desk


def commands(client) -> list[str]:
    return [frame.command for frame in client.frames()]


def test_only_who_fills_the_memory_waits(full) -> None:
    """
    Persistent messages, of the same client too, and the SUBSCRIBE that drains it, are served.
    """
    client, other = full.filler, full.connect()
    assert client.ask("SEND", b"waits", destination=VOLATILE, receipt="1") == []
    client.send(b"p", receipt="2")
    other.send(b"p", receipt="3")
    full.turn()
    assert (commands(client), commands(other)) == (["RECEIPT"], ["RECEIPT"])
    client.subscribe(VOLATILE, ack="auto")
    full.turn()
    full.turn()
    found = client.frames()
    assert [frame.command for frame in found].count("RECEIPT") == 1
    assert [frame.body for frame in found if frame.command == "MESSAGE"][-1] == b"waits"
    assert full.broker.flow.volatile_bytes == 0
    assert full.context.waiting_bytes == 0


def test_acknowledgements_behind_a_send_that_waits_are_read(full) -> None:
    """
    They make the room it waits for.
    """
    client = full.filler
    client.subscribe(VOLATILE)
    full.turn()
    held = [frame.headers["ack"] for frame in client.frames()]
    assert len(held) == 2
    assert client.ask("SEND", b"waits", destination=VOLATILE, receipt="1") == []
    for id in held:
        client.say("ACK", id=id)
    full.turn()
    full.turn()
    assert sorted(commands(client)) == ["MESSAGE", "RECEIPT"]


def test_numbers_of_a_producer_stay_in_order(full) -> None:
    """
    What comes after a number that waits waits too, wherever it goes; it was refused as a gap.
    """
    client = full.filler
    client.say("SEND", b"1", destination=VOLATILE)
    for number, queue in ((1, VOLATILE), (2, "/queue/a"), (3, "/queue/b")):
        named = {"producer-id": "p", "producer-sequence": str(number), "receipt": str(number)}
        client.send(b"%d" % number, queue, **named)
    client.send(b"after 3", "/queue/b")
    client.send(b"elsewhere", "/queue/c", receipt="c")
    client.say("BEGIN", transaction="t")
    named = {"producer-id": "p", "producer-sequence": "4"}
    client.say("COMMIT", transaction="t", receipt="t", **named)
    full.turn()
    found = client.frames()
    assert [(it.command, it.headers.get("code")) for it in found] == [
        ("ERROR", "store-full"),
        ("RECEIPT", None),
    ]
    client.subscribe(VOLATILE, ack="auto")
    full.turn()
    full.turn()
    receipts = [it.headers["receipt-id"] for it in client.frames() if it.command == "RECEIPT"]
    assert receipts == ["1", "2", "3"]
    client.say("COMMIT", transaction="t", receipt="t", **named)
    full.turn()
    assert commands(client) == ["RECEIPT"]
    client.subscribe("/queue/b", "b", ack="auto")
    full.turn()
    assert [frame.body for frame in client.frames()] == [b"3", b"after 3"]


def test_one_producers_order_holds(full) -> None:
    """
    What is sent to a place where something waits goes behind it, persistent or not.
    """
    client = full.filler
    client.say("SEND", b"1", destination=VOLATILE)
    client.send(b"2", VOLATILE)
    client.say("SEND", b"3", destination=VOLATILE)
    client.subscribe(VOLATILE, ack="auto")
    full.turn()
    full.turn()
    assert [frame.body for frame in client.frames()][-3:] == [b"1", b"2", b"3"]


def test_a_commit_does_not_go_before_sends_that_wait(full) -> None:
    """
    It is refused, and may be repeated; one that sends elsewhere is served.
    """
    client = full.filler
    client.ask("SEND", b"first", destination="/queue/q")
    for name, queue in (("t", "/queue/q"), ("u", "/queue/other")):
        client.say("BEGIN", transaction=name)
        client.send(b"second", queue, transaction=name)
    assert client.refusal("COMMIT", transaction="t").headers["code"] == "store-full"
    client.say("COMMIT", transaction="u", receipt="u")
    full.turn()
    assert commands(client) == ["RECEIPT"]
    full.broker.purge("volatile", full.connect().session, b"p")
    full.turn()
    client.say("COMMIT", transaction="t", receipt="t")
    full.turn()
    consumer = full.connect()
    consumer.subscribe("/queue/q", ack="auto")
    full.turn()
    assert consumer.bodies() == ["first", "second"]


def test_who_waits_too_long_is_refused(full) -> None:
    """
    Else two clients that wait for each other would do so for ever; later ones do not wait again.
    """
    client = full.filler
    client.say("SEND", b"a", destination=VOLATILE, receipt="1")
    full.context.now += FULL.send_wait_seconds_max + 1
    full.turn()
    (error,) = client.frames()
    assert (error.headers["code"], error.headers["receipt-id"]) == ("store-full", "1")
    assert client.refusal("SEND", destination=VOLATILE).headers["code"] == "store-full"
    other = full.connect()
    other.subscribe(VOLATILE, ack="auto")
    full.turn()
    assert client.ask("SEND", b"b", destination=VOLATILE, receipt="2")[0].command == "RECEIPT"
    assert not client.session.waiting


def test_what_waits_is_bounded(full) -> None:
    """
    For one connection, which is not read then, and for all together, which are refused.
    """
    client = full.filler
    client.ask("SEND", b"x" * 80_000, destination=VOLATILE)
    assert client.session.waiting.is_full
    other = full.connect()
    assert other.refusal("SEND", destination=VOLATILE).headers["code"] == "store-full"
    client.leave()
    assert not (client.session.waiting or client.session.waiting.is_full)
    assert full.context.waiting_bytes == 0


def test_a_goodbye_waits_behind_them(full) -> None:
    """
    Its receipt says that all before it is done.
    """
    client = full.filler
    client.say("SEND", b"last", destination=VOLATILE)
    assert client.ask("DISCONNECT", receipt="bye") == []
    other = full.connect()
    other.subscribe(VOLATILE, ack="auto")
    full.turn()
    full.turn()
    assert commands(client) == ["RECEIPT"]
    assert client.session.is_closing
    assert "last" in other.bodies()


def test_a_slow_subscriber_holds_back_the_topics_producers(new_desk) -> None:
    """
    Beyond its backlog they wait; once it has caught up, or has left, they go on.
    """
    desk = new_desk(BrokerSettings(topic_pending_bytes_max=100))
    publisher, slow, quick = desk.connect(), desk.connect(), desk.connect()
    slow.subscribe("/topic/t", ack="auto")
    quick.subscribe("/topic/t", ack="auto")
    slow.session.room_bytes = 0
    for number in range(4):
        publisher.ask("SEND", b"%30d" % number, destination="/topic/t", timestamp="1")
    had = len(quick.bodies())
    assert had < 4
    assert publisher.session.waiting
    slow.session.room_bytes = 1000
    desk.broker.resume(slow.session)
    assert [body.strip() for body in slow.bodies()] == ["0", "1", "2", "3"]
    assert len(quick.bodies()) == 4 - had
    slow.session.room_bytes = 0
    for number in range(8):
        publisher.ask("SEND", b"%30d" % number, destination="/topic/t", timestamp="1")
    assert publisher.session.waiting
    slow.leave()
    desk.turn()
    assert not publisher.session.waiting
    assert len(quick.bodies()) == 8


def test_two_who_publish_to_each_other_do_not_wait_for_ever(new_desk) -> None:
    """
    Neither takes what it is sent while it sends; in the end both are told, and may go on.
    """
    desk = new_desk(BrokerSettings(topic_pending_bytes_max=100))
    clients = [desk.connect(), desk.connect()]
    for client, topic in zip(clients, ("/topic/a", "/topic/b"), strict=True):
        client.subscribe(topic)
        client.session.room_bytes = 0
    for _ in range(6):
        clients[0].ask("SEND", b"x" * 60, destination="/topic/b")
        clients[1].ask("SEND", b"x" * 60, destination="/topic/a")
    assert all(client.session.waiting for client in clients)
    desk.context.now += FULL.send_wait_seconds_max + 1
    desk.turn()
    for client in clients:
        assert not client.session.waiting
        assert {frame.headers.get("code") for frame in client.frames()} == {"store-full"}


def test_persistent_sends_that_wait_behind_others_are_bounded_too(full) -> None:
    """
    A large one for each of many clients took gigabytes.
    """
    client, other = full.filler, full.connect()
    for each in (client, other):
        each.say("SEND", b"waits", destination=VOLATILE)
    client.send(b"x" * 70_000, VOLATILE)
    error = other.refusal("SEND", b"x", destination=VOLATILE, persistent="true")
    assert error.headers["code"] == "store-full"
    assert full.context.waiting_bytes < 80_000


def test_what_waits_is_counted_with_its_headers(full) -> None:
    """
    A frame may have 256 KiB of them: 164 frames that counted for 64 KiB took 80 MB.
    """
    client = full.filler
    tracemalloc.start()
    try:
        for number in range(100):
            headers = {f"h{place}": f"{number}" + "y" * 9_000 for place in range(20)}
            client.say("SEND", b"", destination=VOLATILE, **headers)
            if client.session.waiting.is_full:
                break
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert client.session.waiting.is_full
    assert taken < 2 * client.session.waiting.bytes
    client.leave()
    assert full.context.waiting_bytes == 0


def test_headers_that_many_share_are_counted_once(full) -> None:
    """
    A client that sends with the same headers has as many frames set aside as it always had.
    """
    client = full.filler
    first = "y" * 1_000
    client.say("SEND", b"", destination=VOLATILE, h=first)
    alone = client.session.waiting.bytes
    client.say("SEND", b"", destination=VOLATILE, h=first)
    assert client.session.waiting.bytes - alone < 500 < alone
    client.subscribe(VOLATILE, ack="auto")
    full.turn()
    full.turn()
    assert full.context.waiting_bytes == 0


def test_a_queue_that_is_deleted_and_made_again_keeps_the_order_of_what_waits(full) -> None:
    """
    A persistent message goes behind one that waits for a queue of its name, whichever queue it is.
    """
    client = full.filler
    assert client.ask("SEND", b"first", destination=VOLATILE) == []
    full.broker.delete("volatile", client.session, b"deleted")
    client.send(b"second", destination=VOLATILE)
    full.turn()
    client.subscribe(VOLATILE, ack="auto")
    assert client.bodies()[-2:] == ["first", "second"]


def test_a_change_of_policies_holds_up_nobody_else(full) -> None:
    """
    What waits goes where it was sent to; COMMITs and SENDs to other queues go on, as before.
    """
    client = full.filler
    client.say("SEND", b"x", destination=VOLATILE, receipt="w")
    full.broker.receipts.record(PolicyRecord("queue://unrelated", '{"maxLength": "7"}'))
    full.turn()
    client.say("BEGIN", transaction="t")
    client.send(b"x", "/queue/free", transaction="t")
    client.say("COMMIT", transaction="t", receipt="c")
    client.send(b"y", "/queue/free", receipt="s")
    full.turn()
    assert [it.headers.get("receipt-id") for it in client.frames()] == ["c", "s"]
    assert client.session.waiting


def test_what_waits_no_more_holds_nothing_and_is_forgotten(full) -> None:
    """
    The names of all that had ever waited were kept for as long as anything did.
    """
    client = full.filler
    for number in range(3):
        client.say("SEND", b"x", destination=f"/queue/v{number}", receipt=str(number))
    waiting = client.session.holdings.sending.waiting
    queues = [full.broker.destinations.queue(f"v{number}") for number in range(3)]
    assert [waiting.holds(queue) for queue in queues] == [True, True, True]
    waiting.remove(next(waiting.line()).number)
    assert [waiting.holds(queue) for queue in queues] == [False, True, True]
    waiting.clear()
    assert not any(map(waiting.holds, queues))
    assert not waiting.bytes


def slow_topic(desk, topic: str):
    """Give one who has let a topic's producers wait."""
    slow = desk.connect()
    slow.subscribe(f"/topic/{topic}", ack="auto")
    slow.session.room_bytes = 0
    return slow


@pytest.fixture
def slow(new_desk):
    """A desk with a publisher that waits for a slow subscriber of a topic."""
    desk = new_desk(BrokerSettings(topic_pending_bytes_max=100))
    desk.slow, desk.publisher = slow_topic(desk, "a"), desk.connect()
    for number in range(4):
        desk.publisher.ask("SEND", b"%90d" % number, destination="/topic/a")
    assert desk.publisher.session.waiting
    return desk


def test_a_slow_subscriber_holds_up_what_goes_to_its_topic_only(slow) -> None:
    """
    All else of the publisher that is not persistent waited behind it for half a minute.
    """
    publisher = slow.publisher
    for place in ("/topic/b", "/queue/b", "/topic/b,/queue/c", "/temp-queue/mine"):
        frames = publisher.ask("SEND", b"x", destination=place, receipt=place)
        assert [it.headers.get("receipt-id") for it in frames] == [place]
    assert publisher.ask("SEND", b"x", destination="/topic/b,/topic/a", receipt="r") == []
    assert publisher.ask("SEND", b"x", destination="/topic/b", receipt="r") == []


def test_what_waits_elsewhere_goes_as_soon_as_there_is_room(slow) -> None:
    """
    In its order at each place; a last word goes behind all of it.
    """
    publisher, other = slow.publisher, slow_topic(slow, "b")
    for number in range(5):
        publisher.ask("SEND", b"%90d" % number, destination="/topic/b")
    publisher.ask("SEND", b"9", destination="/topic/a,/topic/b")
    publisher.ask("SEND", b"5", destination="/topic/b")
    assert publisher.ask("DISCONNECT", receipt="bye") == []
    other.session.room_bytes = 10_000
    slow.broker.resume(other.session)
    assert [it.strip() for it in other.bodies()] == ["0", "1", "2", "3", "4"]
    slow.slow.session.room_bytes = 10_000
    slow.broker.resume(slow.slow.session)
    assert [it.strip() for it in slow.slow.bodies()] == ["0", "1", "2", "3", "9"]
    assert other.bodies() == ["9", "5"]
    assert commands(publisher) == ["RECEIPT"]
    assert slow.context.waiting_bytes == 0


def test_who_waited_too_long_at_one_place_may_wait_at_another(slow) -> None:
    """
    And at the first one again only once there was room: not as soon as another one had some.
    """
    publisher = slow.publisher
    slow.context.now += FULL.send_wait_seconds_max + 1
    slow.turn()
    assert {it.headers.get("code") for it in publisher.frames()} == {"store-full"}
    assert publisher.ask("SEND", destination="/queue/b", receipt="r")[0].command == "RECEIPT"
    assert publisher.refusal("SEND", destination="/topic/a").headers["code"] == "store-full"
    slow_topic(slow, "b")
    for number in range(5):
        publisher.ask("SEND", b"%90d" % number, destination="/topic/b")
    assert publisher.session.waiting
    assert publisher.refusal("SEND", destination="/topic/a").headers["code"] == "store-full"
    slow.slow.session.room_bytes = 10_000
    slow.broker.resume(slow.slow.session)
    slow.turn()
    slow.slow.session.room_bytes = 0
    for number in range(3):
        assert publisher.ask("SEND", b"%90d" % number, destination="/topic/a") == []


def test_of_no_more_places_is_known_that_they_are_full_than_there_is_room_for(slow) -> None:
    """
    The one of which it was found first is waited for again.
    """
    waiting = slow.publisher.session.holdings.sending.waiting
    for number in range(2000):
        waiting.refuse(("place", number))
    assert len(waiting.refusing) == 1024
    assert waiting.is_refusing(("place", 1999))
    assert not waiting.is_refusing(("place", 0))


def test_of_what_waits_for_one_place_only_the_first_is_looked_at(full, monkeypatch) -> None:
    """In each turn all of it would be: of fifty producers that took the whole of each turn."""
    client = full.filler
    for number in range(20):
        client.say("SEND", b"x", destination=VOLATILE, receipt=str(number))
    sending = client.session.holdings.sending
    assert len(list(sending.waiting.line())) == 20
    looked: list[int] = []
    go_on = type(sending)._go_on_with

    def counted(self, session, each, held) -> bool:
        looked.append(each.number)
        return go_on(self, session, each, held)

    monkeypatch.setattr(type(sending), "_go_on_with", counted)
    client.session.send_waiting(lambda: False)
    assert looked == [1]
    client.say("SEND", b"x", destination="/queue/volatile2", receipt="other")
    looked.clear()
    client.session.send_waiting(lambda: False)
    assert looked[0] == 1
    assert len(looked) == 21
