"""
When Python's collector of cycles may look, and at how much.

It stops the loop for whatever it goes through, 75 ns for each object. Left to itself it begins when
10,000 more objects were made than freed, and then goes through all that were made since the last
time, however many: where messages come and go nothing is left over for long, and then it held the
loop for 9 to 14 ms. Here it looks at each tick at what was made since the last one.

Nothing that a node keeps in great number is part of a cycle, and a connection that ends leaves
none. So what became older is looked through now and then only, while there is little of it.

Owned by the loop. The collector belongs to the whole process, so a process has one node.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

_YOUNG: Final = 0
_WHOLE_SECONDS: Final = 60.0
_BLOCKS_MAX: Final = 50_000
"""While no more pieces of memory are in use than at the start and so many, objects of all ages are
looked through, in 2 to 4 ms."""


class CycleCollector:
    """Python's collector of cycles, in the hands of the loop."""

    __slots__ = ("_blocks_max", "_whole_at")

    def __init__(self) -> None:
        self._blocks_max = 0
        self._whole_at = 0.0

    def begin(self, now: float) -> None:
        """
        Take the collector over; what is there now is not looked at any more.

        Not even for what is garbage already: that is 0.6 MB of the imports, and to find it takes
        longer than all else that a node does between its imports and its ports.
        """
        gc.freeze()
        gc.disable()
        self._blocks_max = sys.getallocatedblocks() + _BLOCKS_MAX
        self._whole_at = now + _WHOLE_SECONDS

    def step(self, now: float) -> None:
        """Look at what was made since the last time, and at all where that is little."""
        gc.collect(_YOUNG)
        if now >= self._whole_at:
            self._whole_at = now + _WHOLE_SECONDS
            if sys.getallocatedblocks() <= self._blocks_max:
                gc.collect()

    def end(self) -> None:
        """Leave the collector to itself."""
        gc.unfreeze()
        gc.enable()
