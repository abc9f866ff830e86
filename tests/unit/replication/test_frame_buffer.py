"""Tests of replication/frame_buffer.py: the same frames, however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RemoteProtocolError
from holdfast.replication.frame_buffer import FrameBuffer
from holdfast.replication.handshake import frame
from holdfast.replication.message_codec import APPEND_REQUEST, REPAIR_RESPONSE


def payloads(buffer: FrameBuffer, data: bytes) -> list[tuple[int, bytes]]:
    return [(kind, held[start:end]) for kind, held, start, end in buffer.feed(data)]


@given(
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=8),
    st.integers(1, 30),
)
def test_frames_come_out_whole_and_in_order(sent: list[tuple[int, bytes]], step: int) -> None:
    """Whole, byte by byte or in any other pieces: what went in comes out once."""
    data = b"".join(frame(kind, payload) for kind, payload in sent)
    buffer = FrameBuffer(1000)

    found = []
    for start in range(0, len(data), step):
        found += payloads(buffer, data[start : start + step])

    assert sent == found


@pytest.mark.parametrize("data", [b"\0\0\0\0\1", (2000).to_bytes(4, "little") + b"\1"])
def test_empty_and_overlong_frames_are_refused(data: bytes) -> None:
    """The length is judged before anything is waited for."""
    with pytest.raises(RemoteProtocolError):
        FrameBuffer(1000).feed(data)


def test_only_what_carries_entries_may_become_longer() -> None:
    """Whatever else a member sends is taken apart in one go: it must not cost the lead."""
    length = (2000).to_bytes(4, "little")
    for kind in range(256):
        buffer = FrameBuffer(1000)
        buffer.bytes_max = 3000
        if kind in {APPEND_REQUEST, REPAIR_RESPONSE}:
            assert not buffer.feed(length + bytes([kind]))
        else:
            with pytest.raises(RemoteProtocolError, match=f"type {kind} with 2,000 bytes"):
                buffer.feed(length + bytes([kind]))


def test_a_big_frame_is_joined_once() -> None:
    """Until the last piece is there the pieces only wait, without being joined again."""
    buffer = FrameBuffer(1 << 20)
    data = frame(7, bytes(100_000))

    for start in range(0, 100_000, 1000):
        assert not buffer.feed(data[start : start + 1000])

    assert 1 == len(buffer.feed(data[100_000:]))


def test_what_is_held_of_a_frame_is_told() -> None:
    """Whoever judges the link wants to know that something is on its way."""
    buffer = FrameBuffer(100)
    assert buffer.held_bytes == 0
    buffer.feed(b"\x05\0\0\0\1ab")
    assert buffer.held_bytes == 7
    buffer.feed(b"cd")
    assert buffer.held_bytes == 0


def test_what_is_under_way_says_what_it_is() -> None:
    """As soon as its header is there; of nothing, and of less than a header, nothing is said."""
    buffer = FrameBuffer(1000)
    kinds = [buffer.held_kind]
    for piece in (b"\x20\0\0", b"\0\7", b"x" * 30, b"x"):
        assert not payloads(buffer, piece) or piece == b"x"
        kinds.append(buffer.held_kind)

    assert [0, 0, 7, 7, 0] == kinds
