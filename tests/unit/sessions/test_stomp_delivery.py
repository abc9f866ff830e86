"""
MESSAGE frames byte by byte, and message ids read back.
"""

from __future__ import annotations

import tracemalloc

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.model.records import MessageRecord
from holdfast.sessions.shared_frames import SharedFrames
from holdfast.sessions.stomp_delivery import DeliveryFormat, read_identity
from tests.unit.broker.served import served


def subscription(mode: AcknowledgeMode = AcknowledgeMode.CLIENT) -> Subscription:
    made = Subscription(None, "s:1", mode=mode, prefetch=10, destination="/queue/a:b")  # type: ignore[arg-type]
    made.queue = served(7, "a:b")
    made.ordinal = 3
    return made


def written(form: DeliveryFormat, key: int, message: object, *, redelivered: bool = False) -> bytes:
    out: list[bytes] = []
    form.write(out, key, message, redelivered=redelivered)  # type: ignore[arg-type]
    return b"".join(out)


STORED = MessageRecord(7, 12, b"kind:x\\cy\nprice:1\n", b"body\0", 20)


def test_a_stored_message_in_1_2() -> None:
    """
    In 1.2 stored header lines go out as they are, and the ack header names the delivery.
    """
    form = DeliveryFormat(subscription(), version="1.2", cluster="c", term=4, named=True)
    assert written(form, 12, STORED, redelivered=True) == (
        b"MESSAGE\nsubscription:s\\c1\ndestination:/queue/a\\cb\nmessage-id:ID\\cc-7-12\n"
        b"ack:3-12\nredelivered:true\nJMSXDeliveryCount:2\nkind:x\\cy\nprice:1\nexpires:0\npriority:4\n\nbody\0\0"
    )


def test_a_stored_message_in_1_0() -> None:
    """
    In 1.0 there are no escapes, no ack header, and no subscription header if it was not named.
    """
    form = DeliveryFormat(subscription(), version="1.0", cluster="c", term=4, named=False)
    assert written(form, 12, STORED) == (
        b"MESSAGE\ndestination:/queue/a:b\nmessage-id:ID:c-7-12\nkind:x:y\nprice:1\n"
        b"expires:0\npriority:4\n\nbody\0\0"
    )


def test_there_is_no_ack_header_where_nothing_is_acknowledged() -> None:
    """
    STOMP 1.2, MESSAGE: the ack header is for client and client-individual only.
    """
    automatic = subscription(AcknowledgeMode.AUTO)
    form = DeliveryFormat(automatic, version="1.2", cluster="c", term=4, named=True)
    assert b"\nack:" not in written(form, 12, STORED)


def test_a_transient_message_carries_its_term_in_its_id() -> None:
    """
    Serial numbers start anew with each leader, so the id of a non-persistent message has its term.
    """
    form = DeliveryFormat(subscription(), version="1.1", cluster="c", term=4, named=True)
    message = TransientMessage(-9, b"", b"b", 0)
    assert b"message-id:ID\\cc-7-t4.9\n" in written(form, -9, message)


def test_subscribers_of_a_topic_share_a_frame_only_if_it_is_the_same() -> None:
    """
    A topic message is written once for all subscribers that want the same bytes.
    """
    topic = Topic("t")
    shared = SharedFrames()
    forms = []
    for id, mode in (
        ("s", AcknowledgeMode.AUTO),
        ("s", AcknowledgeMode.AUTO),
        ("other", AcknowledgeMode.AUTO),
        ("s", AcknowledgeMode.CLIENT),
    ):
        made = Subscription(None, id, mode=mode, prefetch=10, destination="/topic/t")  # type: ignore[arg-type]
        made.topic = topic
        form = DeliveryFormat(made, version="1.2", cluster="c", term=1, named=True, shared=shared)
        forms.append(form)
    message = TransientMessage(-1, b"", b"b", 0)
    out: list[bytes] = []
    for form in forms:
        form.write_shared(out, -1, message)
    assert out[0] is out[1]
    assert b"subscription:other\n" in out[2]
    assert b"\nack:0-1\n" not in out[0]
    assert b"\nack:0--1\n" in out[3]


def test_what_waits_for_a_slow_subscriber_is_not_kept_as_others_were_sent_it(desk) -> None:
    """
    Subscribers with ids of their own each left a copy with every message that one did not take.
    """
    slow, *others = (desk.connect() for _ in range(21))
    for number, client in enumerate((slow, *others)):
        client.subscribe("/topic/t", f"s{number}", ack="auto")
    slow.session.room_bytes = 0
    publisher = desk.connect()
    tracemalloc.start()
    try:
        for _ in range(100):
            publisher.send(b"x" * 10_000, "/topic/t")
            desk.turn()
            assert all(len(client.bytes()) > 10_000 for client in others)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert desk.broker.publishing.backlogs.total_bytes > 100 * 10_000
    assert kept_bytes < 3 * 100 * 10_000


@pytest.mark.parametrize("versions", [("1.1", "1.2"), ("1.2", "1.1")])
def test_versions_that_escape_differently_share_no_frame(desk, versions: tuple[str, str]) -> None:
    """
    Of a topic too: 1.1 has no escape for a carriage return, and 1.2 needs one.
    """
    clients = [desk.connect(version) for version in versions]
    for client in clients:
        client.subscribe("/topic/t", "s", ack="auto")
    desk.connect().send(b"x", "/topic/t", note="a\r", path="C:\\r")
    desk.turn()
    for client in clients:
        (frame,) = client.frames()
        assert (frame.headers["note"], frame.headers["path"]) == ("a\r", "C:\\r")


@pytest.mark.parametrize("raw", [b"ID:c-7-12", b"ID\\cc-7-12"])
def test_the_id_of_a_stored_message_is_read_back(raw: bytes) -> None:
    """
    Raw ids come escaped (1.1, 1.2) or not (1.0).
    """
    assert read_identity(raw, "c") == (7, 12, 0)


def test_the_id_of_a_transient_message_is_read_back() -> None:
    """
    Its key is the negative serial number, good in its term only.
    """
    assert read_identity(b"ID:a-b-7-t4.9", "a-b") == (7, -9, 4)


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"x", b"ID:", b"ID:c-1", b"ID:c--1", b"ID:c-1--5", b"ID:c-1-t5", b"ID:c-1-t5."),
        *(b"ID:c-1-5 ", b"ID:c-1-+5", b"ID:c-1-5_0", b"ID:c-x-5", b"ID:c-1-" + b"9" * 5000),
        *(b"ID:d-7-12", b"ID:cc-7-12", b"ID:c-1-7-12", b"\xff\xfe"),
    ],
)
def test_what_is_not_an_id_of_this_cluster_is_refused(raw: bytes) -> None:
    """
    An acknowledgement from another cluster must not settle what has the same numbers here.
    """
    assert read_identity(raw, "c") is None


# What ActiveMQ says, too --------------------------------------------------------------------------


def header_lines(client) -> list[bytes]:
    """The header lines of the next MESSAGE, as they are on the wire."""
    client.desk.turn()
    frame = client.bytes()
    assert frame.startswith(b"MESSAGE\n")
    return frame.partition(b"\n\n")[0].split(b"\n")[1:]


@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
def test_every_message_says_its_priority_and_expiry(desk, destination, persistent) -> None:
    """
    Once each, and `persistent` only where it is; read back from the log too.
    """
    client = desk.connect()
    client.subscribe(destination)
    client.send(b"x", destination, persistent=persistent, priority="4", expires="0", kind="k")
    lines = header_lines(client)
    assert lines.count(b"priority:4") == lines.count(b"expires:0") == 1
    assert sum(line.startswith((b"priority:", b"expires:")) for line in lines) == 2
    assert lines.count(b"persistent:true") == (persistent == "true")
    assert b"persistent:false" not in lines
    assert b"kind:k" in lines


@pytest.mark.parametrize("line", [b"priority:9", b"expires:99", b"timestamp:5"])
def test_what_a_stored_message_says_itself_stays(line) -> None:
    """
    Stored by an earlier version, or with a timestamp of its producer: said once, as it was.
    """
    form = DeliveryFormat(subscription(), version="1.2", cluster="c", term=4, named=True)
    record = MessageRecord(7, 12, b"a:b\n" + line + b"\n", b"body", 4)
    record.stored_at = 8_000
    head = written(form, 12, record).partition(b"\n\n")[0].split(b"\n")
    names = [each.partition(b":")[0] for each in head]
    assert line in head
    assert [names.count(name) for name in (b"priority", b"expires", b"timestamp")] == [1, 1, 1]


def test_a_header_that_only_looks_like_one_of_ours_hides_nothing() -> None:
    """
    `my-priority` is the application's, and the broker's stands beside it.
    """
    form = DeliveryFormat(subscription(), version="1.2", cluster="c", term=4, named=True)
    record = MessageRecord(7, 12, b"my-priority:9\nx-expires:1\n", b"", 0)
    for _ in range(2):
        head = written(form, 12, record).split(b"\n")
        assert {b"my-priority:9", b"x-expires:1", b"priority:4", b"expires:0"} <= set(head)


def test_what_is_known_of_lines_is_bounded() -> None:
    """
    Neither long lines nor many of them are kept.
    """
    known: set[bytes] = set()
    form = DeliveryFormat(
        subscription(), version="1.2", cluster="c", term=4, named=True, known_plain=known
    )
    for number in range(3000):
        lines = b"n:%d\nx:%b\n" % (number, b"y" * (number % 1000))
        written(form, 12, MessageRecord(7, 12, lines, b"", 0))
    assert 0 < len(known) <= 1024
    assert max(map(len, known)) <= 512


def test_a_reply_to_of_ones_own_comes_back_as_it_was_written(desk) -> None:
    """
    ActiveMQ: only the others see it as somebody else's. A queue, a topic, and not one alike.
    """
    client, other = desk.connect(), desk.connect()
    for written_as in ("/temp-queue/answers", "/temp-topic/answers"):
        client.send(b"x", "/topic/asked", reply_to=written_as)
        for each in (client, other):
            each.subscribe("/topic/asked", id=written_as)
        client.send(b"y", "/topic/asked", reply_to=written_as)
        desk.turn()
        assert {frame.headers["reply-to"] for frame in client.frames()} == {written_as}
        kind = written_as.split("/")[1]
        full = f"/remote-{kind}/{client.session.id}.answers"
        assert {frame.headers["reply-to"] for frame in other.frames()} == {full}


def test_a_reply_over_a_queue_of_ones_own(desk) -> None:
    """
    The whole exchange: ask, see the question oneself, answer to what it says, get the answer.
    """
    client = desk.connect()
    client.subscribe("/temp-queue/answers", "answers")
    client.subscribe("/queue/questions", "questions")
    client.send(
        b"?", "/queue/questions", reply_to="/temp-queue/answers", x_reply_to="/temp-queue/a"
    )
    desk.turn()
    (question,) = client.frames()
    client.send(b"!", question.headers["reply-to"])
    desk.turn()
    (answer,) = client.frames()
    assert (answer.body, answer.headers["destination"]) == (b"!", "/temp-queue/answers")


def test_the_destination_of_a_bare_name_is_said_in_full(desk) -> None:
    """
    ActiveMQ: a bare name is a queue, and what comes says so.
    """
    client = desk.connect()
    client.subscribe("orders")
    client.send(b"x", "orders")
    assert b"destination:/queue/orders" in header_lines(client)
