"""
ACK and NACK against a real broker: modes, versions, late ones, the dead-letter queue, redelivery.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError
from holdfast.model.format_level import MOVES_LEVEL


def filled(desk, client, count: int, queue: str = "orders") -> None:
    for number in range(count):
        client.send(b"%d" % number, f"/queue/{queue}")
    desk.turn()


def live(desk, queue: str = "orders") -> list[int]:
    found = desk.broker.state.by_name.get(queue)
    return list(found.index.sequences(1, found.next_sequence)) if found is not None else []


# Modes --------------------------------------------------------------------------------------------


def test_auto_is_done_when_it_is_sent(desk) -> None:
    """
    STOMP 1.2, SUBSCRIBE: in auto mode nothing is acknowledged by the client.
    """
    client = desk.connect()
    filled(desk, client, 3)
    client.subscribe(ack="auto")
    assert client.bodies() == ["0", "1", "2"]
    desk.turn()
    assert live(desk) == []
    assert client.refusal("ACK", id="1-1").headers["code"] == "unknown-delivery"


def test_client_settles_everything_before(desk) -> None:
    """
    Cumulative by the order of delivery on this subscription.
    """
    client = desk.connect()
    filled(desk, client, 5)
    client.subscribe(ack="client")
    desk.turn()
    client.frames()
    client.ask("ACK", id="1-3")
    assert live(desk) == [4, 5]
    assert client.refusal("ACK", id="1-2").headers["code"] == "unknown-delivery"
    client.ask("ACK", id="1-5")
    assert live(desk) == []


def test_cumulative_counts_only_its_own_subscription(desk) -> None:
    """
    Two consumers of one queue: what the other holds is not touched.
    """
    client = desk.connect()
    filled(desk, client, 4)
    client.subscribe(id="1", ack="client")
    client.subscribe(id="2", ack="client")
    desk.turn()
    client.frames()
    client.ask("ACK", id="1-3")
    assert live(desk) == [2, 4]


def test_individual_settles_one(desk) -> None:
    """
    In any order.
    """
    client = desk.connect()
    filled(desk, client, 3)
    client.subscribe()
    desk.turn()
    client.frames()
    client.ask("ACK", id="1-3")
    client.ask("ACK", id="1-1")
    assert live(desk) == [2]


@pytest.mark.parametrize("id", ["", "1", "1-", "1-x", "9-1", "1-999", "x", "1-" + "9" * 5000])
@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_what_was_not_delivered_cannot_be_acknowledged(desk, command, id) -> None:
    """
    A clear ERROR with the receipt id, and the connection lives.
    """
    client = desk.connect()
    filled(desk, client, 1)
    client.subscribe()
    desk.turn()
    client.frames()
    error = client.refusal(command, id=id, receipt="r")
    assert error.headers["code"] == "unknown-delivery"
    assert error.headers["receipt-id"] == "r"
    assert live(desk) == [1]
    assert not client.session.is_closing


@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize(
    ("version", "name", "id"),
    [("1.2", "id", "1-9"), ("1.2", "id", "ID:x\\\n-1-1"), ("1.1", "message_id", "ID:x\\-1-1")],
)
def test_a_refusal_without_a_receipt_names_what_it_refuses(desk, command, version, name, id):
    """
    Else a client knows only that one of many is not done, and would have to fear for them all.
    """
    client = desk.connect(version)
    client.subscribe()
    error = client.refusal(command, **{name: id, "subscription": "s"})
    assert error.headers["code"] == "unknown-delivery"
    assert error.headers["id"] == id
    assert "receipt-id" not in error.headers


def test_1_1_acknowledges_by_message_id_and_subscription(desk) -> None:
    """
    STOMP 1.1, ACK: both headers; cumulative in client mode.
    """
    client = desk.connect("1.1")
    filled(desk, client, 3)
    client.subscribe(ack="client")
    desk.turn()
    ids = [frame.headers["message-id"] for frame in client.frames()]
    assert ids[1] == "ID:c0ffee-1-2"
    (receipt,) = client.ask("ACK", message_id=ids[1], subscription="s", receipt="r")
    assert receipt.command == "RECEIPT"
    assert live(desk) == [3]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_id_means_the_message_of_its_own_queue(desk, version) -> None:
    """
    Two queues have the same sequences: the message id's queue number tells them apart.
    """
    client = desk.connect(version)
    filled(desk, client, 1, "a")
    filled(desk, client, 1, "b")
    client.subscribe("/queue/a", "1")
    client.subscribe("/queue/b", "2")
    desk.turn()
    client.frames()
    client.ask("ACK", message_id="ID:c0ffee-2-1", subscription="2" if version == "1.1" else "")
    assert (live(desk, "a"), live(desk, "b")) == ([1], [])


def test_1_0_needs_no_subscription(desk) -> None:
    """
    STOMP 1.0, ACK: the message-id is all there is.
    """
    client = desk.connect("1.0")
    filled(desk, client, 2)
    client.say("SUBSCRIBE", destination="/queue/orders", ack="client")
    desk.turn()
    client.frames()
    client.ask("ACK", message_id="ID:c0ffee-1-2")
    assert live(desk) == []


def test_1_0_has_no_nack(desk) -> None:
    """
    STOMP 1.0 does not know the frame: a protocol error.
    """
    client = desk.connect("1.0")
    assert client.refusal("NACK", message_id="x").headers["code"] == "unknown-command"


# Late acknowledgements ----------------------------------------------------------------------------


def test_a_late_acknowledgement_survives_a_failover(desk) -> None:
    """
    By message id, before anything is subscribed; the message is not delivered again.
    """
    client = desk.connect()
    filled(desk, client, 3)
    client.subscribe()
    desk.turn()
    ids = [frame.headers["message-id"] for frame in client.frames()]
    desk.fail_over()
    client = desk.connect()
    (receipt,) = client.ask("ACK", id=ids[1], receipt="r")
    assert receipt.command == "RECEIPT"
    client.subscribe()
    desk.turn()
    found = [(frame.body, frame.headers.get("redelivered")) for frame in client.frames()]
    assert found == [(b"0", "true"), (b"2", "true")]


def test_a_late_acknowledgement_of_something_settled_succeeds(desk) -> None:
    """
    The client cannot know; also of a queue that is gone, and twice before it is stored.
    """
    client = desk.connect()
    filled(desk, client, 1)
    filled(desk, client, 1, "gone")
    desk.fail_over()
    client = desk.connect()
    client.say("ACK", id="ID:c0ffee-1-1", receipt="1")
    (first, second) = client.ask("ACK", id="ID:c0ffee-1-1", receipt="2")
    assert (first.command, second.command) == ("RECEIPT", "RECEIPT")
    assert live(desk) == []
    desk.broker.delete("gone", client.session, b"d")
    desk.turn()
    client.frames()
    for id in ("ID:c0ffee-1-1", "ID:c0ffee-2-1", "ID:c0ffee-2-9"):
        assert client.ask("ACK", id=id, receipt="r")[0].command == "RECEIPT"


def test_a_late_acknowledgement_of_what_is_being_settled_waits_for_it(desk) -> None:
    """
    Said on a connection that was lost before the answer, said again on the next: the same word.
    """
    client = desk.connect()
    filled(desk, client, 1)
    client.subscribe()
    assert client.bodies() == ["0"]
    client.say("ACK", id="1-1", receipt="1")
    client.leave()
    client = desk.connect()
    client.say("ACK", id="ID:c0ffee-1-1", receipt="2")
    desk.seal()
    assert client.frames() == []
    desk.commit()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]


def test_a_late_acknowledgement_waits_for_its_commit(desk) -> None:
    """
    Once confirmed it is never undone, so it is confirmed only when it is stored.
    """
    client = desk.connect()
    filled(desk, client, 1)
    desk.fail_over()
    client = desk.connect()
    client.say("ACK", id="ID:c0ffee-1-1", receipt="1")
    desk.seal()
    assert client.frames() == []
    desk.commit()
    assert len(client.frames()) == 1


def test_a_late_acknowledgement_takes_nothing_from_who_has_it_now(desk) -> None:
    """
    In delivery, or acknowledged in somebody's transaction: it is his, until he gives it back.
    """
    client, other = desk.connect(), desk.connect()
    filled(desk, client, 2)
    other.subscribe(prefetch_count="1")
    assert other.bodies() == ["0"]
    assert client.refusal("ACK", id="ID:c0ffee-1-1").headers["code"] == "unknown-delivery"
    other.say("BEGIN", transaction="t")
    other.say("ACK", id="1-1", transaction="t")
    assert client.refusal("ACK", id="ID:c0ffee-1-1").headers["code"] == "unknown-delivery"
    other.leave()
    assert client.ask("ACK", id="ID:c0ffee-1-1", receipt="r")[0].command == "RECEIPT"
    assert live(desk) == [2]


GUESSES = (
    "ID:c0ffee-1-1",  # waits, persistent
    "ID:c0ffee-1-t1.1",  # waits, not persistent
    "ID:c0ffee-1-2",  # a future sequence
    "ID:c0ffee-1-0",
    "ID:c0ffee-1-t1.0",
    "ID:c0ffee-1-t1.2",
    "ID:c0ffee-1-t9.1",  # a future term
    "ID:c0ffee-1-18446744073709551616",
    "ID:c0ffee-9-1",  # a queue that never was
    "ID:c0ffee-0-1",  # temporary queues and topics
    "ID:c0ffee-0-t1.1",
    "ID:beef-1-1",
    "1-1",
    "1--1",
    "-1",
)


@pytest.mark.parametrize("is_in_transaction", [False, True])
@pytest.mark.parametrize("id", GUESSES)
def test_what_was_never_delivered_cannot_be_settled_by_a_guess(desk, id, is_in_transaction) -> None:
    """
    A stranger's guess is refused, costs nobody a message, and the queue goes on.
    """
    client, stranger = desk.connect(), desk.connect()
    filled(desk, client, 1)
    client.ask("SEND", b"volatile", destination="/queue/orders")
    extra = {}
    if is_in_transaction:
        stranger.say("BEGIN", transaction="t")
        extra["transaction"] = "t"
    assert stranger.refusal("ACK", id=id, **extra).headers["code"] == "unknown-delivery"
    if is_in_transaction:
        assert stranger.refusal("COMMIT", transaction="t").headers["code"] == "transaction"
    client.subscribe()
    assert client.bodies() == ["0", "volatile"]


def test_what_a_transaction_settles_late_is_nobodys_until_its_end(desk) -> None:
    """
    It is not delivered to others meanwhile, and comes back, flagged, once, if it is rolled back.
    """
    client = desk.connect()
    filled(desk, client, 2)
    client.subscribe()
    assert client.bodies() == ["0", "1"]
    desk.fail_over()
    client, other = desk.connect(), desk.connect()
    for name in "tu":
        client.say("BEGIN", transaction=name)
        client.ask("ACK", id="ID:c0ffee-1-1", transaction=name, receipt="r")
        client.ask("ABORT", transaction=name)
    client.say("BEGIN", transaction="t")
    client.say("ACK", id="ID:c0ffee-1-1", transaction="t")
    other.subscribe()
    assert other.bodies() == ["1"]
    client.leave()
    desk.turn()
    (frame,) = other.frames()
    assert (frame.body, frame.headers["redelivered"]) == (b"0", "true")


def test_a_late_acknowledgement_of_something_purged_opens_the_window(desk) -> None:
    """
    Nobody will acknowledge it again: its place would be lost for good.
    """
    client = desk.connect()
    filled(desk, client, 1)
    client.subscribe(prefetch_count="1")
    assert client.bodies() == ["0"]
    desk.broker.purge("orders", client.session, b"p")
    client.send(b"next")
    assert client.bodies() == []
    client.ask("ACK", id="ID:c0ffee-1-1")
    assert client.session.subscriptions["s"].unacknowledged == {2: None}


def test_a_late_acknowledgement_is_never_cumulative(desk) -> None:
    """
    On a new subscription in client mode other messages may stand before it, not seen yet.
    """
    client = desk.connect()
    filled(desk, client, 3)
    client.subscribe(ack="client")
    desk.turn()
    client.frames()
    client.ask("ACK", id="ID:c0ffee-1-3")
    assert live(desk) == [1, 2]
    client.ask("ACK", id="1-2")
    assert live(desk) == []


def test_a_late_acknowledgement_from_another_cluster_is_refused(desk) -> None:
    """
    A client with brokers of two clusters in its list must not settle a stranger here.
    """
    client = desk.connect()
    filled(desk, client, 1)
    error = client.refusal("ACK", id="ID:beef-1-1")
    assert error.headers["code"] == "unknown-delivery"
    assert live(desk) == [1]


def test_a_late_acknowledgement_of_a_transient_message(desk) -> None:
    """
    In its own term it settles it; of another term it is gone for certain, which is success.
    """
    client = desk.connect()
    client.subscribe()
    client.ask("SEND", b"x", destination="/queue/orders")
    client.leave()
    client = desk.connect()
    assert client.ask("ACK", id="ID:c0ffee-1-t1.1", receipt="r")[0].command == "RECEIPT"
    client.subscribe()
    assert client.bodies() == []
    assert desk.broker.flow.memory_bytes == 0
    assert client.refusal("ACK", id="ID:c0ffee-1-t1.1").headers["code"] == "unknown-delivery"
    desk.fail_over()
    client = desk.connect()
    client.subscribe()
    assert client.ask("SEND", b"y", destination="/queue/orders")[0].body == b"y"
    assert client.ask("ACK", id="ID:c0ffee-1-t1.1", receipt="r")[0].command == "RECEIPT"
    assert desk.broker.flow.memory_bytes > 0


def test_rejected_messages_fill_batches_of_their_own(new_desk) -> None:
    """
    A few bytes of NACK move a large message: four in one read made one entry of 240 MB.
    """
    desk = new_desk(BrokerSettings(batch_bytes_max=1500))
    client = desk.connect()
    client.subscribe("/queue/orders")
    for _ in range(4):
        client.send(b"x" * 1000)
        desk.turn()
    names = [frame.headers["ack"] for frame in client.frames()]
    entries = len(desk.log)
    client.raw(b"".join(b"NACK\nid:%b\n\n\0" % name.encode() for name in names))
    desk.turn()
    assert len(desk.log) == entries + 4
    client.subscribe("/queue/ActiveMQ.DLQ", id="dead")
    desk.turn()
    assert len(client.frames()) == 4


def test_a_late_rejection_is_refused(desk) -> None:
    """
    There is no delivery that could go to the dead-letter queue.
    """
    client = desk.connect()
    filled(desk, client, 1)
    assert client.refusal("NACK", id="ID:c0ffee-1-1").headers["code"] == "unknown-delivery"


# NACK ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("any_level")
def test_nack_moves_to_the_dead_letter_queue(desk) -> None:
    """
    As ActiveMQ: no redelivery; headers and body kept, with where it came from.
    """
    client = desk.connect()
    client.send(b"bad", "/queue/in:here", kind="x")
    client.subscribe("/queue/in:here")
    desk.turn()
    client.frames()
    (receipt,) = client.ask("NACK", id="1-1", receipt="r")
    assert receipt.command == "RECEIPT"
    client.subscribe("/queue/ActiveMQ.DLQ", "d")
    desk.turn()
    (dead,) = client.frames()
    assert dead.body == b"bad"
    assert dead.headers["kind"] == "x"
    assert dead.headers["original-destination"] == "/queue/in:here"
    assert dead.headers["original-message-id"] == "ID:c0ffee-1-1" != dead.headers["message-id"]
    assert dead.headers["dlqDeliveryFailureCause"] == "rejected"
    assert live(desk, "in:here") == []


def test_a_non_persistent_message_is_dropped_when_it_is_rejected(desk) -> None:
    """
    ActiveMQ's default: what may be lost at any time does not fill the dead-letter queue.
    """
    client = desk.connect()
    client.say("SEND", b"volatile", destination="/queue/orders")
    client.subscribe(prefetch_count="1")
    assert client.bodies() == ["volatile"]
    client.send(b"next")
    assert [each.command for each in client.ask("NACK", id="1--1", receipt="r")] == [
        "RECEIPT",
        "MESSAGE",
    ]
    assert "ActiveMQ.DLQ" not in desk.broker.destinations.queue_names()
    assert desk.broker.flow.volatile_bytes == 0
    assert client.refusal("NACK", id="1--1").headers["code"] == "unknown-delivery"


@pytest.mark.usefixtures("any_level")
def test_a_dead_letter_that_is_rejected_again_says_where_from_now(desk) -> None:
    """
    An operator sends it again as it is: the headers are the new ones, each once.
    """
    client = desk.connect()
    for number in (1, 2):
        client.send(
            b"bad",
            f"/queue/{number}",
            original_message_id="ID:old",
            original_destination="/queue/old",
            dlqDeliveryFailureCause="old",
        )
        client.subscribe(f"/queue/{number}", str(number))
    desk.turn()
    client.frames()
    client.ask("NACK", id="2-1")
    client.subscribe("/queue/ActiveMQ.DLQ", "d")
    desk.turn()
    head = client.bytes().partition(b"\n\n")[0]
    lines = [line for line in head.split(b"\n") if line.startswith((b"original", b"dlq"))]
    assert lines == [
        b"original-destination:/queue/2",
        b"original-message-id:ID\\cc0ffee-2-1",
        b"dlqDeliveryFailureCause:rejected",
    ]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_a_dead_letter_is_the_same_at_every_level(new_desk, version, memory_bytes) -> None:
    """
    Byte for byte, whether its lines are stored or made when it is read, from memory or the log.
    """
    seen = []
    for level in (1, 2, MOVES_LEVEL):
        desk = new_desk(BrokerSettings(memory_bytes=memory_bytes))
        desk.broker.state.format_level = level
        worker = desk.connect()
        extra = {"original_message_id": "ID:old", "reply_to": "/queue/r", "own": "a:b\\"}
        worker.send(b"bad", "/queue/in\\:here", timestamp="5", **extra)
        worker.subscribe("/queue/in\\:here")
        desk.turn()
        (rejected,) = worker.frames()
        worker.ask("NACK", id=rejected.headers["ack"])
        reader = desk.connect(version)
        reader.subscribe("/queue/ActiveMQ.DLQ", "d")
        desk.turn()
        seen.append(reader.bytes())
    assert seen[0] == seen[1] == seen[2]
    assert b"dlqDeliveryFailureCause:rejected\n" in seen[0]


def test_nack_is_one_entry(desk) -> None:
    """
    The copy and the removal stand or fall together.
    """
    client = desk.connect()
    filled(desk, client, 1)
    client.subscribe()
    desk.turn()
    client.say("NACK", id="1-1")
    before = len(desk.log)
    desk.seal()
    desk.commit()
    assert len(desk.log) == before + 1
    assert desk.broker.state.live_count() == 1


@pytest.mark.usefixtures("any_level")
def test_the_name_of_a_queue_cannot_break_a_header(desk) -> None:
    """
    A queue's name may hold a line feed: in the dead letter it stays one header.
    """
    client = desk.connect()
    client.send(b"x", "/queue/a\nevil:1\\\rb")
    client.subscribe("/queue/a\nevil:1\\\rb")
    desk.turn()
    client.ask("NACK", id="1-1")
    client.subscribe("/queue/ActiveMQ.DLQ", "d")
    desk.turn()
    dead = client.frames()[-1]
    assert dead.headers["original-destination"] == "/queue/a\nevil:1\\\rb"
    assert "evil" not in dead.headers


@pytest.mark.usefixtures("any_level")
def test_nack_reads_what_is_not_in_memory(desk) -> None:
    """
    Its content is in the log.
    """
    client = desk.connect()
    filled(desk, client, 1)
    client.subscribe()
    desk.turn()
    client.frames()
    queue = desk.broker.queue("orders")
    queue.leadership.flow.forget(queue.cache, [1])
    client.ask("NACK", id="1-1")
    client.subscribe("/queue/ActiveMQ.DLQ", "d")
    assert client.bodies() == ["0"]


def test_nack_of_something_unreadable_is_refused_and_comes_again(desk) -> None:
    """
    Damaged bytes are an answer to this client, not an exception in the loop; nothing is lost.
    """
    client = desk.connect()
    filled(desk, client, 1)
    client.subscribe()
    desk.turn()
    client.frames()
    desk.broker.queue("orders").leadership.flow.forget(desk.broker.queue("orders").cache, [1])
    desk.unreadable = CorruptEntryError("the body checksum is wrong", segment="1", byte=5)
    client.say("NACK", id="1-1", receipt="r")
    (error,) = client.frames()
    assert error.headers["code"] == "refused"
    assert "checksum" in error.headers["message"]
    assert live(desk) == [1]
    desk.unreadable = None
    desk.turn()
    (again,) = client.frames()
    assert (again.headers["ack"], again.headers["redelivered"]) == ("1-1", "true")
    assert client.ask("NACK", id="1-1", receipt="r")[0].command == "RECEIPT"


def test_nack_of_something_purged_makes_no_phantom(desk) -> None:
    """
    There is nothing to keep: the dead-letter queue gets no empty message.
    """
    client = desk.connect()
    client.ask("SEND", b"np", destination="/queue/orders")
    filled(desk, client, 1)
    client.subscribe()
    desk.turn()
    client.frames()
    assert desk.broker.purge("orders", client.session, b"p") == 2
    desk.turn()
    client.frames()
    for key in ("1", "-1"):
        assert client.ask("NACK", id=f"1-{key}", receipt="r")[0].command == "RECEIPT"
    assert "ActiveMQ.DLQ" not in desk.broker.destinations.queue_names()


# Redelivery ---------------------------------------------------------------------------------------


def test_a_new_leader_flags_what_may_have_been_seen(desk) -> None:
    """
    It does not know what was delivered: everything below the mark is flagged, nothing sent after.
    """
    client = desk.connect()
    filled(desk, client, 3)
    client.subscribe(prefetch_count="1")
    desk.turn()
    desk.fail_over()
    client = desk.connect()
    filled(desk, client, 1)
    client.subscribe()
    desk.turn()
    flags = [frame.headers.get("redelivered") for frame in client.frames()]
    assert flags == ["true", "true", "true", None]


def test_bodies_are_read_from_the_log_after_a_failover(desk) -> None:
    """
    Followers keep no contents; what they deliver as leaders is read back.
    """
    client = desk.connect()
    filled(desk, client, 3)
    desk.fail_over()
    assert desk.broker.flow.memory_bytes == 0
    client = desk.connect()
    client.subscribe()
    assert client.bodies() == ["0", "1", "2"]


# Whose word counts --------------------------------------------------------------------------------


def left_with(desk, client, *, queue: str = "orders") -> None:
    """Let a client have the message of a queue and lose its connection."""
    client.subscribe(f"/queue/{queue}")
    assert client.bodies() == ["0"]
    client.leave()
    desk.turn()


@pytest.mark.parametrize("shown", ["client_id", "holdfast_client"])
@pytest.mark.parametrize("is_in_transaction", [False, True])
def test_a_late_word_counts_only_from_the_client_that_had_it(
    desk, shown, is_in_transaction
) -> None:
    """
    Where that client can be known again: a stranger that read the id somewhere settles nothing.
    """
    filled(desk, desk.connect(), 1)
    left_with(desk, desk.connect(**{shown: "mine"}))
    for named in {}, {shown: "yours"}, {"client_id": "shown mine"}:
        stranger = desk.connect(**named)
        extra = {}
        if is_in_transaction:
            stranger.say("BEGIN", transaction="t")
            extra["transaction"] = "t"
        error = stranger.refusal("ACK", id="ID:c0ffee-1-1", **extra)
        assert error.headers["code"] == "unknown-delivery"
        assert "another client" in error.headers["message"]
        assert live(desk) == [1]
        stranger.leave()
    own = desk.connect(**{shown: "mine"})
    assert own.ask("ACK", id="ID:c0ffee-1-1", receipt="r")[0].command == "RECEIPT"
    assert live(desk) == []


def test_a_late_word_counts_while_what_was_had_is_just_being_given_back(new_desk) -> None:
    """
    That takes many steps, and a client may be back before the last: the same rule holds.
    """
    desk = new_desk(BrokerSettings(step_count_max=2))
    client = desk.connect(client_id="mine")
    filled(desk, client, 9)
    client.subscribe()
    desk.turn()
    client.leave()
    code = desk.connect().refusal("ACK", id="ID:c0ffee-1-9").headers["code"]
    assert code == "unknown-delivery"


def test_what_a_transaction_gives_back_is_still_its_clients(desk) -> None:
    """
    Acknowledged in a transaction that its connection took with it; and late, in one rolled back.
    """
    filled(desk, desk.connect(), 1)
    client = desk.connect(client_id="mine")
    client.subscribe()
    assert client.bodies() == ["0"]
    client.say("BEGIN", transaction="t")
    client.say("ACK", id="1-1", transaction="t")
    client.leave()
    desk.turn()
    client = desk.connect(client_id="mine")
    client.say("BEGIN", transaction="t")
    client.say("ACK", id="ID:c0ffee-1-1", transaction="t")
    client.ask("ABORT", transaction="t")
    assert desk.connect().refusal("ACK", id="ID:c0ffee-1-1").headers["code"] == "unknown-delivery"
    assert client.ask("ACK", id="ID:c0ffee-1-1", receipt="r")[0].command == "RECEIPT"


@pytest.mark.parametrize("last", [{}, {"client_id": "last"}])
def test_the_last_one_who_had_it_counts(desk, last) -> None:
    """
    Of those who had it one after the other; what nobody can be known by is anybody's.
    """
    filled(desk, desk.connect(), 1)
    left_with(desk, desk.connect(client_id="first"))
    left_with(desk, desk.connect(**last))
    stranger = desk.connect(client_id="other")
    command = stranger.ask("ACK", id="ID:c0ffee-1-1", receipt="r")[0].command
    assert command == ("ERROR" if last else "RECEIPT")


def test_nothing_is_kept_of_who_had_what_is_settled(desk) -> None:
    """
    Acknowledged, purged, or non-persistent: the note goes with the message.
    """
    client = desk.connect()
    for _ in range(2):
        filled(desk, client, 1)
        client.say("SEND", b"volatile", destination="/queue/orders")
    other = desk.connect(client_id="mine")
    other.subscribe()
    desk.turn()
    other.leave()
    desk.turn()
    queue = desk.broker.queue("orders")
    assert len(queue.custody.had_by) == 4
    client.subscribe()
    desk.turn()
    for frame in client.frames()[:2]:
        client.ask("ACK", id=frame.headers["ack"])
    assert len(queue.custody.had_by) == 2
    desk.broker.purge("orders", client.session, b"p")
    desk.turn()
    assert queue.custody.had_by == {}


def test_under_a_new_leader_any_client_may_have_had_it(desk) -> None:
    """
    It does not know who had what; so the word of whoever comes back first must count.
    """
    filled(desk, desk.connect(), 1)
    left_with(desk, desk.connect(client_id="mine"))
    desk.fail_over()
    client = desk.connect()
    assert client.ask("ACK", id="ID:c0ffee-1-1", receipt="r")[0].command == "RECEIPT"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_a_wrong_subscription_is_an_error(desk, version, command) -> None:
    """
    Of no subscription, or of one on another queue: also for what is settled, or is at hand.
    """
    if version == "1.0" and command == "NACK":
        return
    client = desk.connect(version)
    filled(desk, client, 2)
    filled(desk, client, 1, "b")
    client.subscribe(id="s", prefetch_count="1")
    client.subscribe("/queue/b", "t", prefetch_count="1")
    desk.turn()
    first, other = (frame.headers["message-id"] for frame in client.frames())
    for named in ("wrong", "t"):
        error = client.refusal(command, message_id=first, subscription=named, receipt="r")
        assert error.headers["code"] == "unknown-delivery"
        assert error.headers["receipt-id"] == "r"
    client.ask("ACK", message_id=other, subscription="t")
    error = client.refusal(command, message_id=other, subscription="wrong")
    assert error.headers["code"] == "unknown-delivery"
    assert live(desk) == [1, 2]


@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_a_wrong_subscription_is_an_error_in_1_2_too(desk, command) -> None:
    """
    The id says already which; a header that says otherwise is a mistake of the client.
    """
    client = desk.connect()
    filled(desk, client, 1)
    client.subscribe()
    assert client.bodies() == ["0"]
    for id in ("1-1", "ID:c0ffee-1-1"):
        error = client.refusal(command, id=id, subscription="wrong")
        assert error.headers["code"] == "unknown-delivery"
    assert client.ask("ACK", id="1-1", subscription="s", receipt="r")[0].command == "RECEIPT"
