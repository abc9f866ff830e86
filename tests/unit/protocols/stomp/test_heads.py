"""
A head to its event. What each frame's headers come to is tested with the connection.
"""

from __future__ import annotations

import pytest

from holdfast.errors import RemoteProtocolError
from holdfast.protocols.stomp.frames import AcknowledgeFrame, Frame, FrameRefused, SendFrame
from holdfast.protocols.stomp.heads import Heads
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import CLIENT_COMMANDS


def heads(settings: StompSettings | None = None) -> Heads:
    made = Heads("server", settings or StompSettings())
    made.version = "1.2"
    return made


def opened(reader: Heads, head: bytes) -> object:
    return reader.open(CLIENT_COMMANDS[head.partition(b"\n")[0]], head)


def test_each_kind_of_head_gives_its_kind_of_event() -> None:
    """
    With the length of the body behind it, where that is said.
    """
    reader = heads()
    sent = opened(reader, b"SEND\ndestination:/queue/a\ncontent-length:5\nreceipt:r\n")
    assert isinstance(sent, SendFrame)
    assert (sent.receipt, reader.body_bytes) == (b"r", 5)
    assert isinstance(opened(reader, b"ACK\nid:1-1\n"), AcknowledgeFrame)
    assert isinstance(opened(reader, b"BEGIN\ntransaction:t\n"), Frame)
    assert reader.body_bytes == -1  # As far as the first NUL, whatever is in between.


def test_headers_that_repeat_are_decoded_once() -> None:
    """
    Whatever varies beside them; the limit of what is kept is the settings'.
    """
    reader = heads(StompSettings(header_cache_entries_max=2))
    first = opened(reader, b"SEND\nreceipt:1\ndestination:/queue/a\n")
    second = opened(reader, b"SEND\ndestination:/queue/a\nproducer-sequence:7\n")
    assert isinstance(first, SendFrame)
    assert isinstance(second, SendFrame)
    assert first.block is second.block
    for number in range(5):
        opened(reader, b"SEND\ndestination:/queue/%d\n" % number)
        assert len(reader.blocks) <= 2
        assert reader.blocks_bytes == sum(each.cost_bytes for each in reader.blocks.values())


def test_what_is_missing_refuses_the_frame_or_ends_the_connection() -> None:
    """
    As ActiveMQ has it, or as the specification does.
    """
    refused = opened(heads(), b"BEGIN\nreceipt:r\n")
    assert isinstance(refused, FrameRefused)
    assert refused.receipt == b"r"
    with pytest.raises(RemoteProtocolError, match="without the header transaction"):
        opened(heads(StompSettings(is_strict=True)), b"BEGIN\nreceipt:r\n")


def test_a_receipt_that_is_what_is_wrong_is_not_repeated() -> None:
    """
    It would be wrong on the way back as well.
    """
    reader = heads()
    assert reader.readable_receipt(b"BEGIN\nreceipt:r\n") == b"r"
    strict = heads(StompSettings(is_strict=True))
    assert strict.readable_receipt(b"BEGIN\nreceipt:\\q\n") is None
    assert reader.readable_receipt(b"") is None
