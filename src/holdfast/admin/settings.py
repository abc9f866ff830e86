"""
Limits and timings of the admin port, each with its unit.

A socket costs a stranger nothing, so there is a bound on what strangers may hold and for how long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.model.allowed import Allowed
from holdfast.model.limits import KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminPortSettings:
    """Limits of the admin port."""

    connection_count_max: Annotated[int, Allowed(8, 10_000)] = 64
    """Beyond it, and as many for those of this machine and for those from elsewhere who have shown
    nothing (64 each at most), one of these goes, of the network that has the most, the oldest
    first and one that is being answered last. All users together have three quarters of it, and
    what other nodes pass on the rest; beyond that one of who has more goes for who has fewer."""

    request_seconds_max: float = 10.0
    """From the first byte of a request, or the opening of its connection, to its last byte."""

    idle_seconds_max: int = 5
    """How long a connection is kept for a next request."""

    answer_seconds_max: float = 60.0
    """How long nothing of an answer may be taken."""

    ignored_bytes_max: int = 64 * KiB
    """Of a body that nobody waits for, as the answer is given already; then the connection is
    closed."""
