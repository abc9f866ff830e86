"""Waiting for a condition: turns are passed on, and who gives up leaves nothing."""

from __future__ import annotations

import asyncio

from holdfast.client.waiters import Waiters


async def test_who_is_woken_and_cancelled_hands_the_turn_on() -> None:
    """Otherwise the place of a cancelled task would be lost for ever."""
    waiters = Waiters()
    tasks = [asyncio.create_task(waiters.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    waiters.wake_one()
    tasks[1].cancel()
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [True, True, False]


async def test_a_wait_that_is_cancelled_leaves_nothing() -> None:
    """What is waited for may never come, and thousands may give up until then."""
    waiters = Waiters()
    patient = asyncio.create_task(waiters.wait())
    hasty = [asyncio.create_task(waiters.wait()) for _ in range(1000)]
    await asyncio.sleep(0)
    for task in hasty:
        task.cancel()
    await asyncio.wait(hasty)
    assert len(waiters) == 1
    waiters.wake_one()
    await patient
    assert len(waiters) == 0
