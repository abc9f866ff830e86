"""
Damaged entries in the cleaner's way: passed once nothing in them lives, told where something does.

What is damaged cannot be read, so what lives in it cannot be written again. Where there is a peer
it sends its copy. A single node has none, and one rotten entry would keep its log from being
cleaned for ever. But which messages live, and in which records, stands in memory: an entry of which
no message lives is as dead as any other, whatever else it held is carried on by its home.

Invariants:
    Only entries that are known to be damaged are passed, never one that cannot be read just now.
    While a message lives in one, its segment stays, and everything behind it.

Owned by the loop; used on the leader.
"""

from __future__ import annotations

from collections.abc import Generator

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.cleaning import live_within
from holdfast.store.contract import LogStore

log = structlog.get_logger("holdfast.server")


class DamagedEntries:
    """Judges one run of damaged entries at a time."""

    __slots__ = ("_broker", "_index", "_looking", "_next_record", "_store", "needed")

    def __init__(self, broker: Broker, store: LogStore) -> None:
        self._broker = broker
        self._store = store
        self._looking: Generator[None, None, dict[str, int]] | None = None
        self._index = 0
        self._next_record = 0
        self.needed: dict[str, int] = {}
        """By queue: messages that live in damaged entries and keep the log from being cleaned."""

    @property
    def is_looking(self) -> bool:
        """Whether it is not known yet."""
        return self._looking is not None

    def begin(self, index: int) -> bool:
        """Look at this entry, which cannot be read; false if it is not known to be damaged."""
        run = self._store.damaged_run(index)
        if run is None:
            return False
        self._index = index
        _, first_record, self._next_record = run
        self._looking = live_within(self._broker, first_record, self._next_record)
        return True

    def step(self) -> tuple[int, int] | None:
        """
        Go on looking; once nothing lives there, give the entry and the record to go on with.

        None if that is not known yet, or if something lives there: `is_looking` tells which.
        """
        looking = self._looking
        assert looking is not None, "nothing to look at"
        try:
            next(looking)
        except StopIteration as end:
            self._looking = None
            found: dict[str, int] = end.value
        else:
            return None
        # What was repaired meanwhile is read.
        run = self._store.damaged_run(self._index)
        last = run[0] if run is not None and run[2] == self._next_record else self._index - 1
        if found:
            self._tell(found)
            return None
        if last >= self._index:
            log.warning(
                "damaged entries are passed: nothing in them lives",
                first=self._index,
                last=last,
            )
            return last + 1, self._next_record
        return self._index, 0

    def forget(self) -> None:
        """Nothing damaged is in the way, or this node does not lead any more."""
        self._looking = None
        self.needed = {}

    def _tell(self, found: dict[str, int]) -> None:
        if found.keys() != self.needed.keys():
            log.error(
                "a damaged entry keeps the log from being cleaned: messages live in it; restore its"
                " file from a copy, or purge the queues",
                entry=self._index,
                queues=", ".join(f"{name} ({count})" for name, count in sorted(found.items())),
            )
        self.needed = found
