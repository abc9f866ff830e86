"""
What a rejected message says on the dead-letter queue, beside what it said before.

The headers have ActiveMQ's names, so that its tools and its users' programs understand them;
`original-message-id` is ours. A message that was a dead letter before, was sent again and is
rejected again, says where it came from now.
"""

from __future__ import annotations

_ESCAPES = str.maketrans({"\\": "\\\\", ":": "\\c", "\n": "\\n", "\r": "\\r"})
"""Stored header lines are escaped as in STOMP 1.2."""

_OURS = (b"original-destination:", b"original-message-id:", b"dlqDeliveryFailureCause:")


def dead_letter_headers(headers: bytes, queue_name: str, message_id: str = "") -> bytes:
    """
    Give the header lines of the copy of a message that was rejected from this queue.

    Args:
        message_id: The id by which it was known there; empty if nobody knows.
    """
    kept = b"".join(
        line for line in headers.splitlines(keepends=True) if not line.startswith(_OURS)
    )
    origin = f"original-destination:/queue/{queue_name.translate(_ESCAPES)}\n"
    if message_id:
        origin += f"original-message-id:{message_id.translate(_ESCAPES)}\n"
    return b"%b%bdlqDeliveryFailureCause:rejected\n" % (kept, origin.encode())
