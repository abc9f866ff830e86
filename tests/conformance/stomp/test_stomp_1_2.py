"""
The sentences of the STOMP 1.2 specification that a codec can keep, one test each.

Test names begin with the section. Bytes are written out as the specification writes them, with no
function of ours to build them, so that a mistake shared by encoder and parser is seen.
"""

from __future__ import annotations

import pytest

from holdfast.errors import RemoteProtocolError
from holdfast.protocols.stomp.codec import encode_frame, encode_receipt
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    ProtocolFailed,
    SendFrame,
)
from holdfast.protocols.stomp.heart_beat import HeartBeat
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import Role

CONNECT = b"CONNECT\naccept-version:1.2\nhost:stomp.github.org\n\n\x00"
CONNECTED = b"CONNECTED\nversion:1.2\n\n\x00"
STRICT = StompSettings(is_strict=True)


def events_of(
    data: bytes, role: Role = "server", settings: StompSettings | None = None
) -> list[Event]:
    """The events behind the first frame of an established connection."""
    connection = StompConnection(role, settings or STRICT)
    connection.receive_data((CONNECT if role == "server" else CONNECTED) + data)
    return connection.events_received()[1:]


def only_frame(data: bytes, role: Role = "server") -> Frame:
    """The one frame of this data."""
    (event,) = events_of(data, role)
    assert isinstance(event, Frame)
    return event


def only_send(data: bytes) -> SendFrame:
    """The one SEND frame of this data."""
    (event,) = events_of(data)
    assert isinstance(event, SendFrame)
    return event


def failure_code(data: bytes, role: Role = "server", settings: StompSettings | None = None) -> str:
    """The code of the failure that this data comes to."""
    event = events_of(data, role, settings)[-1]
    assert isinstance(event, ProtocolFailed)
    return event.error.code


# STOMP Frames


def test_frames_have_command_headers_and_body() -> None:
    """
    A frame is a command, headers, a blank line, a body and a NUL.
    """
    frame = only_send(b"SEND\nheader1:value1\ndestination:/queue/a\n\nBody\x00")

    assert frame.block.headers == {"header1": "value1", "destination": "/queue/a"}
    assert frame.body == b"Body"


def test_frames_may_be_followed_by_newlines() -> None:
    """
    The NUL octet can be optionally followed by multiple EOLs.
    """
    assert (
        len(events_of(b"BEGIN\ntransaction:1\n\n\x00\n\r\n\n\nABORT\ntransaction:1\n\n\x00\n")) == 2
    )


@pytest.mark.parametrize("command", [b"send", b"Send", b"SENDS", b" SEND", b"SEND "])
def test_frames_commands_are_case_sensitive(command: bytes) -> None:
    """
    All commands and header names are case sensitive.
    """
    assert failure_code(command + b"\ndestination:/queue/a\n\n\x00") == "unknown-command"


def test_frames_header_names_are_case_sensitive() -> None:
    """
    `Destination` is not `destination`.
    """
    assert failure_code(b"SEND\nDestination:/queue/a\n\n\x00") == "missing-header"


# Value Encoding


@pytest.mark.parametrize(
    ("wire", "value"),
    [(b"\\r", "\r"), (b"\\n", "\n"), (b"\\c", ":"), (b"\\\\", "\\"), (b"\\\\n", "\\n")],
)
def test_value_encoding_decodes_the_four_escapes(wire: bytes, value: str) -> None:
    """
    These transformations must be applied to names and values.
    """
    frame = only_send(b"SEND\ndestination:/q\nk" + wire + b":v" + wire + b"\n\n\x00")

    assert frame.block.headers["k" + value] == "v" + value


def test_value_encoding_applies_the_reverse_when_encoding() -> None:
    """
    Conversely when encoding, the reverse transformation must be applied.
    """
    wire = encode_frame("RECEIPT", [("receipt-id", "\r\n:\\")], b"", "1.2")

    assert wire == b"RECEIPT\nreceipt-id:\\r\\n\\c\\\\\n\n\x00"


@pytest.mark.parametrize("escape", [b"\\t", b"\\N", b"\\0", b"\\"])
def test_value_encoding_undefined_escapes_are_fatal(escape: bytes) -> None:
    """
    Undefined escape sequences must be treated as a fatal protocol error, in any header.
    """
    assert failure_code(b"SEND\ndestination:/q\nx:" + escape + b"\n\n\x00") == "bad-escape"
    assert failure_code(b"SEND\ndestination:/q\nreceipt:" + escape + b"\n\n\x00") == "bad-escape"
    assert failure_code(b"ACK\nid:" + escape + b"\n\n\x00") == "bad-escape"
    assert failure_code(b"BEGIN\ntransaction:" + escape + b"\n\n\x00") == "bad-escape"


def test_value_encoding_does_not_touch_connect_frames() -> None:
    """
    CONNECT and CONNECTED do not escape, to remain compatible with STOMP 1.0.
    """
    connection = StompConnection("server")
    connection.receive_data(b"CONNECT\naccept-version:1.2\nhost:h\npasscode:a\\nb:c\\t\n\n\x00")
    (event,) = connection.events_received()

    assert isinstance(event, Frame)
    assert event.headers["passcode"] == "a\\nb:c\\t"
    wire = encode_frame("CONNECTED", [("version", "1.2"), ("session", "a:b\\c")], b"", "1.2")
    assert wire == b"CONNECTED\nversion:1.2\nsession:a:b\\c\n\n\x00"


def test_value_encoding_is_utf_8() -> None:
    """
    Commands and headers are encoded in UTF-8.
    """
    frame = only_send("SEND\ndestination:/queue/Ærø\n\n\x00".encode())

    assert frame.block.headers["destination"] == "/queue/Ærø"
    assert failure_code(b"SEND\ndestination:\xff\xfe\n\n\x00") == "bad-header"


def test_value_encoding_never_trims() -> None:
    """
    Clients and servers must never trim or pad headers with spaces.
    """
    frame = only_send(b"SEND\ndestination: /queue/a \n padded : x \n\n\x00")

    assert frame.block.headers == {"destination": " /queue/a ", " padded ": " x "}


# Body


@pytest.mark.parametrize(
    "head",
    [
        *(b"SUBSCRIBE\nid:0\ndestination:/q\n", b"UNSUBSCRIBE\nid:0\n", b"DISCONNECT\n"),
        *(b"ACK\nid:1\n", b"NACK\nid:1\n"),
        *(b"BEGIN\ntransaction:1\n", b"COMMIT\ntransaction:1\n", b"ABORT\ntransaction:1\n"),
    ],
)
def test_body_only_of_send_message_and_error(head: bytes) -> None:
    """
    All other frames must not have a body.
    """
    assert failure_code(head + b"\nbody\x00") == "body-not-allowed"
    assert failure_code(head + b"content-length:4\n\nbody\x00") == "body-not-allowed"
    assert len(events_of(head + b"content-length:0\n\n\x00")) == 1


def test_body_of_server_frames() -> None:
    """
    MESSAGE and ERROR may have a body, RECEIPT not.
    """
    message = b"MESSAGE\ndestination:/q\nmessage-id:1\nsubscription:0\n\nhello\x00"

    assert only_frame(message, "client").body == b"hello"
    assert only_frame(b"ERROR\nmessage:no\n\nwhy\x00", "client").body == b"why"
    assert failure_code(b"RECEIPT\nreceipt-id:1\n\nx\x00", "client") == "body-not-allowed"


# Standard Headers: content-length, receipt


def test_content_length_lets_the_body_hold_nuls() -> None:
    """
    The number of octets is read whether or not there are NULs among them.
    """
    assert only_send(b"SEND\ndestination:/q\ncontent-length:3\n\na\x00b\x00").body == b"a\x00b"


def test_content_length_missing_ends_the_body_at_the_first_nul() -> None:
    """
    Without it the first NUL marks the end of the frame.
    """
    assert only_send(b"SEND\ndestination:/q\n\nab\x00\n").body == b"ab"


@pytest.mark.parametrize("length", [b"2", b"4"])
def test_content_length_must_be_right(length: bytes) -> None:
    """
    The frame still needs to be terminated with a NUL.
    """
    wire = b"SEND\ndestination:/q\ncontent-length:" + length + b"\n\nabc\x00X"

    assert failure_code(wire) == "bad-content-length"


@pytest.mark.parametrize(
    "frame",
    [
        *(b"SEND\ndestination:/q\n", b"SUBSCRIBE\nid:0\ndestination:/q\n", b"UNSUBSCRIBE\nid:0\n"),
        *(b"ACK\nid:1\n", b"NACK\nid:1\n", b"BEGIN\ntransaction:1\n", b"COMMIT\ntransaction:1\n"),
        *(b"ABORT\ntransaction:1\n", b"DISCONNECT\n"),
    ],
)
def test_receipt_on_any_client_frame(frame: bytes) -> None:
    """
    Any client frame other than CONNECT may ask for a receipt; its value goes back unchanged.
    """
    (event,) = events_of(frame + b"receipt:message\\c12345\n\n\x00")

    assert isinstance(event, SendFrame | AcknowledgeFrame | Frame)
    assert event.receipt == b"message\\c12345"
    assert encode_receipt(event.receipt) == b"RECEIPT\nreceipt-id:message\\c12345\n\n\x00"


# Repeated Header Entries


def test_repeated_header_entries_first_wins() -> None:
    """
    Only the first header entry should be used.
    """
    wire = b"MESSAGE\ndestination:/q\nmessage-id:1\nsubscription:0\nfoo:World\nfoo:Hello\n\n\x00"

    assert only_frame(wire, "client").headers["foo"] == "World"
    send = only_send(b"SEND\ndestination:/a\ndestination:/b\nreceipt:1\nreceipt:2\n\n\x00")
    assert send.block.headers == {"destination": "/a"}
    assert send.receipt == b"1"


# Size Limits


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (b"SEND\n" + b"a:b\n" * 4, "too-many-headers"),
        (b"SEND\nlong:" + b"x" * 26, "header-too-long"),
        (b"SEND\ndestination:/q\ncontent-length:11\n\n", "body-too-large"),
        (b"SEND\ndestination:/q\n\n" + b"x" * 11, "body-too-large"),
    ],
)
def test_size_limits_are_kept(wire: bytes, code: str) -> None:
    """
    Number of headers, length of header lines and size of a body, before the frame is complete.
    """
    settings = StompSettings(header_count_max=3, header_line_bytes_max=30, body_bytes_max=10)

    assert failure_code(wire, settings=settings) == code


# CONNECT or STOMP Frame


@pytest.mark.parametrize("command", [b"CONNECT", b"STOMP"])
def test_connect_and_stomp_are_the_same(command: bytes) -> None:
    """
    Servers must handle a STOMP frame in the same manner as a CONNECT frame.
    """
    connection = StompConnection("server")
    connection.receive_data(command + b"\naccept-version:1.2\nhost:h\n\n\x00")

    (event,) = connection.events_received()
    assert isinstance(event, Frame)
    assert (event.command, connection.version) == ("CONNECT", "1.2")


def test_connect_comes_first_and_once() -> None:
    """
    No frame before CONNECT, no second CONNECT.
    """
    connection = StompConnection("server")
    connection.receive_data(b"BEGIN\ntransaction:1\n\n\x00")
    (event,) = connection.events_received()

    assert isinstance(event, ProtocolFailed)
    assert event.error.code == "not-connected"
    assert failure_code(CONNECT) == "already-connected"


# Protocol Negotiation


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (b"", "1.0"),
        (b"accept-version:1.0\n", "1.0"),
        (b"accept-version:1.0,1.1,2.0\n", "1.1"),
        (b"accept-version:1.2,1.1,1.0\n", "1.2"),
    ],
)
def test_protocol_negotiation_takes_the_highest_common_version(line: bytes, version: str) -> None:
    """
    A missing header means that the client only supports 1.0.
    """
    connection = StompConnection("server")
    connection.receive_data(b"CONNECT\n" + line + b"host:h\n\n\x00")

    assert connection.version == version


def test_protocol_negotiation_without_common_version_fails() -> None:
    """
    The error says which versions there are, for the ERROR frame.
    """
    connection = StompConnection("server")
    connection.receive_data(b"CONNECT\naccept-version:2.1\nhost:h\n\n\x00")
    (event,) = connection.events_received()

    assert isinstance(event, ProtocolFailed)
    assert isinstance(event.error, RemoteProtocolError)
    assert event.error.code == "version"
    assert "1.0, 1.1, 1.2" in str(event.error)


# Heart-beating


def test_heart_beating_is_any_octet_and_any_eol() -> None:
    """
    Any new data is a beat; a lone EOL is one, and no frame.
    """
    assert events_of(b"\n\n\r\n\n") == []


def test_heart_beating_uses_the_larger_interval_with_tolerance() -> None:
    """
    MAX(cx, sy) for beats from the client, MAX(sx, cy) for beats from the server; the receiver
    takes an error margin into account.
    """
    connection = StompConnection("server")
    connection.receive_data(b"CONNECT\naccept-version:1.2\nheart-beat:1000,4000\n\n\x00")
    connection.negotiate_heart_beats((2000, 3000), connection.peer_heart_beat)
    connection.note_received(0.0)
    connection.note_sent(0.0)

    assert connection.handle_deadline(4.0) is HeartBeat.SEND
    connection.note_sent(4.0)
    assert connection.handle_deadline(4.4) is HeartBeat.NOTHING
    assert connection.handle_deadline(4.5) is HeartBeat.PEER_DEAD


# Client Frames, Server Frames: mandatory headers


@pytest.mark.parametrize(
    "wire",
    [
        *(b"SEND\n\n\x00", b"SUBSCRIBE\nid:0\n\n\x00", b"SUBSCRIBE\ndestination:/q\n\n\x00"),
        *(b"UNSUBSCRIBE\ndestination:/q\n\n\x00", b"ACK\nmessage-id:1\n\n\x00", b"NACK\n\n\x00"),
        *(b"BEGIN\n\n\x00", b"COMMIT\n\n\x00", b"ABORT\n\n\x00"),
    ],
)
def test_client_frames_need_their_headers(wire: bytes) -> None:
    """
    A required header that is missing is an error.
    """
    assert failure_code(wire) == "missing-header"


@pytest.mark.parametrize(
    "wire",
    [
        b"MESSAGE\nmessage-id:1\nsubscription:0\n\n\x00",
        b"MESSAGE\ndestination:/q\nsubscription:0\n\n\x00",
        b"MESSAGE\ndestination:/q\nmessage-id:1\n\n\x00",
        b"RECEIPT\n\n\x00",
    ],
)
def test_server_frames_need_their_headers(wire: bytes) -> None:
    """
    MESSAGE has destination, message-id and subscription; RECEIPT has receipt-id.
    """
    assert failure_code(wire, "client") == "missing-header"


def test_client_frames_after_disconnect_are_not_read() -> None:
    """
    Clients must not send any more frames after the DISCONNECT frame is sent.
    """
    events = events_of(b"DISCONNECT\nreceipt:77\n\n\x00BEGIN\ntransaction:1\n\n\x00")

    assert [str(event) for event in events] == ["DISCONNECT (receipt) [0 bytes]"]


# Augmented BNF


@pytest.mark.parametrize("eol", [b"\n", b"\r\n"])
def test_augmented_bnf_lines_end_with_lf_or_cr_lf(eol: bytes) -> None:
    """
    EOL = [CR] LF, after the command, after every header, and for the blank line.
    """
    wire = eol.join([b"SEND", b"destination:/q", b"a:b", b"", b"body\r\n\x00"]) + eol

    frame = only_send(wire)
    assert frame.block.headers == {"destination": "/q", "a": "b"}
    assert frame.body == b"body\r\n"


@pytest.mark.parametrize("line", [b"no colon", b":no name"])
def test_augmented_bnf_a_header_is_name_colon_value(line: bytes) -> None:
    """
    The name has at least one octet; the value may be empty.
    """
    assert failure_code(b"SEND\ndestination:/q\n" + line + b"\n\n\x00") == "bad-header"
    empty = only_send(b"SEND\ndestination:/q\nempty:\n\n\x00")
    assert empty.block.headers["empty"] == ""
