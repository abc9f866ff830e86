"""
What the specification calls an error and ActiveMQ takes: clients that rely on it just connect.

Each case is also run with strict settings, under which the connection ends, as the specification
has it: so each of these shows that the setting makes the difference and nothing else.
"""

from __future__ import annotations

import pytest

from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    FrameRefused,
    ProtocolFailed,
    SendFrame,
)
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import VERSIONS, Version

LENIENT = StompSettings()
STRICT = StompSettings(is_strict=True)
NEXT = b"BEGIN\ntransaction:next\n\n\x00"


def connected(version: Version, settings: StompSettings = LENIENT) -> StompConnection:
    """A connection of this version with nothing left to take."""
    connection = StompConnection("server", settings)
    connection.receive_data(f"CONNECT\naccept-version:{version}\nhost:h\n\n\x00".encode())
    assert connection.version == version
    connection.events_received()
    return connection


def events_of(version: Version, data: bytes) -> list[Event]:
    """What data comes to that is followed by one more frame: the same in one piece and in many."""
    whole = connected(version)
    whole.receive_data(data + NEXT)
    events = whole.events_received()
    pieces = connected(version)
    for at in range(len(data + NEXT)):
        pieces.receive_data((data + NEXT)[at : at + 1])
    assert [str(event) for event in events] == [str(event) for event in pieces.events_received()]
    last = events.pop()
    assert isinstance(last, Frame), last
    assert last.headers == {"transaction": "next"}
    return events


def strict_code(version: Version, data: bytes) -> str:
    """The code with which a strict connection ends."""
    connection = connected(version, STRICT)
    connection.receive_data(data)
    event = connection.events_received()[-1]
    assert isinstance(event, ProtocolFailed)
    return event.error.code


# Between the empty line and the NUL ---------------------------------------------------------------

BODILESS = [
    b"SUBSCRIBE\nid:1\ndestination:/queue/a\n",
    b"UNSUBSCRIBE\nid:1\n",
    b"BEGIN\ntransaction:t\n",
    b"COMMIT\ntransaction:t\n",
    b"ABORT\ntransaction:t\n",
    b"ACK\nid:1-1\n",
    b"ACK\nid:1-1\nreceipt:r\n",
    b"NACK\nid:1-1\n",
]


@pytest.mark.parametrize("body", [b"\n", b"\r\n", b"\n\n\n", b"something"])
@pytest.mark.parametrize("head", BODILESS)
def test_what_stands_where_no_body_may_be_is_passed_over(head: bytes, body: bytes) -> None:
    """
    Many clients end every frame with a line feed and a NUL.
    """
    (event,) = events_of("1.2", head + b"\n" + body + b"\x00")

    assert isinstance(event, Frame | AcknowledgeFrame)
    assert str(event) == str(events_of("1.2", head + b"\n\x00")[0])
    assert strict_code("1.2", head + b"\n" + body + b"\x00") == "body-not-allowed"


@pytest.mark.parametrize("line", [b"", b"content-length:7\n"])
def test_connect_and_disconnect_may_end_with_a_line_feed(line: bytes) -> None:
    """
    The first frame of a connection, and the last.
    """
    connection = StompConnection("server", LENIENT)
    connection.receive_data(b"CONNECT\naccept-version:1.2\n" + line + b"\n\n\x00\n")
    connection.receive_data(b"DISCONNECT\nreceipt:1\n" + line + b"\n\n\x00")

    assert [str(event).split()[0] for event in connection.events_received()] == [
        "CONNECT",
        "DISCONNECT",
    ]


@pytest.mark.parametrize("length", [b"0", b"1", b"5", b"500", b"x", b"-1"])
@pytest.mark.parametrize("head", BODILESS)
def test_a_content_length_where_no_body_may_be_means_nothing(head: bytes, length: bytes) -> None:
    """
    The frame ends at its NUL: what comes behind it is not swallowed.
    """
    (event,) = events_of("1.2", head + b"content-length:" + length + b"\n\n\x00")

    assert isinstance(event, Frame | AcknowledgeFrame)
    if length != b"0":
        assert strict_code("1.2", head + b"content-length:" + length + b"\n\n\x00") in {
            "body-not-allowed",
            "bad-content-length",
        }


# Headers ------------------------------------------------------------------------------------------


def test_an_undefined_escape_is_what_it_looks_like() -> None:
    """
    In 1.1 `path:C:\\temp` comes through as it was meant; what is defined is decoded.

    In 1.2 it stays fatal, as its specification demands.
    """
    data = b"SEND\ndestination:/queue/a\npath:C:\\temp\\\\x\\cy\\\nreceipt:\\z\n\nbody\x00"
    (event,) = events_of("1.1", data)

    assert isinstance(event, SendFrame)
    assert event.block.headers["path"] == "C:\\temp\\x:y\\"
    assert event.block.lines == b"path:C\\c\\\\temp\\\\x\\cy\\\\\n"
    assert event.receipt == b"\\z"
    assert strict_code("1.1", data) == "bad-escape"
    newer = connected("1.2")
    newer.receive_data(data)
    (failure,) = newer.events_received()
    assert isinstance(failure, ProtocolFailed)
    assert failure.error.code == "bad-escape"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_line_without_a_colon_is_a_header_without_a_value(version: Version) -> None:
    """
    And of a header that stands there twice the first still counts.
    """
    data = b"SEND\ndestination:/queue/a\nflag\nkind:1\nkind\n\nbody\x00"
    (event,) = events_of(version, data)

    assert isinstance(event, SendFrame)
    assert event.block.headers == {"destination": "/queue/a", "flag": "", "kind": "1"}
    assert event.body == b"body"
    assert strict_code(version, data) == "bad-header"


@pytest.mark.parametrize("length", [b"5 ", b" 5", b" 5\t"])
def test_a_content_length_may_have_spaces(length: bytes) -> None:
    """
    In every version, though only 1.0 trims all values.
    """
    data = b"SEND\ndestination:/queue/a\ncontent-length:" + length + b"\n\nhe\x00lo\x00"
    (event,) = events_of("1.2", data)

    assert isinstance(event, SendFrame)
    assert event.body == b"he\x00lo"
    assert strict_code("1.2", data) == "bad-content-length"


# Between frames -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [b"\x00", b"\x00\x00\x00", b"\n\x00\r\n\x00\n"])
def test_several_nuls_between_frames_are_passed_over(gap: bytes) -> None:
    """
    Behind frames of every kind, those of the quick paths too.
    """
    send = b"SEND\ndestination:/queue/a\n\nbody\x00"
    begin = b"BEGIN\ntransaction:t\n\n\x00"
    events = events_of("1.2", gap.join([send, send, begin, b"ACK\nid:1\n\n\x00", send, b""]))

    assert len(events) == 5
    assert strict_code("1.2", send + gap + send) == "unknown-command"


# Frames that lack something -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "data", "receipt"),
    [
        ("1.0", b"SEND\nreceipt:r\n\nbody\x00", b"r"),
        ("1.2", b"SEND\n\nbody\x00", None),
        ("1.2", b"SEND\nreceipt:r\ncontent-length:4\n\nb\x00dy\x00", b"r"),
        ("1.2", b"ACK\nreceipt:r\n\n\x00", b"r"),
        ("1.2", b"ACK\nmessage-id:1\nsubscription:1\n\n\x00", None),
        ("1.2", b"NACK\n\n\n\x00", None),
        ("1.1", b"ACK\nmessage-id:1\nreceipt:r\n\n\x00", b"r"),
        ("1.1", b"SUBSCRIBE\ndestination:/queue/a\n\n\x00", None),
        ("1.2", b"SUBSCRIBE\nid:1\ncontent-length:9\n\n\n\x00", None),
        ("1.0", b"UNSUBSCRIBE\n\n\x00", None),
        ("1.2", b"BEGIN\nreceipt:r\n\n\x00", b"r"),
        ("1.2", b"COMMIT\n\n\x00", None),
        ("1.2", b"ABORT\n\n\x00", None),
    ],
)
def test_a_frame_without_a_header_it_needs_is_refused_alone(
    version: Version, data: bytes, receipt: bytes | None
) -> None:
    """
    It is clear where it ends, so the connection lives; the refusal has its receipt.
    """
    (event,) = events_of(version, data)

    assert isinstance(event, FrameRefused)
    assert (event.error.code, event.receipt) == ("missing-header", receipt)
    assert strict_code(version, data) == "missing-header"


def test_a_nack_in_1_0_is_refused_alone() -> None:
    """
    The command is known, only not in this version.
    """
    (event,) = events_of("1.0", b"NACK\nmessage-id:1\nreceipt:r\n\n\x00")

    assert isinstance(event, FrameRefused)
    assert (event.error.code, event.receipt) == ("unknown-command", b"r")


def test_what_a_broker_sends_must_be_whole() -> None:
    """
    Who lets incomplete frames pass is the broker; a client would not know what to do with one.
    """
    connection = StompConnection("client", LENIENT)
    connection.receive_data(b"CONNECTED\nversion:1.2\n\n\x00MESSAGE\ndestination:/q\n\n\x00")

    event = connection.events_received()[-1]
    assert isinstance(event, ProtocolFailed)
    assert event.error.code == "missing-header"
