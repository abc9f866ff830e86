"""Which names no message is put on, and what is said of them."""

from __future__ import annotations

import pytest

from holdfast.model.reserved_names import why_reserved


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("$schedule", "the broker's own"),
        ("ActiveMQ.Advisory.Connection", "advisory messages"),
        ("ActiveMQ.Statistics.Broker", "statistics"),
        ("ActiveMQ.Scheduler.Management", "scheduled messages"),
        ("ActiveMQ.DLQ", ""),
        ("ActiveMQ.Statistics", ""),
        ("orders.$x", ""),
    ],
)
def test_what_nobody_could_take_is_told(name: str, why: str) -> None:
    """Names that only look alike are anybody's."""
    assert why in why_reserved(name)
    assert bool(why_reserved(name)) == bool(why)
