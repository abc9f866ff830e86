"""
Waiting until something holds that nobody calls back for.

Asked of a condition again and again: good for the few waits of operators and of a node's end, and
for nothing that a message waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.environment.clock import Clock

_LOOK_SECONDS: Final = 0.005


async def wait_until(condition: Callable[[], bool], clock: Clock, deadline: float) -> bool:
    """
    Wait until the condition holds, or the clock passes the deadline; whether it held.

    Cancelling stops the wait.
    """
    while not condition():
        if clock.monotonic() > deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True
