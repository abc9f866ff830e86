"""
Limits and timings of whatever port strangers can reach, each with its unit.

A connection costs a stranger nothing, and half a TLS handshake hardly more; what they cost the
node is bounded here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.model.allowed import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSettings:
    """How many come in at once, and how long they may take to show who they are by TLS."""

    accept_count_max: Annotated[int, Allowed(1, 1_024)] = 16
    """So many connections are taken from a port in one turn of the loop; others in the next."""

    stranger_count_max: Annotated[int, Allowed(16, 100_000)] = 1_024
    """TLS connections that have not finished their handshake. Those beyond it wait for a place, as
    many as the client ports have connections left; each address has its turns. One that has left us
    waiting for 0.3 s goes for one of a network with fewer of them. Where all have as many it goes
    after `handshake_patience_seconds`, and so does one that has begun while others of its network
    come to their ends."""

    handshake_count_max: Annotated[int, Allowed(1, 10_000)] = 256
    """TLS handshakes under way at once; who comes next waits, and those of each address take their
    turns."""

    handshake_seconds_max: Annotated[float, Allowed(0.1, 600)] = 30.0
    """From a connection's opening to its whole greeting, and from then to the end of its handshake
    without the time that it waits for its turn; then it is closed."""

    handshake_patience_seconds: Annotated[float, Allowed(0.01, 600)] = 3.0
    """Where others of its address wait and none of that has come to its end for so long, the oldest
    handshake under way is given up; for one of a network with fewer of them after 0.3 s."""

    handshake_slice_seconds: Annotated[float, Allowed(0.0005, 1)] = 0.003
    """How long one turn of the loop works on handshakes; the rest is done in the next."""
