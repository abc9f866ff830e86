"""
What a connection tells the application about itself.

Values only. They reach the application through `connection.on_interrupted`, `on_resumed` and
`connection.events()`; none of them needs an answer, the connection helps itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from holdfast.errors import HoldfastError


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The link is gone; what is sent from now on waits."""

    address: str
    reason: str
    unconfirmed_count: int
    """Requests under way, which will be sent again."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A link is there again: subscriptions are restored, what was unconfirmed has been resent."""

    address: str
    outage_seconds: float
    resent_count: int
    node: str | None = None
    """The broker's name, where it tells."""

    term: int | None = None
    """Number of the election that made it leader, where it tells."""


@dataclass(frozen=True, slots=True)
class BrokerComplaint:
    """The broker sent an ERROR that belongs to no request of ours; the connection lives on."""

    error: HoldfastError


Event: TypeAlias = Interrupted | Resumed | BrokerComplaint
