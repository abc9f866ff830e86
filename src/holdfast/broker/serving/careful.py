"""
The choice of a queue on which messages came back that this leader has not come by yet.

The log says until when each of them rests, and how often it was lost. This leader comes by them as
by all others, in order, and puts those aside that are not due, or are to be sent alone.

Invariants, beside those of `plain`:
    What the log lets rest is not assigned as it is first come by, due or not: it is put aside, and
    comes back when it is due.
"""

from __future__ import annotations

from holdfast.broker.serving.choice import Choice, Settle
from holdfast.broker.serving.delivery import Step
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.ring import Ring


class Careful(Plain):
    """Round robin that looks at each message before it is given."""

    __slots__ = ("_has_suspected", "_left")

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue)
        self._left = 0
        """So many more may be put aside in this step."""
        self._has_suspected = False
        """Whether some of that is to be sent alone, which is another step."""

    def assign(self, settle: Settle, step: Step, count_max: int, ring: Ring | None = None) -> bool:
        """Do as `Plain` does; to put many aside is a step, too."""
        self._left = count_max
        self._has_suspected = False
        is_over = super().assign(settle, step, count_max, ring)
        return is_over and self._left > 0 and not self._has_suspected

    def next_key(self) -> int:
        """Take the next message that does not rest."""
        queue = self._queue
        while self._left > 0:
            before = self.cursor
            key = super().next_key()
            # Below it stands what was given back: that has rested, if it had to.
            due_ms = queue.index.returned(key).due_ms if key >= before else 0
            if due_ms:
                queue.rest(key, due_ms)
            elif key < before or not self._suspect(key):
                return key
            else:
                self._has_suspected = True
            self._left -= 1
        return 0


def choose(queue: Queue) -> Choice:
    """Give the choice that a queue needs."""
    chunks = queue.index.chunks.values()
    if any(chunk.returns is not None for chunk in chunks):
        return Careful(queue)
    return Plain(queue)
