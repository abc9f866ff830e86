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
from holdfast.server.settings import ServerSettings
from holdfast.store.contract import BatchBody, CommitFlow
from holdfast.store.sealing import Sealing


class Sealer:
    """Takes batches from the broker, oldest first, and seals large ones over several turns."""

    __slots__ = (
        *("_batch", "_broker", "_bytes_max", "_gathering_since", "_settings", "_store"),
        "under_way",
    )

    def __init__(self, broker: Broker, store: CommitFlow, settings: ServerSettings) -> None:
        self._broker = broker
        self._store = store
        self._settings = settings
        self._bytes_max = broker.settings.batch_bytes_max
        """With so much, or a little more, the gathering batch is full."""
        self._batch: Batch | None = None
        """What is sealed now; nothing else, as it may have 60 MiB that nobody needs after it."""
        self._gathering_since = 0.0
        self.under_way: Sealing | None = None
        """The large batch that was begun with and is not done."""

    def bound(self, bytes_max: int) -> None:
        """Gather less than the settings say, as the store is slow; 0: as they say."""
        usual = self._broker.settings.batch_bytes_max
        self._bytes_max = min(usual, bytes_max) if bytes_max else usual

    def has_work(self) -> bool:
        """Whether there is anything that must last and was not given."""
        return self.under_way is not None or self._broker.receipts.has_batch()

    def is_full(self) -> bool:
        """Whether the gathering batch goes although an earlier one is being written."""
        receipts = self._broker.receipts
        batch = receipts.batch
        most = self._settings
        return (
            batch.size_bytes >= self._bytes_max
            or len(batch.records) + len(receipts.acknowledged_queues) >= most.batch_records_max
            or batch.settled_count >= most.batch_settled_count_max
        )

    def is_over(self) -> bool:
        """Whether the gathering batch is more than full, so that nothing else is to be in it."""
        receipts = self._broker.receipts
        batch = receipts.batch
        most = self._settings
        return (
            batch.size_bytes > self._bytes_max
            or len(batch.records) + len(receipts.acknowledged_queues) > most.batch_records_max
            or batch.settled_count > most.batch_settled_count_max
        )

    def close_full(self) -> None:
        """Let nothing else into the gathering batch, if it is more than full."""
        if self.is_over():
            self._broker.receipts.close_batch()

    def is_due(self, now: float) -> bool:
        """Whether somebody waits for the gathering batch, or it has had a tick for company."""
        if not self._broker.receipts.batch.is_urgent:
            if not self._gathering_since:
                self._gathering_since = now
            if now - self._gathering_since < self._settings.tick_seconds:
                return False
        self._gathering_since = 0.0
        return True

    def take(self, is_spent: IsSpent) -> tuple[Batch, BatchBody | None] | None:
        """
        Give the oldest batch, and its body if it is large.

        None if the time was over before it was whole; the next call goes on with it.
        """
        sealing = self.under_way
        if sealing is None:
            batch = self._broker.receipts.take_batch()
            most = self._settings
            if (
                len(batch.records) <= most.seal_records_max
                and batch.size_bytes <= most.seal_bytes_max
                and not batch.unnumbered
            ):
                return batch, None
            self._batch = batch
            body = self._store.new_body(batch.size_bytes)
            sealing = self.under_way = Sealing(body, batch.records, batch.unnumbered)
        while sealing.step():
            if is_spent():
                return None
        whole = self._batch
        assert whole is not None, "it was begun with"
        self.stop()
        return whole, sealing.body

    def stop(self) -> None:
        """Forget what was under way: the leadership that gave its numbers is over."""
        self.under_way = None
        self._batch = None
