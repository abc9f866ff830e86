"""
The batch that is to be the next log entry, and how far it is.

A small one is handed on as it is. A large one is encoded and hashed before, in steps, as far as the
time goes in each turn; what is gathered meanwhile comes after it.

Owned by the loop.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.broker.outputs import Batch
from holdfast.journal.entry_body import EntryBody
from holdfast.server.settings import ServerSettings
from holdfast.store.sealing import Sealing


class Sealer:
    """Takes batches from the broker, oldest first, and seals large ones over several turns."""

    __slots__ = ("_batch", "_broker", "_gathering_since", "_settings", "under_way")

    def __init__(self, broker: Broker, settings: ServerSettings) -> None:
        self._broker = broker
        self._settings = settings
        self._batch: Batch
        self._gathering_since = 0.0
        self.under_way: Sealing | None = None
        """The large batch that was begun with and is not done."""

    def has_work(self) -> bool:
        """Whether there is anything that must last and was not given."""
        return self.under_way is not None or self._broker.has_batch()

    def is_full(self) -> bool:
        """Whether the gathering batch goes although an earlier one is being written."""
        batch = self._broker.batch
        return (
            batch.size_bytes >= self._broker.settings.batch_bytes_max
            or len(batch.records) >= self._settings.batch_records_max
        )

    def is_due(self, now: float) -> bool:
        """Whether somebody waits for the gathering batch, or it has had a tick for company."""
        if not self._broker.batch.is_urgent:
            if not self._gathering_since:
                self._gathering_since = now
            if now - self._gathering_since < self._settings.tick_seconds:
                return False
        self._gathering_since = 0.0
        return True

    def take(self, is_spent: IsSpent) -> tuple[Batch, EntryBody | None] | None:
        """
        Give the oldest batch, and its body if it is large.

        None if the time was over before it was whole; the next call goes on with it.
        """
        sealing = self.under_way
        if sealing is None:
            batch = self._broker.take_batch()
            most = self._settings
            if (
                len(batch.records) <= most.seal_records_max
                and batch.size_bytes <= most.seal_bytes_max
            ):
                return batch, None
            self._batch = batch
            sealing = self.under_way = Sealing(batch.records, batch.size_bytes)
        while sealing.step():
            if is_spent():
                return None
        self.under_way = None
        return self._batch, sealing.body

    def stop(self) -> None:
        """Forget what was under way: the leadership that gave its numbers is over."""
        self.under_way = None
