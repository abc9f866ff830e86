"""
Errors that outlive the call in which they were raised: kept, or handed to another thread.

An error has the frames by which it came, and a frame all that was in its hands: a job, the error
itself, a driver's half-made connection with its descriptor. What is kept so is a cycle more often
than not, and nobody looks for cycles that are not young (`server.cycle_collector`). So who keeps an
error lets its frames go first; what people are to read of them is logged before.

Source: the Python manual, `traceback.clear_frames`.
"""

from __future__ import annotations

import traceback
from typing import TypeVar

ErrorType = TypeVar("ErrorType", bound=BaseException)


def without_frames(error: ErrorType) -> ErrorType:
    """
    Give the same error without the frames by which it came, and what caused it.

    Frames that still run keep what they have.
    """
    found: list[BaseException | None] = [error]
    seen: set[int] = set()
    while found:
        each = found.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        each.__traceback__ = None
        found += (each.__cause__, each.__context__)
    return error
