"""
Where STOMP 1.0 and 1.1 differ from 1.2, as far as a codec can tell.

Test names begin with version and section. A client of an old version gets the old rules, whatever
newer clients get on other connections.
"""

from __future__ import annotations

import pytest

from holdfast.protocols.stomp.codec import encode_frame, encode_lines
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    ProtocolFailed,
    SendFrame,
)
from holdfast.protocols.stomp.settings import StompSettings


def events_of(version: str, data: bytes) -> list[Event]:
    """The events of client frames on a connection of this version."""
    connection = StompConnection("server", StompSettings(is_strict=True))
    line = "" if version == "1.0" else f"accept-version:{version}\n"
    connection.receive_data(f"CONNECT\n{line}host:h\n\n\x00".encode() + data)
    assert connection.version == version
    return connection.events_received()[1:]


def failure_code(version: str, data: bytes) -> str:
    """The code of the failure that this data comes to."""
    event = events_of(version, data)[-1]
    assert isinstance(event, ProtocolFailed)
    return event.error.code


def test_1_0_values_may_be_padded() -> None:
    """
    The examples of 1.0 write `destination: /queue/foo`, and ActiveMQ trims.
    """
    (event,) = events_of("1.0", b"SUBSCRIBE\ndestination: /queue/foo\nack: client\n\n\x00")

    assert isinstance(event, Frame)
    assert event.headers == {"destination": "/queue/foo", "ack": "client"}


def test_1_0_has_no_escapes() -> None:
    """
    A backslash is a backslash, in and out.
    """
    (event,) = events_of("1.0", b"SEND\ndestination:/q\npath:C\\new\\c\n\n\x00")

    assert isinstance(event, SendFrame)
    assert event.block.headers["path"] == "C\\new\\c"
    assert event.block.lines == b"path:C\\\\new\\\\c\n"
    assert encode_lines(event.block.lines, "1.0") == b"path:C\\new\\c\n"
    assert encode_frame("ERROR", [("message", "a:b\\c")], b"", "1.0") == (
        b"ERROR\nmessage:a:b\\c\n\n\x00"
    )


def test_1_0_subscribe_body_is_ignored() -> None:
    """
    SUBSCRIBE: the body of the SUBSCRIBE command is ignored.
    """
    (event,) = events_of("1.0", b"SUBSCRIBE\ndestination:/q\n\nanything\x00")

    assert isinstance(event, Frame)
    assert event.body == b""


def test_1_0_subscribe_and_unsubscribe_need_no_id() -> None:
    """
    UNSUBSCRIBE requires either a destination or an id.
    """
    events = events_of(
        "1.0",
        b"SUBSCRIBE\ndestination:/q\n\n\x00UNSUBSCRIBE\ndestination:/q\n\n\x00"
        b"UNSUBSCRIBE\nid:1\n\n\x00",
    )

    assert [str(event).split()[0] for event in events] == [
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "UNSUBSCRIBE",
    ]
    assert failure_code("1.0", b"UNSUBSCRIBE\n\n\x00") == "missing-header"


def test_1_0_acknowledges_by_message_id() -> None:
    """
    ACK has one required header, message-id; there is no NACK.
    """
    (event,) = events_of("1.0", b"ACK\nmessage-id:m-1\ntransaction:t\n\n\x00")

    assert isinstance(event, AcknowledgeFrame)
    assert event.id == b"m-1"
    assert event.block is not None
    assert event.block.headers == {"message-id": "m-1", "transaction": "t"}
    assert failure_code("1.0", b"ACK\nid:1\n\n\x00") == "missing-header"
    assert failure_code("1.0", b"NACK\nmessage-id:1\n\n\x00") == "unknown-command"


def test_1_0_takes_cr_lf_as_activemq_does() -> None:
    """
    1.0 does not say what a newline is; people type it into telnet.
    """
    (event,) = events_of("1.0", b"BEGIN\r\ntransaction:1\r\n\r\n\x00\r\n")

    assert isinstance(event, Frame)
    assert event.headers == {"transaction": "1"}


@pytest.mark.parametrize(("wire", "value"), [(b"\\n", "\n"), (b"\\c", ":"), (b"\\\\", "\\")])
def test_1_1_value_encoding_has_three_escapes(wire: bytes, value: str) -> None:
    """
    LF, colon and backslash; CR came with 1.2.
    """
    (event,) = events_of("1.1", b"BEGIN\ntransaction:" + wire + b"\n\n\x00")

    assert isinstance(event, Frame)
    assert event.headers["transaction"] == value
    assert failure_code("1.1", b"BEGIN\ntransaction:\\r\n\n\x00") == "bad-escape"
    assert failure_code("1.1", b"BEGIN\ntransaction:\\t\n\n\x00") == "bad-escape"


def test_1_1_cr_is_part_of_the_value() -> None:
    """
    Lines end with LF alone, so a CR before it belongs to the header.
    """
    (event,) = events_of("1.1", b"BEGIN\ntransaction:1\r\n\n\x00")

    assert isinstance(event, Frame)
    assert event.headers["transaction"] == "1\r"
    assert failure_code("1.1", b"BEGIN\ntransaction:1\n\r\n\n\x00") == "bad-header"
    assert failure_code("1.1", b"BEGIN\r\ntransaction:1\n\n\x00") == "unknown-command"


@pytest.mark.parametrize("command", [b"ACK", b"NACK"])
def test_1_1_acknowledges_by_message_id_and_subscription(command: bytes) -> None:
    """
    ACK and NACK have two required headers in 1.1.
    """
    (event,) = events_of("1.1", command + b"\nmessage-id:m\nsubscription:s\n\n\x00")

    assert isinstance(event, AcknowledgeFrame)
    assert (event.id, event.negative) == (b"m", command == b"NACK")
    assert failure_code("1.1", command + b"\nmessage-id:m\n\n\x00") == "missing-header"
    assert failure_code("1.1", command + b"\nid:m\n\n\x00") == "missing-header"


def test_1_1_subscribe_needs_an_id() -> None:
    """
    From 1.1 on SUBSCRIBE and UNSUBSCRIBE name the subscription.
    """
    assert failure_code("1.1", b"SUBSCRIBE\ndestination:/q\n\n\x00") == "missing-header"
    assert failure_code("1.1", b"UNSUBSCRIBE\ndestination:/q\n\n\x00") == "missing-header"
