"""
Frames as bytes: read back by our own codec in the broker's role.
"""

from __future__ import annotations

import pytest

from holdfast.client import wire
from holdfast.errors import LocalProtocolError
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import AcknowledgeFrame, Event, Frame, SendFrame


def read_back(*frames: bytes) -> list[Event]:
    broker = StompConnection("server")
    broker.receive_data(wire.control("CONNECT", accept_version="1.2", host="h") + b"".join(frames))
    return broker.events_received()[1:]


def test_a_numbered_send_reads_back() -> None:
    """Destination, headers with awkward characters, number, receipt and body survive."""
    lines = wire.producer_line("p1") + wire.encode_lines({"a:b": "c\nd", "n": 1, "yes": True})
    prefix = wire.send_prefix("/queue/a b", lines, persistent=True)
    body, text_line = wire.encode_body("nul\0 and ü")
    (frame,) = read_back(wire.produced_send(prefix, 7, "r1", text_line, body))
    assert isinstance(frame, SendFrame)
    headers = frame.block.headers
    assert (headers["a:b"], headers["n"], headers["yes"]) == ("c\nd", "1", "true")
    assert (headers["destination"], headers["producer-id"]) == ("/queue/a b", "p1")
    assert headers["content-type"] == "text/plain;charset=utf-8"
    assert (frame.producer_sequence, frame.receipt) == (b"7", b"r1")
    assert frame.body.decode() == "nul\0 and ü"


def test_a_send_in_a_transaction_has_no_number() -> None:
    """The COMMIT has it; bytes carry no content-type."""
    prefix = wire.send_prefix("q", b"", persistent=False)
    (frame,) = read_back(wire.transaction_send(prefix, "t1", "r", b"", b"x"))
    assert isinstance(frame, SendFrame)
    assert frame.producer_sequence is None
    assert frame.block.headers["transaction"] == "t1"
    assert frame.block.headers["persistent"] == "false"
    assert "content-type" not in frame.block.headers


def test_settlements_read_back() -> None:
    """With and without receipt and transaction."""
    frames = read_back(wire.settlement(b"ACK", "d1"), wire.settlement(b"NACK", "ID:2", "r", "t"))
    assert [type(frame) for frame in frames] == [AcknowledgeFrame, AcknowledgeFrame]
    plain, full = frames
    assert plain == AcknowledgeFrame(b"d1", None, None, negative=False)
    assert isinstance(full, AcknowledgeFrame)
    assert (full.negative, full.receipt) == (True, b"r")
    assert full.block is not None
    assert full.block.headers == {"id": "ID:2", "transaction": "t"}


def test_control_frames_read_back() -> None:
    """Underscores of keywords are hyphens on the wire."""
    (frame,) = read_back(wire.control("COMMIT", transaction="t", producer_id="p"))
    assert isinstance(frame, Frame)
    assert frame.headers == {"transaction": "t", "producer-id": "p"}


@pytest.mark.parametrize("name", ["receipt", "destination", "content-length", ""])
def test_reserved_headers_are_refused(name: str) -> None:
    """What the client sets itself cannot be given twice."""
    with pytest.raises(LocalProtocolError, match="arguments"):
        wire.encode_lines({name: "x"})


def test_what_no_broker_takes_is_refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers and bodies beyond the limits would end the connection over there."""
    with pytest.raises(LocalProtocolError, match="headers"):
        wire.encode_lines({"a": "x" * wire.HEADERS_BYTES_MAX})
    monkeypatch.setattr(wire, "MESSAGE_BODY_BYTES_MAX", 10)
    with pytest.raises(LocalProtocolError, match="11 bytes"):
        wire.encode_body(b"x" * 11)


def test_bodies_of_any_kind_are_bytes() -> None:
    """bytearray and memoryview are copied: the caller may go on changing them."""
    given = bytearray(b"abc")
    body, _ = wire.encode_body(given)
    given[0] = 0
    assert body == b"abc"
    assert wire.encode_body(memoryview(b"xy"))[0] == b"xy"
