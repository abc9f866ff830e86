"""Tests of admin/lease_status.py: a status with a lease goes over the admin port and comes back."""

from __future__ import annotations

from holdfast.admin.health import readiness
from holdfast.admin.lease_status import LeaseStatus
from holdfast.admin.status import NodeStatus


def standby(**fields: object) -> NodeStatus:
    """A broker that waits."""
    lease = LeaseStatus(kind="SQLite", place="f", lease_seconds=5, **fields)  # type: ignore[arg-type]
    return NodeStatus(name="b", role="standby", lease=lease)


def test_a_broker_that_waits_is_ready_and_names_the_holder() -> None:
    """It is a good standby; its client port is closed, and the reason says who serves."""
    found = readiness(standby(holder="a", silent_seconds=0.25))

    assert found.ready
    assert "standby: a holds the lease" in found.reason
    assert "0.2 s ago" in found.reason


def test_nobody_holds_it() -> None:
    """That is said as well."""
    assert "nobody holds the lease" in readiness(standby()).reason
