"""
Writing deliveries as MESSAGE frames, and reading their names back.

A delivery has two names. The message id, `ID:<cluster>-<queue number>-<sequence>`, is the message's
own and survives a failover; non-persistent messages have `t<term>.<serial>` in place of the
sequence. The `ack` header (STOMP 1.2) is `<subscription>-<key>`, good for this connection only.
Both can be read back without a table, so a delivery costs nothing beside its place in the window.

Everything constant of a subscription is prepared once; a delivery adds the digits.
"""

from __future__ import annotations

import re

from holdfast.broker.queue import TransientMessage
from holdfast.broker.subscription import AcknowledgeMode, Subscription
from holdfast.model.records import MessageRecord
from holdfast.protocols.stomp.codec import encode_lines, escape
from holdfast.protocols.stomp.states import Version

_TRANSIENT = b"t%d.%d"
_IDENTITY = re.compile(
    rb"ID:(?P<cluster>.*)-(?P<number>\d{1,10})"
    rb"-(?:(?P<sequence>\d{1,20})|t(?P<term>\d{1,20})\.(?P<serial>\d{1,20}))",
    re.DOTALL,
)


class DeliveryFormat:
    """The constant bytes of one subscription's MESSAGE frames."""

    __slots__ = (
        "acknowledge",
        "is_plain",
        "milliseconds",
        "prefix",
        "shared_key",
        "term",
        "timestamp",
        "version",
    )

    def __init__(
        self, subscription: Subscription, *, version: Version, cluster: str, term: int, named: bool
    ) -> None:
        number = subscription.queue.number if subscription.queue is not None else 0
        identity = escape(f"ID:{cluster}-{number}-", version).encode()
        head = [b"MESSAGE\n"]
        if named:
            head.append(b"subscription:%b\n" % escape(subscription.id, version).encode())
        head.append(b"destination:%b\n" % escape(subscription.destination, version).encode())
        head.append(b"message-id:" + identity)
        self.prefix = b"".join(head)
        self.milliseconds = -1
        self.timestamp = b""
        """The header line for `milliseconds`: neighbouring messages mostly share it."""
        self.term = term
        self.version = version
        self.is_plain = version == "1.2"
        """Stored header lines are escaped as this version wants them."""
        self.acknowledge = b"\n"
        if version == "1.2" and subscription.mode is not AcknowledgeMode.AUTO:
            self.acknowledge = b"\nack:%d-" % subscription.ordinal
        self.shared_key = self.prefix if self.acknowledge == b"\n" else None
        """Deliveries of one topic message with the same key have the same bytes."""

    def write(
        self,
        out: list[bytes],
        key: int,
        message: MessageRecord | TransientMessage,
        *,
        redelivered: bool,
    ) -> None:
        """Append the frame of one delivery to `out`."""
        lines = message.headers
        body = message.body
        assert lines is not None and body is not None
        if not self.is_plain:
            lines = encode_lines(lines, self.version)
        digits = b"%d" % key if key > 0 else _TRANSIENT % (self.term, -key)
        acknowledge = self.acknowledge
        if len(acknowledge) > 1:
            acknowledge = b"%b%d\n" % (acknowledge, key)
        if redelivered:
            acknowledge += b"redelivered:true\n"
        milliseconds = message.stored_at // 1000
        if milliseconds != self.milliseconds:
            self.milliseconds = milliseconds
            self.timestamp = b"timestamp:%d\n" % milliseconds
        # A producer's own timestamp stands in its lines, and stays.
        is_dated = b"timestamp:" in lines and b"\ntimestamp:" in b"\n" + lines
        timestamp = self.timestamp if milliseconds and not is_dated else b""
        head = b"%b%b%b%b%b\n" % (self.prefix, digits, acknowledge, lines, timestamp)
        out += (head, body, b"\0")

    def write_shared(self, out: list[bytes], key: int, message: TransientMessage) -> None:
        """Append a topic message's frame; subscribers that want the same bytes share them."""
        frames = message.frames
        if frames is None:
            frames = message.frames = {}
        frame = frames.get(self.shared_key)
        if frame is None:
            parts: list[bytes] = []
            self.write(parts, key, message, redelivered=False)
            frame = b"".join(parts)
            if self.shared_key is not None:
                frames[self.shared_key] = frame
        out.append(frame)


def read_identity(message_id: bytes, cluster: str) -> tuple[int, int, int] | None:
    """
    Give queue number, key and term of a message id as it was on the wire.

    None if it is not one of this cluster's: a client that came over from another cluster must not
    settle what has the same numbers here. The key of a non-persistent message is its negative
    serial number, good for its term only; for persistent messages the term is 0.
    """
    match = _IDENTITY.fullmatch(message_id.replace(b"\\c", b":"))
    if match is None or match["cluster"] != cluster.encode():
        return None
    if match["term"] is not None:
        return int(match["number"]), -int(match["serial"]), int(match["term"])
    return int(match["number"]), int(match["sequence"]), 0
