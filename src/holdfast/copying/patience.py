"""
Asking the same again of a medium that does not answer.

A database that fails over is away for seconds, and a log that is read or copied is long. Whatever
is asked here may be done twice: the same append or take again is what tells its outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.errors import UnreachableError

PAUSE_SECONDS: Final = 0.2

Result = TypeVar("Result")


def ask_again(
    call: Callable[[], Result],
    seconds_max: float,
    *,
    clock: Callable[[], float] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """
    Ask the same until there is an answer, for so long; at least once.

    Raises:
        UnreachableError: There was none in all that time.
    """
    clock = time.monotonic if clock is None else clock
    until = clock() + seconds_max
    while True:
        try:
            return call()
        except UnreachableError:
            if clock() >= until:
                raise
        sleep(PAUSE_SECONDS)
