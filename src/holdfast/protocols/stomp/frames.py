"""
What a STOMP connection tells its owner: frames and the end of parsing, as events.

The two frames that come in hundreds of thousands per second, SEND and ACK, have types of their own
that keep raw bytes raw; all other frames are a `Frame`. Built once and not changed afterwards, save
`HeaderBlock.memo`, which belongs to the session.

Raw means: as on the wire, still escaped, without line end. A raw value is valid in the version of
the connection, so it may be echoed verbatim to the same peer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from holdfast.errors import IncompleteFrameError, RefusedError, RemoteProtocolError


class PlainLines(bytes):
    """
    Header lines that a MESSAGE takes as they are, with all that a broker says beside them.

    None of them is one of those, nor a reply-to that is shown in different ways. Known once for
    all messages with the same lines, and by their type, which costs nothing to ask.
    """

    __slots__ = ()


class Memo(Protocol):
    """What a session worked out from the headers of a SEND; to it alone it means something."""

    persistent: bool


@dataclass(slots=True)
class HeaderBlock:
    """
    The constant headers of SEND frames, decoded once and shared by all frames that repeat them.

    Everything except `receipt` and `producer-sequence`, which vary from frame to frame.
    """

    headers: dict[str, str]
    """Decoded; of a repeated header the first."""

    lines: bytes
    """What consumers may see, as `name:value\\n` lines with STOMP 1.2 escapes (see `mapping`)."""

    body_bytes: int = -1
    """The content-length, or -1 where the body ends at the first NUL."""

    cost_bytes: int = field(default=0, compare=False, repr=False)
    """About what it takes of memory: many short headers take far more than their bytes."""

    memo: Memo | None = field(default=None, compare=False, repr=False)
    """Free for the session, to keep what it worked out from these headers."""


@dataclass(slots=True)
class SendFrame:
    """A SEND frame. `receipt` and `producer_sequence` are raw."""

    block: HeaderBlock
    receipt: bytes | None
    producer_sequence: bytes | None
    body: bytes

    def __str__(self) -> str:
        """One line for logs, without the body."""
        destination = self.block.headers.get("destination", "")
        return f"SEND {destination} [{len(self.body):,} bytes]"


@dataclass(slots=True)
class AcknowledgeFrame:
    """
    An ACK or (`negative`) NACK frame.

    `id` is the raw `id` header in STOMP 1.2 and the raw `message-id` header before. `block` is None
    where the frame has no header but `id` and `receipt`; otherwise it has all headers but receipt,
    and no `lines`.
    """

    id: bytes
    receipt: bytes | None
    block: HeaderBlock | None
    negative: bool

    def __str__(self) -> str:
        """One line for logs."""
        return f"{'NACK' if self.negative else 'ACK'} {self.id.decode(errors='replace')}"


@dataclass(slots=True)
class Frame:
    """
    Any other frame. `headers` are decoded, of a repeated header the first.

    `receipt` is the raw receipt header, which is in `headers` too. ActiveMQ's short commands SUB
    and UNSUB arrive here as SUBSCRIBE and UNSUBSCRIBE, STOMP as CONNECT.
    """

    command: str
    headers: dict[str, str]
    body: bytes = b""
    receipt: bytes | None = None

    def __str__(self) -> str:
        """One line for logs, without header values, which may be secret, and without the body."""
        return f"{self.command} ({', '.join(self.headers)}) [{len(self.body):,} bytes]"


@dataclass(slots=True)
class FrameRefused:
    """
    A client's frame that lacks a header it must have, or that its reader's owner has refused by its
    head; what comes behind it is read.

    `headers` are decoded, `receipt` is raw. Only where the settings are not strict.
    """

    error: IncompleteFrameError | RefusedError
    headers: dict[str, str]
    receipt: bytes | None = None

    def __str__(self) -> str:
        """One line for logs."""
        return f"frame refused: {self.error}"


@dataclass(slots=True)
class ProtocolFailed:
    """
    The peer broke a rule; the last event of a connection, nothing is parsed after it.

    `receipt` is the raw receipt header of the offending frame, where that was readable.
    """

    error: RemoteProtocolError
    receipt: bytes | None = None

    def __str__(self) -> str:
        """One line for logs."""
        return f"protocol failed: {self.error}"


Event: TypeAlias = SendFrame | AcknowledgeFrame | Frame | FrameRefused | ProtocolFailed
