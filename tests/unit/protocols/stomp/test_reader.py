"""
The reading half of a connection. What it makes of bytes is tested with the connection.
"""

from __future__ import annotations

import pytest

from holdfast.protocols.stomp.frames import Frame, ProtocolFailed, SendFrame
from holdfast.protocols.stomp.heart_beat import HeartBeats
from holdfast.protocols.stomp.reader import FrameReader
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
