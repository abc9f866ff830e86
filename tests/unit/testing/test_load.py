"""The load's own reader of frames: it must not misread a broker and so accuse it."""

from __future__ import annotations

import pytest

from holdfast.testing.load import FrameReader

STREAM = (
    b"\n\nCONNECTED\nversion:1.2\n\n\0\n"
    b"MESSAGE\nack:1\nack:2\ncontent-length:7\n\na\0b\n\nc\n\0RECEIPT\nreceipt-id:5\n\n\0"
)
FRAMES = [
    (b"CONNECTED", {b"version": b"1.2"}, b""),
    (b"MESSAGE", {b"ack": b"1", b"content-length": b"7"}, b"a\0b\n\nc\n"),
    (b"RECEIPT", {b"receipt-id": b"5"}, b""),
]


@pytest.mark.parametrize("size", [1, 2, 7, 50, len(STREAM)])
def test_frames_are_cut_right_in_any_chunks(size):
    """Bodies with NULs and blank lines, heart-beats between frames, first header wins."""
    reader = FrameReader()
    found = [
        frame
        for start in range(0, len(STREAM), size)
        for frame in reader.feed(STREAM[start : start + size])
    ]

    assert found == FRAMES


def test_a_length_that_does_not_fit_is_an_error():
    """A broker whose content-length is wrong is found out."""
    with pytest.raises(ValueError, match="NUL"):
        list(FrameReader().feed(b"MESSAGE\ncontent-length:1\n\nab\0"))
