"""
Headers of a SEND frame to what a message keeps of them.

The one place that knows which headers belong to the hop and which to the message. STOMP 1.2, SEND:
user defined headers must be passed through in the MESSAGE frame; so everything is passed on except
what the server itself says in MESSAGE and what only the producer's connection was meant to read.
"""

from __future__ import annotations

from typing import Final

from holdfast.protocols.stomp.codec import escape, parse_headers, parse_length, unescape
from holdfast.protocols.stomp.frames import HeaderBlock, PlainLines
from holdfast.protocols.stomp.states import Version

USER: Final = "JMSXUserID"
"""Who has sent a message, by his login."""

VOUCHED_BY: Final = "holdfast-vouched-by"
"""Of a scheduled message: which directory or issuer said who that is, if it was not the log."""

HIDDEN_HEADERS = frozenset(
    {
        # The server writes these in every MESSAGE; a producer must not be able to forge them.
        "destination",
        "message-id",
        "subscription",
        "ack",
        "redelivered",
        "JMSXDeliveryCount",
        "JMSXGroupFirstForConsumer",
        USER,
        VOUCHED_BY,
        # These are between the producer and its server.
        "receipt",
        "transaction",
        "producer-id",
        "producer-sequence",
    }
)
"""Headers of SEND that consumers do not see."""

_SAID_ANYWAY = frozenset({("priority", "4"), ("expires", "0")})
"""What a MESSAGE says where a producer says nothing, too: not kept with every message."""

_SAID_BY_THE_BROKER = frozenset({"timestamp", "priority", "expires"})
"""What a MESSAGE has from the broker, unless a producer said otherwise."""

_HEADER_BYTES = 200
"""What a decoded header takes beside its bytes, more rather than less."""


def header_block(
    head: bytes, version: Version, *, body_bytes_max: int, is_strict: bool = True
) -> HeaderBlock:
    """
    Decode the head of a SEND frame whose receipt and producer-sequence were cut out.

    Raises:
        RemoteProtocolError: A malformed line, escape or content-length, or a body over the limit.
    """
    headers = parse_headers(head, version, is_strict=is_strict)
    # Repetitions of what was cut out; the first has been taken.
    headers.pop("receipt", None)
    headers.pop("producer-sequence", None)
    length = parse_length(headers, body_bytes_max, is_strict=is_strict)
    # Plain: no header needs an escape, not even those that came without one they should have had.
    is_plain = b"\\" not in head and b"\r" not in head and head.count(b":") == head.count(b"\n") - 1
    cost_bytes = 3 * len(head) + _HEADER_BYTES * (1 + len(headers))
    return HeaderBlock(headers, visible_lines(headers, is_plain=is_plain), length, cost_bytes)


def lookup(lines: bytes, name: str) -> str | None:
    """Give what the lines of a message (`visible_lines`) say under a name; None if nothing."""
    mark = f"\n{escape(name, '1.2')}:".encode()
    if lines.startswith(mark[1:]):
        start = len(mark) - 1
    else:
        found = lines.find(mark)
        if found < 0:
            return None
        start = found + len(mark)
    return unescape(lines[start : lines.index(b"\n", start)].decode(), "1.2")


def with_user(lines: bytes, name: str) -> bytes:
    """Say in the lines of a message who has sent it; a producer's own word on it is not there."""
    added = lines + f"{USER}:{escape(name, '1.2')}\n".encode()
    return PlainLines(added) if type(lines) is PlainLines else added


def with_authority(lines: bytes, authority: str) -> bytes:
    """Say in the lines of a message who has said who its sender is."""
    return lines + f"{VOUCHED_BY}:{escape(authority, '1.2')}\n".encode()


def read_lines(lines: bytes) -> dict[str, str]:
    """Give all that the lines of a message say."""
    return parse_headers(b"\n" + lines, "1.2")


def visible_lines(headers: dict[str, str], *, is_plain: bool = False) -> bytes:
    """
    Give the lines consumers may see, each with a line feed, with STOMP 1.2 escapes.

    As in ActiveMQ only a persistent message says whether it is.
    """
    seen = {
        name: value
        for name, value in headers.items()
        if name not in HIDDEN_HEADERS and (name, value) not in _SAID_ANYWAY
    }
    if seen.get("persistent", "true") != "true":
        del seen["persistent"]
    if is_plain:
        lines = [f"{name}:{value}\n" for name, value in seen.items()]
    else:
        lines = [f"{escape(name, '1.2')}:{escape(value, '1.2')}\n" for name, value in seen.items()]
    encoded = "".join(lines).encode()
    if _SAID_BY_THE_BROKER.isdisjoint(seen) and "/remote-temp-" not in seen.get("reply-to", ""):
        return PlainLines(encoded)
    return encoded
