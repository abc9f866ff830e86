"""The failover option `timeout`: what waits for a link is given up in time, and told."""

from __future__ import annotations

import asyncio

from holdfast.client.outstanding import Operation, Outstanding
from holdfast.client.request_timeouts import RequestTimeouts


class Waiting(Operation):
    """Notes why it was given up."""

    is_limited_by_timeout = True

    def __init__(self) -> None:
        super().__init__(1)
        self.error = None

    def abandoned(self, error) -> None:
        self.error = error


def waiting(outstanding: Outstanding, receipt: str) -> Waiting:
    operation = Waiting()
    operation.receipt = receipt
    outstanding.add(receipt, operation)
    return operation


async def test_what_waits_too_long_is_given_up_and_the_session_told() -> None:
    """Those that were there as the link went, and one that came later."""
    outstanding, told = Outstanding(), asyncio.Event()
    timeouts = RequestTimeouts(outstanding, 0.001, told.set)
    early = waiting(outstanding, "1")
    timeouts.limit_all()
    late = waiting(outstanding, "2")
    timeouts.limit(late)

    while late.error is None:
        told.clear()
        await told.wait()

    assert "failover option timeout" in str(early.error)
    assert "failover option timeout" in str(late.error)
    assert len(outstanding) == 0


async def test_a_link_in_time_ends_the_waiting() -> None:
    """Deadlines go with the timer: the next outage sets others."""
    outstanding, told = Outstanding(), []
    timeouts = RequestTimeouts(outstanding, 30.0, lambda: told.append(1))
    operation = waiting(outstanding, "1")
    timeouts.limit_all()
    assert operation.deadline is not None

    timeouts.clear()

    assert operation.deadline is None
    assert outstanding.next_deadline() is None
    assert told == []


async def test_without_the_option_nothing_is_limited() -> None:
    """Whoever asked for no limit waits for as long as it takes."""
    outstanding = Outstanding()
    timeouts = RequestTimeouts(outstanding, None, lambda: None)
    operation = waiting(outstanding, "1")
    timeouts.limit(operation)
    timeouts.limit_all()
    timeouts.stop()

    assert operation.deadline is None
