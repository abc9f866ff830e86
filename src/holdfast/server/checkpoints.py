"""
When the broker's state is written down for a quick start: after each segment, and at a clean stop.

The state is turned into bytes on the loop, a piece at each tick, while the broker goes on; then a
thread writes them. A checkpoint covers every sealed segment soon after it is sealed, so damage that
appears later in an old segment concerns single messages, never the state.

Invariants:
    What is written is the state after exactly the entry that the file is named after.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.broker.lasting.snapshot import Snapshot
from holdfast.errors import StoreError
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.store.contract import LogStore

log = structlog.get_logger("holdfast.server")

WORK_PER_STEP: Final = 100
"""Queues and chunks turned into bytes before the clock is looked at again: a millisecond or two."""


class Checkpoints:
    """Writes checkpoints of one broker."""

    def __init__(self, broker: Broker, store: LogStore, files: CheckpointStore) -> None:
        self.broker = broker
        self.store = store
        self.files = files
        self.segment_base = store.last_segment_base
        self.snapshot: Snapshot | None = None
        """What is being turned into bytes; None outside of that."""
        self.index = 0
        """The entry it stands behind."""
        self.place = (0, b"", 0)
        """Term, chain and next record number of that entry."""
        self.first_index = 0
        """Where the log began when the state was taken."""
        self.task: asyncio.Task[None] | None = None
        self.saved_index = 0

    def step(self, is_spent: IsSpent = lambda: True) -> None:
        """
        Go on with one, or begin one if a segment was sealed since the last.

        Args:
            is_spent: Whether this tick's time for it is over; some is done in any case.
        """
        if self.task is not None and not self.task.done():
            return
        if self.snapshot is None and not (self.is_due() and self.begin()):
            return
        write = None
        while self.snapshot is not None:
            write = self.advance(WORK_PER_STEP)
            if is_spent():
                break
        if write is not None:
            self.task = asyncio.get_running_loop().create_task(asyncio.to_thread(write))

    def is_due(self) -> bool:
        """Whether a segment was sealed, and its end applied, since the last one."""
        base = self.store.last_segment_base
        return base != self.segment_base and self.store.applied_index >= base - 1

    def begin(self) -> bool:
        """Take the state as it is now; False if that is in vain, or within an entry."""
        if self.store.is_applying:
            return False
        index = self.store.applied_index
        self.segment_base = self.store.last_segment_base
        if index <= self.saved_index:
            return False
        try:
            self.place = self.store.place_of(index)
        except StoreError as error:  # The last entry applied is damaged meanwhile.
            log.warning("checkpoint was not written", index=index, reason=str(error))
            return False
        self.index = index
        self.first_index = self.store.first_index
        state = self.broker.state
        self.snapshot = state.snapshot = Snapshot(state)
        return True

    def advance(self, work_max: int) -> Callable[[], None] | None:
        """Turn some more of it into bytes; after the last give what writes them, for any thread."""
        snapshot = self.snapshot
        assert snapshot is not None, "begun before"
        state = self.broker.state
        if state.snapshot is not snapshot:
            self.snapshot = None  # The log was begun anew meanwhile, and the state with it.
            return None
        if not snapshot.step(work_max):
            return None
        self.snapshot = state.snapshot = None
        index, place, first, parts = self.index, self.place, self.first_index, snapshot.parts

        def write() -> None:
            try:
                self.files.save(index, *place, first, parts)
            except StoreError as error:
                log.warning("checkpoint was not written", index=index, reason=str(error))
                return
            self.saved_index = index
            log.debug("checkpoint written", index=index, bytes=sum(map(len, parts)))

        return write

    async def finish(self) -> None:
        """Write the last one of a clean stop; a failure is logged: it costs time at the start."""
        if self.task is not None:
            await self.task
        self.snapshot = self.broker.state.snapshot = None
        if not self.begin():
            return
        while self.snapshot is not None:
            write = self.advance(WORK_PER_STEP)
            if write is not None:
                await asyncio.to_thread(write)
            await asyncio.sleep(0)
