"""
What waited for a batch, once that is committed and applied: it may be seen and told now.

Non-persistent messages of its transactions are published, then everybody is told that what was
asked for is stored. A batch may have a hundred thousand of both, so it is done in steps.

Invariants:
    Nothing is told of a batch before the conductor has applied it; only `loop.py` decides that.
    A leadership that is over tells nothing more.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from operator import length_hint
from typing import Protocol

from holdfast.broker.broker import Broker
from holdfast.broker.outputs import Batch, Replier
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
        if batch.publications or len(batch.replies) > self._step_count:
            return False
        replies = iter(batch.replies)
        while not self._reply_to(replies):
            pass
        self._broker.released(batch)
        return True

    def steps(self, batch: Batch, leadership: Leadership) -> Iterator[None]:
        """Let be seen and told, in steps, what waited for a batch, while this leadership lasts."""
        steps = chain(self._broker.publish_after_commit(batch), self._reply(batch))
        while leadership.is_serving:
            if next(steps, self) is self:
                self._broker.released(batch)
                return
            yield

    def _reply(self, batch: Batch) -> Iterator[None]:
        """Say to each, in steps, that what it asked for is stored; who cannot be told is closed."""
        replies = iter(batch.replies)
        while not self._reply_to(replies):
            yield

    def _reply_to(self, replies: Iterator[tuple[Replier, bytes]]) -> bool:
        """Do one step of it, up to one that breaks; whether that was all."""
        replier: Replier | None = None
        try:
            for replier, receipt in islice(replies, self._step_count):
                replier.reply(receipt)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            self._containment.broke(replier, error)
        return not length_hint(replies)
