"""
What waited for a batch, once that is committed and applied: it may be seen and told now.

Non-persistent messages of its transactions are published, then everybody is told that what was
asked for is stored. A batch may have a hundred thousand of both, so it is done in steps.

Invariants:
    Nothing is told of a batch before the conductor has applied it; only `loop.py` decides that;
    whom to tell is the broker's ledger's to know.
    A leadership that is over tells nothing more.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from holdfast.broker.broker import Broker
from holdfast.broker.outputs import Batch
from holdfast.server.containment import Containment


class Leadership(Protocol):
    """Whose clients are told."""

    is_serving: bool


class Releasing:
    """Lets go of what waited for batches."""

    __slots__ = ("_broker", "_containment", "_step_count")

    def __init__(self, broker: Broker, containment: Containment, step_count: int) -> None:
        """Tell so many in one step."""
        self._broker = broker
        self._containment = containment
        self._step_count = step_count

    def at_once(self, batch: Batch) -> bool:
        """Tell all now, if it is no more than one step; false, and nothing told, if it is more."""
        return self._broker.receipts.tell_at_once(batch, self._step_count, self._containment.broke)

    def steps(self, batch: Batch, leadership: Leadership) -> Iterator[None]:
        """Let be seen and told, in steps, what waited for a batch, while this leadership lasts."""
        receipts = self._broker.receipts
        steps = chain(
            self._broker.publish_after_commit(batch),
            receipts.tell(batch, self._step_count, self._containment.broke),
        )
        while leadership.is_serving:
            if next(steps, self) is self:
                receipts.released(batch)
                return
            yield
