"""Events as text and as values."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.errors import RemoteProtocolError
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    HeaderBlock,
    ProtocolFailed,
    SendFrame,
)

BLOCK = HeaderBlock({"destination": "/queue/a"}, b"")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (SendFrame(BLOCK, b"1", None, b"x" * 2048), "SEND /queue/a [2,048 bytes]"),
        (AcknowledgeFrame(b"7", None, None, negative=False), "ACK 7"),
        (AcknowledgeFrame(b"\xff", None, None, negative=True), "NACK \ufffd"),
        (
            Frame("CONNECT", {"login": "me", "passcode": "secret"}),
            "CONNECT (login, passcode) [0 bytes]",
        ),
        (ProtocolFailed(RemoteProtocolError("bad")), "protocol failed: bad"),
    ],
)
def test_events_print_as_one_line_without_secrets_or_bodies(event: Event, expected: str) -> None:
    """
    What goes to the log is short and holds neither passwords nor messages.
    """
    assert expected == str(event)


def test_the_memo_of_a_block_is_not_part_of_its_value() -> None:
    """
    A session may keep what it likes in a block without making it another block.
    """
    marked = HeaderBlock(BLOCK.headers, BLOCK.lines)
    marked.memo = SimpleNamespace(persistent=True)

    assert marked == BLOCK
    assert "memo" not in repr(marked)
