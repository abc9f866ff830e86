"""
What the policies say of one destination: worked out once by `policies`, kept with the destination.

Invariants:
    It holds as long as the policies were changed so many times.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.redelivery import Redelivery


class Effective(NamedTuple):
    """What holds for one destination, until the policies change."""

    change_count: int
    """How often the policies had been changed that it was made of."""
    prefetch: int
    """Most deliveries unacknowledged at once, of a subscription that says nothing."""
    dead_letter_queue: str
    """Where rejected messages go; empty: nowhere."""
    redelivery: Redelivery | None = None
    """How often, and when, rejected ones come again; None: nothing is said of it."""
