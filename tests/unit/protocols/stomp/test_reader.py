"""
The reading half of a connection. What it makes of bytes is tested with the connection.
"""

from __future__ import annotations

import pytest

from holdfast.errors import ForbiddenError
from holdfast.protocols.stomp.frames import Frame, FrameRefused, ProtocolFailed, SendFrame
from holdfast.protocols.stomp.heart_beat import HeartBeats
from holdfast.protocols.stomp.reader import UNJUDGED_BYTES, FrameReader
from holdfast.protocols.stomp.settings import StompSettings

CONNECT = b"CONNECT\naccept-version:1.2\nheart-beat:100,200\n\n\0"


def test_it_reads_by_itself_and_tells_when_the_peer_has_connected() -> None:
    """
    Whoever writes and keeps time is told by the heart-beats that both know.
    """
    settings = StompSettings()
    beats = HeartBeats(settings, opened_at=1.0)
    reader = FrameReader("server", settings, beats)
    assert beats.deadline == 1.0 + settings.connect_timeout_seconds
    reader.receive_data(CONNECT[:20])
    assert reader.unfinished_bytes == 20
    reader.receive_data(CONNECT[20:] + b"SEND\ndestination:/queue/a\n\nx\0")
    connect, sent = reader.events_received()
    assert isinstance(connect, Frame)
    assert isinstance(sent, SendFrame)
    assert (reader.version, reader.peer_heart_beat) == ("1.2", (100, 200))
    assert beats.deadline is None


def test_who_fails_keeps_nothing() -> None:
    """
    Neither of the frame under way, nor of what was decoded before.
    """
    reader = FrameReader("server", StompSettings(), HeartBeats(StompSettings(), opened_at=None))
    reader.receive_data(CONNECT + b"SEND\ndestination:/queue/a\n\nx\0NONSENSE\n\n\0SEND\n")
    assert isinstance(reader.events_received()[-1], ProtocolFailed)
    assert (reader.unfinished_bytes, reader.has_more) == (0, False)
    assert not reader._heads.blocks


@pytest.mark.parametrize("pieces", [1, 1000])
@pytest.mark.parametrize(
    "frame",
    [
        b"SEND\ndestination:/queue/a\nproducer-id:a\0b\n\nx\0",
        b"SUBSCRIBE\ndestination:/topic/a\nid:\0005.7\n\n\0",
        b"SEND\r\ndestination:/queue/a\r\nx:\0\r\n\r\nx\0",
    ],
)
def test_no_header_of_a_client_has_a_nul(frame: bytes, pieces: int) -> None:
    """
    By one the broker tells its own names from clients'; the connection is closed.
    """
    reader = FrameReader("server", StompSettings(), HeartBeats(StompSettings(), opened_at=None))
    reader.receive_data(CONNECT)
    for start in range(0, len(frame), pieces):
        reader.receive_data(frame[start : start + pieces])
    failed = reader.events_received()[-1]
    assert isinstance(failed, ProtocolFailed)
    assert (failed.error.code, str(failed.error)[:5]) == ("bad-header", "a NUL")


@pytest.mark.parametrize("ending", [b"", b"content-length:60000\n"])
def test_a_send_that_is_refused_by_its_head_keeps_nothing_of_its_body(ending: bytes) -> None:
    """
    Its owner is asked once 16 KiB are there; what comes then is passed over, and read behind it.
    """
    reader = FrameReader("server", StompSettings(), HeartBeats(StompSettings(), opened_at=None))
    head = b"SEND\ndestination:/queue/a\nreceipt:r\n" + ending
    reader.receive_data(CONNECT + head + b"\n" + b"x" * (UNJUDGED_BYTES - 1))
    assert reader.unjudged is None, "small ones are judged once they are whole"
    reader.receive_data(b"x")
    frame, reader.unjudged = reader.unjudged, None
    assert isinstance(frame, SendFrame)
    reader.receive_data(b"x" * 10_000)
    assert reader.unjudged is None, "asked once"
    assert reader.unfinished_bytes == UNJUDGED_BYTES + 10_000
    error = ForbiddenError("not there")
    reader.refuse(frame, error)
    left = 60_000 - UNJUDGED_BYTES - 10_000
    for _ in range(10):
        reader.receive_data(b"y" * (left // 10))
        assert reader.unfinished_bytes == 0
    reader.receive_data(b"y" * (left % 10) + b"\0" + head + b"\n" + b"z" * 60_000 + b"\0")
    _, refused, sent = reader.events_received()
    assert refused == FrameRefused(error, {"destination": "/queue/a"} | length_of(ending), b"r")
    assert isinstance(sent, SendFrame)
    assert sent.body == b"z" * 60_000
    reader.refuse(sent, error)
    assert not reader.events_received(), "it has come whole: there is nothing to be refused"


def length_of(line: bytes) -> dict[str, str]:
    return {"content-length": "60000"} if line else {}
