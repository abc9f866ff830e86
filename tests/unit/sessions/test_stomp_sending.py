"""
What the headers of a SEND come to, and when they are looked at again.
"""

from __future__ import annotations

import pytest

from holdfast.errors import RefusedError
from holdfast.model.facts import Attributes, MessageFacts
from holdfast.model.format_level import GROUPS_LEVEL
from holdfast.model.groups import group_hash
from holdfast.protocols.stomp.frames import HeaderBlock, SendFrame
from holdfast.sessions.stomp_sending import resolve
from tests.unit.sessions.guarded import Guarded


def frame(lines: bytes = b"", **headers: str) -> SendFrame:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SendFrame(HeaderBlock(named, lines), None, None, b"x")


def test_the_same_headers_are_worked_out_once(desk) -> None:
    """
    Unless they have a lifetime: that may be over by the next message.
    """
    session = desk.connect().session
    sent = frame(destination="/queue/q", persistent="true")
    target = resolve(session, sent, is_copy=False)
    assert sent.block.memo is target
    assert (target.persistent, target.transaction, target.producer_id) == (True, None, None)
    mortal = frame(destination="/queue/q", expires="99999999999999")
    resolve(session, mortal, is_copy=False)
    assert mortal.block.memo is None
    resolve(session, mortal, is_copy=True)  # An affair of another broker.
    assert mortal.block.memo is not None


def test_what_is_temporary_does_not_last(desk) -> None:
    """
    Whatever the header says; nor does a topic.
    """
    session = desk.connect().session
    for name in ("/temp-queue/a", "/topic/t"):
        sent = frame(destination=name, persistent="true", producer_id="p")
        target = resolve(session, sent, is_copy=False)
        assert not target.persistent
        assert target.producer_id is None


def test_others_see_a_temporary_reply_under_its_full_name(desk) -> None:
    """
    They could not answer to the short one.
    """
    session = desk.connect().session
    lines = b"a:1\nreply-to:/temp-queue/r\n"
    sent = frame(lines, destination="/queue/q", reply_to="/temp-queue/r")
    target = resolve(session, sent, is_copy=False)
    full = f"reply-to:/remote-temp-queue/{session.id}.r".encode()
    assert target.lines == b"a:1\n" + full + b"\n"


def test_a_message_of_a_group_has_that_as_a_fact(desk) -> None:
    """
    Of a queue, where all nodes know groups: also behind the record that says so, not applied yet.
    """
    session = desk.connect().session
    desk.broker.receipts.format_level = GROUPS_LEVEL
    sent = frame(destination="/queue/q", JMSXGroupID="a")
    target = resolve(session, sent, is_copy=False)
    assert target.facts == MessageFacts(attributes=Attributes(group_hash=group_hash("a")))
    assert sent.block.memo is target
    on_topic = frame(destination="/topic/t", JMSXGroupID="a")
    assert resolve(session, on_topic, is_copy=False).facts is None


def test_a_group_that_not_all_nodes_know_is_left_out_until_they_do(desk) -> None:
    """
    As the nodes of before do; the operator is told, and the same headers are looked at again.
    """
    session = desk.connect().session
    sent = frame(destination="/queue/q", JMSXGroupID="a")
    assert resolve(session, sent, is_copy=False).facts is None
    assert sent.block.memo is None
    assert session.context.refusals.by_code["ignored-group"] == 1
    desk.broker.receipts.format_level = GROUPS_LEVEL
    assert resolve(session, sent, is_copy=False).facts is not None


def test_a_number_in_a_group_that_is_none_refuses_its_message_before_a_queue_is_made(desk) -> None:
    """
    But a copy of what another broker took is no place to find fault.
    """
    session = desk.connect().session
    sent = frame(destination="/queue/fresh", JMSXGroupID="a", JMSXGroupSeq="x")
    with pytest.raises(RefusedError, match="JMSXGroupSeq"):
        resolve(session, sent, is_copy=False)
    assert not desk.broker.destinations.has_queue("fresh")
    resolve(session, sent, is_copy=True)


def begun(client, size: int, destination: str = "/queue/a", **headers: str) -> None:
    """Send the head of a large message and so much of its body."""
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    head = f"SEND\ndestination:{destination}\nreceipt:r\n{lines}content-length:100000\n\n"
    client.raw(head.encode() + b"x" * size)


def test_who_may_not_send_is_refused_before_the_body_is_there(desk) -> None:
    """
    Else whoever may send nowhere holds memory by bodies that nobody will ever take. The answer
    comes at the frame's end, and a transaction that it was part of fails, as with any other.
    """
    guarded = Guarded(desk)
    guarded.add("ann", ["sales"])
    guarded.grant("sales", "write,admin", "queue://b")
    ann = guarded.connect("ann")
    ann.ask("BEGIN", transaction="t")
    begun(ann, 20_000, transaction="t")
    assert ann.session.unfinished_bytes == 0
    guarded.grant("sales", "write,admin", "queue://a")  # Too late for this one.
    ann.raw(b"x" * 80_000 + b"\0")
    (refused,) = ann.frames()
    assert (refused.command, refused.headers["code"]) == ("ERROR", "forbidden")
    assert refused.headers["receipt-id"] == "r"
    (failed,) = ann.ask("COMMIT", transaction="t", receipt="c")
    assert failed.command == "ERROR"
    begun(ann, 20_000)
    assert ann.session.unfinished_bytes == 20_000
    ann.raw(b"x" * 80_000 + b"\0")
    desk.turn()
    assert [it.command for it in ann.frames()] == ["RECEIPT"]
    begun(ann, 20_000)
    guarded.grant("sales", "-", "queue://a")
    ann.raw(b"x" * 80_000 + b"\0")
    (late,) = ann.frames()
    assert late.headers["code"] == "forbidden", "it is judged at its end as well"


def test_a_destination_that_makes_no_sense_keeps_no_body(desk) -> None:
    """A question to the broker is looked at once it is whole: it says more than where it goes."""
    client = desk.connect()
    begun(client, 20_000, "/queue/")
    assert client.session.unfinished_bytes == 0
    client.raw(b"x" * 80_000 + b"\0")
    (refused,) = client.frames()
    assert (refused.headers["code"], refused.headers["receipt-id"]) == ("destination", "r")
    begun(client, 20_000, "/queue/ActiveMQ.Statistics.Nothing")
    assert client.session.unfinished_bytes == 20_000
    client.raw(b"x" * 80_000 + b"\0")
    (refused,) = client.frames()
    assert refused.command == "ERROR"
    assert not client.session.is_closing
