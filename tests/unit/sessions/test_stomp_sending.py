"""
What the headers of a SEND come to, and when they are looked at again.
"""

from __future__ import annotations

from holdfast.protocols.stomp.frames import HeaderBlock, SendFrame
from holdfast.sessions.stomp_sending import resolve


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
