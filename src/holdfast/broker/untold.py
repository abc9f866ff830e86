"""
Single messages of which something is to be said, in the order in which it happened.

A batch may settle or bring thousands at once, of as many queues; what is said of them is built one
by one, when there is time. Until then it is known by kind, place and key: some ten bytes each where
many of one place come together, about a KiB where each is of another. Those that a batch brought
are found in its records only then.

Invariants:
    No more wait than the limit, nor do more that are apart from each other, and the records that
    are kept for them take no more than theirs.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.model.limits import MiB

BATCHES_BYTES_MAX: Final = 8 * MiB
"""What the records of batches take together that are kept to be told of."""

Properties = tuple[tuple[str, str | int], ...]


class Untold(NamedTuple):
    """What is to be said of one message."""

    kinds: tuple[str, ...]
    """Of which kinds of advisories, in order."""
    place: Queue | Topic
    key: int
    more: Properties
    """What else is said of it."""


class _Source(NamedTuple):
    """Some of them."""

    untold: Iterator[Untold | None]
    batch_count: int = 0
    """So many that are known only as they are looked for."""
    batch_bytes: int = 0


class UntoldMessages:
    """Those that wait to be told of."""

    __slots__ = ("_batches_bytes", "_count_max", "_last", "_runs_max", "_sources", "count")

    def __init__(self, count_max: int, runs_max: int) -> None:
        """
        Begin with none.

        Args:
            count_max: So many messages may wait.
            runs_max: So often they may be of another kind or place than those before them.
        """
        self._count_max = count_max
        self._runs_max = runs_max
        self._sources: deque[_Source] = deque()
        self._last: tuple[tuple[str, ...], Queue | Topic, Properties, deque[int]] | None = None
        """What the last source is made of, if more may be added to it."""
        self._batches_bytes = 0
        self.count = 0

    def add(
        self,
        kinds: tuple[str, ...],
        place: Queue | Topic,
        keys: Sequence[int],
        more: Properties = (),
    ) -> int:
        """Let messages of a queue or topic wait; gives for how many there was no room."""
        room = max(0, self._count_max - self.count)
        missed = max(0, len(keys) - room)
        some = keys[:room] if missed else keys
        if not some:
            return missed
        last = self._last
        if last is not None and last[1] is place and (last[0], last[2]) == (kinds, more):
            last[3].extend(some)
        elif len(self._sources) >= self._runs_max:
            return len(keys)
        else:
            self._last = kinds, place, more, deque(some)
            self._sources.append(_Source(_each(*self._last)))
        self.count += len(some)
        return missed

    def add_batch(self, found: Iterator[Untold | None], count: int, size_bytes: int) -> int:
        """
        Let those of a batch wait; gives for how many there was no room.

        Args:
            found: Looks for them, one after the other; None where of one nothing is to be said.
            count: How many there may be.
            size_bytes: What is kept for them.
        """
        is_too_large = self._batches_bytes and self._batches_bytes + size_bytes > BATCHES_BYTES_MAX
        is_full = self.count + count > self._count_max or len(self._sources) >= self._runs_max
        if is_too_large or is_full:
            return count
        self.count += count
        self._batches_bytes += size_bytes
        self._last = None
        self._sources.append(_Source(found, count, size_bytes))
        return 0

    def told(
        self,
        tell: Callable[[Untold], int],
        failed: Callable[[Exception, int], None],
        effort_max: int,
    ) -> Iterator[None]:
        """
        Tell of all of them, in steps; where that fails of one it is left out, and the others are.

        Args:
            tell: Tells of one; gives what it took, in deliveries.
            failed: Notes what went wrong, and how often something has.
            effort_max: So much is one step.
        """
        failed_count = 0
        while self._sources:
            try:
                yield from self._told(tell, effort_max)
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs what it is about
                failed_count += 1
                failed(error, failed_count)
                yield

    def _told(self, tell: Callable[[Untold], int], effort_max: int) -> Iterator[None]:
        effort = 0
        for untold in self.taken():
            effort += 1
            if untold is not None:
                effort += tell(untold)
            if effort >= effort_max:
                effort = 0
                yield

    def taken(self) -> Iterator[Untold | None]:
        """Take one after the other; None where of one nothing is to be said."""
        while self._sources:
            source = self._sources[0]
            for untold in source.untold:
                self.count -= not source.batch_count
                yield untold
            self.count -= source.batch_count
            self._batches_bytes -= source.batch_bytes
            self._sources.popleft()
            if not self._sources:
                self._last = None

    def clear(self) -> None:
        """Forget all."""
        self._sources = deque()
        self._last = None
        self._batches_bytes = self.count = 0


def _each(
    kinds: tuple[str, ...], place: Queue | Topic, more: Properties, keys: deque[int]
) -> Iterator[Untold]:
    while keys:
        yield Untold(kinds, place, keys.popleft(), more)
