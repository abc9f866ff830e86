"""
What a rejected message says on the dead-letter queue, beside what it said before.

The headers have ActiveMQ's names, so that its tools and its users' programs understand them.
"""

from __future__ import annotations

_ESCAPES = str.maketrans({"\\": "\\\\", ":": "\\c", "\n": "\\n", "\r": "\\r"})
"""Stored header lines are escaped as in STOMP 1.2."""


def dead_letter_headers(headers: bytes, queue_name: str) -> bytes:
    """Give the header lines of the copy of a message that was rejected from this queue."""
    return b"%boriginal-destination:/queue/%b\n%b" % (
        headers,
        queue_name.translate(_ESCAPES).encode(),
        b"dlqDeliveryFailureCause:rejected\n",
    )
