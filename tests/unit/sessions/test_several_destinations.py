"""
A SEND to several destinations at once: on all of them, or nowhere; stored once.
"""

from __future__ import annotations

from itertools import product

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Place
from holdfast.model.format_level import FACTS_LEVEL
from holdfast.model.records import MessageRecord
from holdfast.store.record_codec import decode_records

THREE = "/queue/a, queue://b,/queue/c"
FULL = BrokerSettings(memory_bytes=1000, message_memory_overhead_bytes=100)


@pytest.fixture
def desk(desk):
    desk.broker.state.format_level = FACTS_LEVEL
    return desk


def stored(desk) -> list[MessageRecord]:
    found = [record for _, _, body in desk.log for record in decode_records(body)]
    return [record for record in found if isinstance(record, MessageRecord)]


def bodies_of(desk, *names: str) -> dict[str, list[str]]:
    """Give what a new consumer of each gets, and whether it says that it came there."""
    found = {}
    for name in names:
        client = desk.connect()
        client.subscribe(f"/queue/{name}")
        desk.turn()
        frames = client.frames()
        assert all(frame.headers["destination"] == f"/queue/{name}" for frame in frames)
        found[name] = [frame.body.decode() for frame in frames]
        client.leave()
    return found


def test_each_of_several_queues_gets_what_is_stored_once(desk) -> None:
    """
    One record with a place on each; acknowledged on one queue, it is there on the others still.
    """
    client = desk.connect()
    client.send(b"x", THREE, receipt="r")
    assert client.frames() == []
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    (record,) = stored(desk)
    assert [place.sequence for place in record.places] == [1, 1, 1]
    client.subscribe("/queue/b", ack="auto")
    assert client.bodies() == ["x"]
    assert bodies_of(desk, "a", "b", "c") == {"a": ["x"], "b": [], "c": ["x"]}
    desk.fail_over()
    assert bodies_of(desk, "a", "b", "c") == {"a": ["x"], "b": [], "c": ["x"]}


def test_below_the_level_of_facts_each_queue_has_its_own(desk) -> None:
    """
    All in one entry of the log, so that none is without the others.
    """
    desk.broker.state.format_level = FACTS_LEVEL - 1
    client = desk.connect()
    desk.turn()
    before = len(desk.log)
    client.send(b"x", THREE, receipt="r")
    desk.turn()
    assert len(desk.log) == before + 1
    assert [record.facts for record in stored(desk)] == [None] * 3
    assert bodies_of(desk, "a", "b", "c") == {"a": ["x"], "b": ["x"], "c": ["x"]}


def test_topics_and_temporary_queues_get_theirs_once_the_others_are_stored(desk) -> None:
    """
    Nobody is shown what may not last; the receipt comes when all of it is out.
    """
    client, other = desk.connect(), desk.connect()
    client.subscribe("/temp-queue/mine", "t", ack="auto")
    other.subscribe("/topic/t", ack="auto")
    desk.turn()
    client.send(b"x", "/queue/a,/topic/t,/temp-queue/mine,topic://nobody", receipt="r")
    desk.dispatch()
    assert (client.frames(), other.frames()) == ([], [])
    assert other.bodies() == ["x"]
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["MESSAGE", "RECEIPT"]
    assert bodies_of(desk, "a") == {"a": ["x"]}


def test_what_is_not_persistent_is_stored_nowhere(desk) -> None:
    """
    It goes to each queue in memory.
    """
    client = desk.connect()
    client.say("SEND", b"x", destination=THREE, receipt="r")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    assert stored(desk) == []
    assert bodies_of(desk, "a", "b", "c") == {"a": ["x"], "b": ["x"], "c": ["x"]}


def test_a_destination_written_twice_gets_one(desk) -> None:
    """
    However it is written, a temporary queue's two names too.
    """
    client = desk.connect()
    client.subscribe("/temp-queue/mine", "t", ack="auto")
    full = f"/remote-temp-queue/{client.session.id}.mine"
    client.send(b"x", f"/queue/a,queue://a,/temp-queue/mine,a,{full}")
    assert client.bodies() == ["x"]
    assert bodies_of(desk, "a") == {"a": ["x"]}
    (record,) = stored(desk)
    assert record.facts is None


def test_a_producers_number_counts_for_all_of_them(desk) -> None:
    """
    Sent again after a failover it is confirmed, and stored nowhere a second time.
    """
    named = {"producer-id": "p", "producer-sequence": "1"}
    for _ in range(2):
        client = desk.connect()
        client.send(b"x", THREE, receipt="r", **named)
        client.send(b"x", THREE, receipt="again", **named)
        desk.turn()
        assert [frame.headers["receipt-id"] for frame in client.frames()] == ["r", "again"]
        desk.fail_over()
    assert len(stored(desk)) == 1
    assert bodies_of(desk, "a", "b", "c") == {"a": ["x"], "b": ["x"], "c": ["x"]}
    client = desk.connect()
    gap = {"producer-id": "p", "producer-sequence": "3"}
    error = client.refusal("SEND", b"y", destination=THREE, persistent="true", **gap)
    assert error.headers["code"] == "producer-sequence-gap"
    client.send(b"z", "/queue/a", receipt="r", **{**named, "producer-sequence": "2"})
    assert [it.command for it in client.ask("SEND", b"", destination="/queue/n")] == ["RECEIPT"]


def test_in_a_transaction_it_goes_to_all_with_the_commit(desk) -> None:
    """
    Between messages for one of the queues, in the order of the SENDs.
    """
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    for body, destination in ((b"1", "/queue/a"), (b"2", THREE), (b"3", "/queue/b"), (b"4", THREE)):
        client.send(body, destination, transaction="t")
    desk.turn()
    assert stored(desk) == []
    client.say("COMMIT", transaction="t", receipt="r")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    assert bodies_of(desk, "a", "b", "c") == {
        "a": ["1", "2", "4"],
        "b": ["2", "3", "4"],
        "c": ["2", "4"],
    }
    numbers = [record.queue_number for record in stored(desk)]
    assert [record.places for record in stored(desk)][1][1:] == (
        Place(numbers[2], 1),
        Place(numbers[2] + 1, 1),
    )
    assert desk.broker.flow.held_bytes == 0


def test_what_is_rolled_back_goes_nowhere(desk) -> None:
    """
    And nothing of it is counted any more.
    """
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    client.send(b"1", THREE, transaction="t")
    assert desk.broker.flow.held_bytes > 0
    client.say("ABORT", transaction="t")
    desk.turn()
    assert (desk.broker.flow.held_bytes, client.session.holdings.transactions.bytes) == (0, 0)
    assert bodies_of(desk, "a", "b", "c") == {"a": [], "b": [], "c": []}


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ({"transaction_operation_count_max": 2}, "operations"),
        ({"transaction_bytes_max": 150}, "bytes"),
        ({"transaction_destination_count_max": 2}, "destinations"),
        (
            {"transactions_bytes_max": 500, "message_memory_overhead_bytes": 100},
            "open transactions hold",
        ),
    ],
)
def test_a_transaction_that_it_does_not_fit_into_has_none_of_it(new_desk, limit, why) -> None:
    """
    What is counted is what is held, whichever limit it came up against.
    """
    desk = new_desk(BrokerSettings(**limit))
    desk.broker.state.format_level = FACTS_LEVEL
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    before = desk.broker.flow.held_bytes, client.session.holdings.transactions.bytes
    error = client.refusal(
        "SEND", b"x" * 100, destination=THREE, persistent="true", transaction="t", receipt="r"
    )
    assert why in error.headers["message"]
    held = client.session.holdings.transactions
    assert before == (desk.broker.flow.held_bytes, held.bytes)
    assert not held.by_name["t"].records


def test_too_many_queues_at_once_are_refused_before_one_is_declared(new_desk) -> None:
    """
    None of them is there then.
    """
    desk = new_desk(BrokerSettings(queue_count_max=2))
    client = desk.connect()
    error = client.refusal("SEND", b"x", destination=THREE, persistent="true")
    assert error.headers["code"] == "destination"
    assert desk.broker.destinations.queue_names() == []
    client.send(b"x", "a,b", receipt="r")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]


def test_it_waits_where_one_has_no_room_and_later_ones_behind_it(new_desk) -> None:
    """
    A temporary queue keeps its part in memory; what is sent to one of them later waits as well.
    """
    desk = new_desk(FULL)
    desk.broker.state.format_level = FACTS_LEVEL
    client = desk.connect()
    for _ in range(2):
        client.ask("SEND", b"x" * 450, destination="/queue/volatile")
    client.frames()
    client.send(b"1", "/queue/a,/temp-queue/t", receipt="1")
    client.send(b"2", "/queue/a", receipt="2")
    client.send(b"3", "/queue/b,/queue/a", receipt="3")
    client.send(b"elsewhere", "/queue/c,/queue/d", receipt="4")
    desk.turn()
    assert [frame.headers["receipt-id"] for frame in client.frames()] == ["4"]
    client.subscribe("/queue/volatile", ack="auto")
    desk.turn()
    desk.turn()
    told = {it.headers["receipt-id"] for it in client.frames() if it.command == "RECEIPT"}
    assert told == {"1", "2", "3"}
    assert bodies_of(desk, "a", "b") == {"a": ["1", "2", "3"], "b": ["3"]}
    assert desk.context.waiting_bytes == 0


def test_what_waited_too_long_for_room_is_refused_whole(new_desk) -> None:
    """
    The queue that would have had room has nothing of it.
    """
    desk = new_desk(FULL)
    client = desk.connect()
    for _ in range(2):
        client.ask("SEND", b"x" * 450, destination="/queue/volatile")
    client.send(b"1", "/queue/a,/temp-queue/t", receipt="1")
    desk.context.now += desk.settings.send_wait_seconds_max + 1
    desk.turn()
    (error,) = client.frames()
    assert (error.command, error.headers["code"]) == ("ERROR", "store-full")
    assert bodies_of(desk, "a") == {"a": []}


def test_a_full_store_refuses_it_and_confirms_what_it_has(desk) -> None:
    """
    A repetition stores nothing, so it is confirmed.
    """
    client = desk.connect()
    named = {"producer-id": "p", "producer-sequence": "1", "persistent": "true"}
    assert client.ask("SEND", b"x", destination=THREE, receipt="1", **named)
    desk.context.refusal = "the disk is full"
    (told,) = client.ask("SEND", b"x", destination=THREE, receipt="1", **named)
    assert told.command == "RECEIPT"
    error = client.refusal("SEND", b"y", destination=THREE, persistent="true")
    assert error.headers["code"] == "store-full"
    (told,) = client.ask("SEND", b"z", destination=THREE, receipt="z")
    assert told.command == "RECEIPT"


def test_a_queue_deleted_between_two_messages_is_there_again(desk) -> None:
    """
    The same headers mean what their names mean now.
    """
    client = desk.connect()
    for body in (b"1", b"2"):
        client.send(body, "a,b")
        desk.turn()
        desk.broker.delete("b", client.session, b"gone")
        desk.turn()
    client.send(b"3", "a,b")
    desk.turn()
    assert bodies_of(desk, "a", "b") == {"a": ["1", "2", "3"], "b": ["3"]}


def test_all_of_it_can_be_a_dead_letter(desk) -> None:
    """
    Rejected on one queue it is on the others as before.
    """
    client = desk.connect()
    client.send(b"x", THREE)
    client.subscribe("/queue/b")
    desk.turn()
    (message,) = client.frames()
    client.ask("NACK", id=message.headers["ack"])
    names = ("a", "b", "c", desk.settings.dead_letter_queue)
    assert bodies_of(desk, *names) == {"a": ["x"], "b": [], "c": ["x"], names[-1]: ["x"]}


_NOT_SERVED = ("/queue/", "/queue/" + "x" * 1025, ",")


@pytest.mark.parametrize(
    ("command", "destination"),
    [
        *product(("SEND", "SUBSCRIBE"), _NOT_SERVED),
        *product(("SEND",), ("a,/queue/", "a,b.>", "a,topic://*", "/queue/a.>", "/topic/*.a")),
    ],
)
def test_destinations_that_are_not_served_are_refused(desk, command, destination) -> None:
    """
    Bad names, and wildcards in a SEND, get a clear ERROR, and the connection lives.
    """
    client = desk.connect()
    error = client.refusal(command, destination=destination, id="1", receipt="r1")
    assert error.headers["code"] == "destination"
    assert error.headers["receipt-id"] == "r1"
    assert not client.session.is_closing
    assert client.ask("SEND", destination="/queue/a", receipt="r2")[0].command == "RECEIPT"


def test_a_repetition_is_confirmed_whatever_has_become_of_its_destinations(desk) -> None:
    """
    A temporary queue is gone with every failover, and a topic may have no room: it is stored.
    """
    named = {"producer-id": "p", "producer-sequence": "1"}
    client = desk.connect()
    client.subscribe("/temp-queue/t", "t")
    full = f"/queue/a,/remote-temp-queue/{client.session.id}.t"
    assert client.ask("SEND", b"x", destination=full, persistent="true", receipt="1", **named)
    desk.fail_over()
    client = desk.connect()
    (told,) = client.ask("SEND", b"x", destination=full, persistent="true", receipt="1", **named)
    assert told.command == "RECEIPT"
    error = client.refusal("SEND", b"y", destination=full, persistent="true", receipt="2")
    assert error.headers["code"] == "destination"
    (told,) = client.ask(
        "SEND", b"y", destination="a,b", persistent="true", receipt="2", **(named | NEXT)
    )
    assert told.command == "RECEIPT"
    assert bodies_of(desk, "a", "b") == {"a": ["x", "y"], "b": ["y"]}


NEXT = {"producer-sequence": "2"}


def test_a_repetition_waits_for_no_room(new_desk) -> None:
    """
    It takes none.
    """
    desk = new_desk(FULL)
    client = desk.connect()
    to = {"destination": "/queue/a,/temp-queue/t", "persistent": "true", "receipt": "1"}
    to |= {"producer-id": "p", "producer-sequence": "1"}
    client.ask("SEND", b"x", **to)
    for _ in range(2):
        client.ask("SEND", b"x" * 450, destination="/queue/volatile")
    client.frames()
    (told,) = client.ask("SEND", b"x", **to)
    assert told.command == "RECEIPT"


def test_nothing_is_declared_where_a_later_one_cannot_be(desk) -> None:
    """
    Whatever the order in which they are written.
    """
    client = desk.connect()
    error = client.refusal("SEND", b"x", destination="/queue/new,/remote-temp-queue/gone")
    assert error.headers["code"] == "destination"
    assert desk.broker.destinations.queue_names() == []


def test_what_is_stored_nowhere_keeps_its_place_among_others(desk) -> None:
    """
    Before what the client sends later, on queues and on topics.
    """
    client, other = desk.connect(), desk.connect()
    other.subscribe("/topic/t", ack="auto")
    for body, to in ((b"1", "/queue/a,/topic/t,/topic/u"), (b"2", "/queue/a"), (b"3", "/topic/t")):
        client.say("SEND", body, destination=to, receipt=body.decode())
    assert other.bodies() == ["1", "3"]
    client.session.proceed(lambda: False)
    desk.turn()
    assert {frame.headers["receipt-id"] for frame in client.frames()} == {"1", "2", "3"}
    assert bodies_of(desk, "a") == {"a": ["1", "2"]}


@pytest.mark.parametrize("level", [FACTS_LEVEL - 1, FACTS_LEVEL])
def test_one_message_has_no_transactions_limits(new_desk, level) -> None:
    """
    Stored once it takes what one takes; copies of it are refused where they would be too much.
    """
    desk = new_desk(BrokerSettings(transaction_bytes_max=1000, transaction_operation_count_max=2))
    desk.broker.state.format_level = level
    client = desk.connect()
    (told,) = client.ask("SEND", b"x" * 900, destination=THREE, persistent="true", receipt="1")
    assert (told.command == "RECEIPT") is (level >= FACTS_LEVEL)
    if level < FACTS_LEVEL:
        assert "send it to fewer at once" in told.headers["message"]
    assert len(stored(desk)) == (level >= FACTS_LEVEL)


def test_each_counts_as_the_work_it_is(desk) -> None:
    """
    So the clock is looked at in time; a COMMIT of many as well.
    """
    client = desk.connect()
    spent: list[int] = []
    many = ",".join(f"q{number}" for number in range(64))

    def looks() -> bool:
        spent.append(len(desk.broker.receipts.batch.records))
        return False

    data = f"SEND\ndestination:{many}\npersistent:true\n\nx\0".encode()
    client.session.receive(data * 10, looks)
    assert len(spent) >= 10
    spent.clear()
    data = f"SEND\ndestination:{many}\npersistent:true\ntransaction:t\n\nx\0".encode()
    client.session.receive(b"BEGIN\ntransaction:t\n\n\0" + data * 10, looks)
    assert len(spent) >= 10
    spent.clear()
    client.session.receive(b"COMMIT\ntransaction:t\n\n\0\n", looks)
    assert spent
    assert desk.broker.receipts.batch.unnumbered
