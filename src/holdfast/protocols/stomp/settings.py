"""
Limits and timings of one STOMP connection.

Every buffer the parser keeps is bounded by a number here, and the bound holds while the frame is
still incomplete: an unfinished frame never occupies more than the limit and one received chunk.
The limits on command, header line, header count and connect time are the ones ActiveMQ uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.model.allowed import Allowed
from holdfast.model.limits import MESSAGE_BODY_BYTES_MAX, KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class StompSettings:
    """Limits and timings of one STOMP connection."""

    is_strict: bool = False
    """
    Whether a connection ends where the specification has it end, and ActiveMQ goes on: undefined
    escapes in 1.1, a header line without a colon, a body or a content-length where no body may be,
    spaces around a content-length, NULs between frames, a frame without a header it must have.
    """

    allow_link_stealing: bool = False
    """Whether who connects with a client-id that another connection has takes it from that one."""

    command_bytes_max: Annotated[int, Allowed(len("UNSUBSCRIBE"))] = 1024
    """The longest command line, without its line end."""

    header_line_bytes_max: int = 10 * KiB
    """The longest header line, without its line end."""

    header_count_max: int = 1000
    """Header lines in one frame, repeated ones included."""

    header_block_bytes_max: int = 256 * KiB
    """Command and header lines of one frame together."""

    body_bytes_max: Annotated[int, Allowed(0, MESSAGE_BODY_BYTES_MAX)] = MESSAGE_BODY_BYTES_MAX
    """The largest body."""

    connect_timeout_seconds: float = 30.0
    """How long a client may take until its CONNECT frame is complete."""

    heart_beat_grace_factor: float = 1.5
    """The peer is dead after this many of its intervals in silence. At least 1."""

    heart_beat_grace_seconds_min: float = 0.5
    """Added to one interval, the least silence that counts as death: guards short intervals."""

    heart_beat_send_fraction: float = 0.5
    """We beat after this part of the promised interval, so that a late timer is not a late beat."""

    header_cache_entries_max: int = 256
    """Decoded header blocks kept per connection; a producer's constant headers are decoded once."""

    header_cache_block_bytes_max: int = 2 * KiB
    """A header block above this size is never cached."""

    header_cache_bytes_max: int = 256 * KiB
    """What the cached blocks of a connection take decoded: a block of many short headers takes
    twenty times its size. Beyond it, or beyond the count, the cache begins anew."""

    def __post_init__(self) -> None:
        """Check the ranges; a mistake here is a mistake of the program, `config` reports users'."""
        assert self.command_bytes_max >= len("UNSUBSCRIBE")
        assert self.header_line_bytes_max > 0
        assert self.header_count_max > 0
        assert self.header_block_bytes_max >= self.command_bytes_max
        assert self.body_bytes_max >= 0
        assert self.heart_beat_grace_factor >= 1.0
        assert 0.0 < self.heart_beat_send_fraction <= 1.0
