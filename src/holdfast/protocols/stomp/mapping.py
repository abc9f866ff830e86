"""
Headers of a SEND frame to what a message keeps of them.

The one place that knows which headers belong to the hop and which to the message. STOMP 1.2, SEND:
user defined headers must be passed through in the MESSAGE frame; so everything is passed on except
what the server itself says in MESSAGE and what only the producer's connection was meant to read.
"""

from __future__ import annotations

from holdfast.protocols.stomp.codec import escape, parse_headers, parse_length
from holdfast.protocols.stomp.frames import HeaderBlock
from holdfast.protocols.stomp.states import Version

HIDDEN_HEADERS = frozenset(
    {
        # The server writes these in every MESSAGE; a producer must not be able to forge them.
        "destination",
        "message-id",
        "subscription",
        "ack",
        "redelivered",
        "JMSXUserID",
        # These are between the producer and its server.
        "receipt",
        "transaction",
        "producer-id",
        "producer-sequence",
    }
)
"""Headers of SEND that consumers do not see."""


def header_block(head: bytes, version: Version, *, body_bytes_max: int) -> HeaderBlock:
    """
    Decode the head of a SEND frame whose receipt and producer-sequence were cut out.

    Raises:
        RemoteProtocolError: A malformed line, escape or content-length, or a body over the limit.
    """
    headers = parse_headers(head, version)
    # Repetitions of what was cut out; the first has been taken.
    headers.pop("receipt", None)
    headers.pop("producer-sequence", None)
    return HeaderBlock(headers, visible_lines(headers), parse_length(headers, body_bytes_max))


def visible_lines(headers: dict[str, str]) -> bytes:
    """Give the lines consumers may see, each with a line feed, with STOMP 1.2 escapes."""
    return "".join(
        [
            f"{escape(name, '1.2')}:{escape(value, '1.2')}\n"
            for name, value in headers.items()
            if name not in HIDDEN_HEADERS
        ]
    ).encode()
