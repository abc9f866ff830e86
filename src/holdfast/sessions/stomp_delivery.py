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
from typing import Final

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.dead_letters import with_origin
from holdfast.broker.serving.groups_seen import GroupsSeen
from holdfast.broker.serving.listeners import AdvisoryTopic
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.limits import KiB
from holdfast.model.records import MessageRecord
from holdfast.protocols.stomp.codec import encode_lines, escape
from holdfast.protocols.stomp.frames import PlainLines
from holdfast.protocols.stomp.mapping import lookup
from holdfast.protocols.stomp.states import Version
from holdfast.sessions.shared_frames import SharedFrames

_TRANSIENT = b"t%d.%d"
_EXPIRES = b"expires:0\n"
_PRIORITY = b"priority:4\n"
_MAY_SAY_MORE = re.compile(rb"^(?:timestamp|priority|expires|reply-to):", re.MULTILINE).search
_CLOSES = re.compile(r"\s*-0*[1-9]\d*\s*", re.ASCII).fullmatch
"""A number in a group that is below zero says that the group is over."""
_SHARED_BYTES_MAX: Final = 16 * KiB
"""A topic message is written once for subscribers that want the same bytes, up to this size."""

_KNOWN_LINES_COUNT_MAX: Final = 1024
_KNOWN_LINES_BYTES_MAX: Final = 512
_IDENTITY = re.compile(
    rb"ID:(?P<cluster>.*)-(?P<number>\d{1,10})"
    rb"-(?:(?P<sequence>\d{1,20})|t(?P<term>\d{1,20})\.(?P<serial>\d{1,20}))",
    re.DOTALL,
)


class DeliveryFormat:
    """The constant bytes of one subscription's MESSAGE frames."""

    __slots__ = (
        "acknowledge",
        "added",
        "address",
        "groups",
        "is_plain",
        "known_plain",
        "milliseconds",
        "prefix",
        "shared",
        "shared_key",
        "term",
        "version",
    )

    def __init__(
        self,
        subscription: Subscription,
        *,
        version: Version,
        cluster: str,
        term: int,
        named: bool,
        address: str = "",
        known_plain: set[bytes] | None = None,
        shared: SharedFrames | None = None,
    ) -> None:
        number = subscription.queue_number
        identity = escape(f"ID:{cluster}-{number}-", version).encode()
        head = [b"MESSAGE\n"]
        if named:
            head.append(b"subscription:%b\n" % escape(subscription.id, version).encode())
        if not isinstance(subscription.topic, AdvisoryTopic):  # An advisory says it itself.
            head.append(b"destination:%b\n" % escape(subscription.destination, version).encode())
        head.append(b"message-id:" + identity)
        self.prefix = b"".join(head)
        self.groups: GroupsSeen | None = None
        self.milliseconds = -1
        self.added = b""
        """What a MESSAGE has from us, with `milliseconds`, which neighbours mostly share."""
        self.address = address
        """What the full names of its client's temporary destinations begin with."""
        self.term = term
        self.version = version
        self.is_plain = version == "1.2"
        """Stored header lines are escaped as this version wants them."""
        self.acknowledge = b"\n"
        if version == "1.2" and subscription.mode is not AcknowledgeMode.AUTO:
            self.acknowledge = b"\nack:%d-" % subscription.ordinal
        self.known_plain = known_plain if known_plain is not None else set()
        """Lines that were looked into and say nothing of their own; of all subscriptions."""
        self.shared_key = self.prefix if self.acknowledge == b"\n" else None
        """Deliveries of one topic message with the same key have the same bytes."""
        self.shared = shared or SharedFrames()
        """What all subscriptions have of the message that is being written."""

    def write(
        self,
        out: list[bytes],
        key: int,
        message: MessageRecord | TransientMessage,
        *,
        redelivered: int,
    ) -> None:
        """Append the frame of one delivery to `out`."""
        lines = message.headers
        body = message.body
        assert lines is not None and body is not None
        facts = message.facts
        digits = b"%d" % key if key > 0 else _TRANSIENT % (self.term, -key)
        acknowledge = self.acknowledge
        if len(acknowledge) > 1:
            acknowledge = b"%b%d\n" % (acknowledge, key)
        if redelivered:
            # Whoever does not count says True, which means: at least the second.
            count = max(2, redelivered)
            acknowledge += b"redelivered:true\nJMSXDeliveryCount:%d\n" % count
        if facts is not None:
            if self.groups is not None and facts.attributes is not None:
                acknowledge += _greeting(self.groups, facts.attributes.group_hash, lines)
            if facts.origin is not None:
                lines = with_origin(lines, facts)
        milliseconds = message.stored_at // 1000
        if milliseconds != self.milliseconds:
            self.milliseconds = milliseconds
            self.added = _EXPIRES + _PRIORITY + self._timestamp()
        added = self.added
        # Those of a message that was read back are plain mostly, and the same as others'.
        if type(lines) is not PlainLines and lines not in self.known_plain:
            lines, added = self._look_into(lines)
        if not self.is_plain:
            lines = encode_lines(lines, self.version)
        head = b"%b%b%b%b%b\n" % (self.prefix, digits, acknowledge, lines, added)
        out += (head, body, b"\0")

    def _timestamp(self) -> bytes:
        return b"timestamp:%d\n" % self.milliseconds if self.milliseconds else b""

    def _look_into(self, lines: bytes) -> tuple[bytes, bytes]:
        """Give lines that may say something of their own, as they are shown, and the rest."""
        if not _MAY_SAY_MORE(lines):
            if len(lines) <= _KNOWN_LINES_BYTES_MAX:
                if len(self.known_plain) >= _KNOWN_LINES_COUNT_MAX:
                    self.known_plain.clear()
                self.known_plain.add(lines)
            return lines, self.added
        within = b"\n" + lines
        added = b"" if b"\nexpires:" in within else _EXPIRES
        if b"\npriority:" not in within:
            added += _PRIORITY
        if b"\ntimestamp:" not in within:
            added += self._timestamp()
        if b"\nreply-to:/remote-temp-" in within:
            for shown, own in self._own_replies():
                if b"\n" + shown in within:
                    lines = within.replace(b"\n" + shown, b"\n" + own, 1)[1:]
        return lines, added

    def _own_replies(self) -> tuple[tuple[bytes, bytes], ...]:
        """How others see where this client wants its answers, and how it named that itself."""
        # Worked out when they are needed: kept, they would be half of what a subscription takes.
        return tuple(
            (
                f"reply-to:/remote-temp-{kind}/{self.address}.".encode(),
                f"reply-to:/temp-{kind}/".encode(),
            )
            for kind in ("queue", "topic")
        )

    def write_shared(self, out: list[bytes], serial: int, message: TransientMessage) -> None:
        """Append a topic message's frame; subscribers that want the same bytes share them."""
        lines = message.headers
        key = self.shared_key
        if (
            key is None
            or message.size > _SHARED_BYTES_MAX
            or (not self.is_plain and rb"\r" in lines)  # Written as this version wants it.
            or (
                type(lines) is not PlainLines
                and b"/remote-temp-" in lines
                and any(shown in lines for shown, _ in self._own_replies())
            )
        ):
            # A large body goes out as it is, to all of them: a frame of it would be a copy.
            self.write(out, serial, message, redelivered=False)
            return
        frame = self.shared.find(message, key)
        if frame is None:
            parts: list[bytes] = []
            self.write(parts, serial, message, redelivered=False)
            frame = b"".join(parts)
            self.shared.keep(message, key, frame)
        out.append(frame)


def _greeting(groups: GroupsSeen, group_hash: int, lines: bytes) -> bytes:
    """Give the line that says that a message is the first of its group for its consumer, if so."""
    if not group_hash:
        return b""
    name = lookup(lines, "JMSXGroupID") or ""
    closes = _CLOSES(lookup(lines, "JMSXGroupSeq") or "") is not None
    is_first = groups.is_first(group_hash, name, closes=closes)
    return b"JMSXGroupFirstForConsumer:true\n" if is_first else b""


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
