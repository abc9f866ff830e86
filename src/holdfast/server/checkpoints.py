"""
When the broker's state is written down for a quick start: after each segment, and at a clean stop.

The state is turned into bytes on the loop, which is quick, and written by a thread. A checkpoint
covers every sealed segment soon after it is sealed, so damage that appears later in an old segment
concerns single messages, never the state.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.checkpoint import encode_state
from holdfast.errors import StoreError
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.store.replicated_store import ReplicatedStore

log = structlog.get_logger("holdfast.server")


class Checkpoints:
    """Writes checkpoints of one broker."""

    def __init__(self, broker: Broker, store: ReplicatedStore, files: CheckpointStore) -> None:
        self.broker = broker
        self.store = store
        self.files = files
        self.segment_base = store.last_segment_base
        self.task: asyncio.Task[None] | None = None
        self.saved_index = 0

    def step(self) -> None:
        """Start writing one if a segment was sealed since the last."""
        if self.is_due() and (self.task is None or self.task.done()):
            self.task = asyncio.get_running_loop().create_task(self.save())

    def is_due(self) -> bool:
        """Whether a segment was sealed, and its end applied, since the last one."""
        base = self.store.last_segment_base
        return base != self.segment_base and self.store.applied_index >= base - 1

    def prepare(self) -> Callable[[], None] | None:
        """Turn the state into bytes and give what writes them, for any thread; None if in vain."""
        index = self.store.applied_index
        self.segment_base = self.store.last_segment_base
        if index <= self.saved_index:
            return None
        try:
            place = self.store.place_of(index)
        except StoreError as error:  # The last entry applied is damaged meanwhile.
            log.warning("checkpoint was not written", index=index, reason=str(error))
            return None
        parts = encode_state(self.broker.state)

        def write() -> None:
            try:
                self.files.save(index, *place, parts)
            except StoreError as error:
                log.warning("checkpoint was not written", index=index, reason=str(error))
                return
            self.saved_index = index
            log.debug("checkpoint written", index=index, bytes=sum(map(len, parts)))

        return write

    async def save(self) -> None:
        """Write one now; a failure is logged, because it costs only time at the next start."""
        write = self.prepare()
        if write is not None:
            await asyncio.to_thread(write)

    async def finish(self) -> None:
        """Write the last one of a clean stop."""
        if self.task is not None:
            await self.task
        await self.save()
