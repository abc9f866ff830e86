"""
What a message that was moved says, be it a dead letter or not, beside what it said before.

It keeps its own headers and has an origin among its facts; what its consumers see is made of both
when it is read. Where the log has not reached that level, the lines stand among its headers.

The headers have ActiveMQ's names, so that its tools and its users' programs understand them;
`original-message-id` is ours. A message that was a dead letter before, was sent again and is
rejected again, says where it came from now.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.facts import Cause, Origin

_ESCAPES = str.maketrans({"\\": "\\\\", ":": "\\c", "\n": "\\n", "\r": "\\r"})
"""Stored header lines are escaped as in STOMP 1.2."""

_CAUSES: Final = {
    Cause.REJECTED: "rejected",
    Cause.EXHAUSTED: "rejected after the last redelivery",
    Cause.LOST: "the connections of its consumers were lost",
}
_OURS = (b"original-destination:", b"original-message-id:", b"dlqDeliveryFailureCause:")


_VOLATILE = (b"persistent:", b"originalDeliveryMode:")


def once_volatile(headers: bytes) -> bytes:
    """Give the header lines of a non-persistent message that is stored, as a dead letter."""
    kept = b"".join(
        line for line in headers.splitlines(keepends=True) if not line.startswith(_VOLATILE)
    )
    return kept + b"persistent:true\noriginalDeliveryMode:NON_PERSISTENT\n"


def with_origin(headers: bytes, origin: Origin) -> bytes:
    """Give the header lines that consumers of what was moved see, of those it was sent with."""
    kept = b"".join(
        line for line in headers.splitlines(keepends=True) if not line.startswith(_OURS)
    )
    said = ""
    if origin.cause is not Cause.RETRIED:  # It is back where it was first.
        said = f"original-destination:/queue/{origin.queue.translate(_ESCAPES)}\n"
    if origin.message_id:
        said += f"original-message-id:{origin.message_id.translate(_ESCAPES)}\n"
    if origin.cause in _CAUSES:
        said += f"dlqDeliveryFailureCause:{_CAUSES[origin.cause]}\n"
    return kept + said.encode()
