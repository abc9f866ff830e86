"""
Signal handlers that raise: at every step of a call, one after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from holdfast.client.loop_thread import LoopThread


class Rung(Exception):  # noqa: N818 - as a signal handler may raise
    """What a signal handler raises."""


class Alarm:
    """Raises Rung at one step of a call, in whatever Python code it is then: lines and returns."""

    def __init__(self, step: int, but: tuple[CodeType, ...] = ()) -> None:
        self.left = step
        # `call` takes its lock by `with` and in C: no signal is seen in between.
        self._passed_over = (Alarm.__exit__.__code__, LoopThread.call.__code__, *but)

    def __enter__(self) -> Alarm:
        self.before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code in self._passed_over:
            return None
        if event in ("line", "return"):
            self.left -= 1
            if not self.left:
                raise Rung
        return self._trace


def interrupted_everywhere(
    call: Callable[[], object], then: Callable[[], object], but: tuple[CodeType, ...] = ()
) -> int:
    """
    Interrupt a call at its first step, its second, ... until it ends by itself.

    But in none of what is `but`, which the test itself has.
    """
    step = 0
    while True:
        step += 1
        alarm = Alarm(step, but)
        try:
            with alarm:
                call()
        except Rung:
            then()
        else:
            return step
