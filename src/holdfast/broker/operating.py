"""
What operators ask of queues and of the log: one record each, however much is on them.

What the record will remove is out of everybody's reach from the request on: it is delivered to
nobody any more. What comes after the request stays.
"""

from __future__ import annotations

from holdfast.broker.destinations import Destinations
from holdfast.broker.outputs import Replier
from holdfast.broker.receipts import Receipts
from holdfast.errors import DestinationError
from holdfast.model.records import HoldRecord, PurgeRecord


class Operating:
    """Requests of operators that must last."""

    __slots__ = ("_destinations", "_receipts")

    def __init__(self, receipts: Receipts, destinations: Destinations) -> None:
        self._receipts = receipts
        self._destinations = destinations

    def keep_log(self, hold: HoldRecord, replier: Replier, receipt: bytes) -> None:
        """Keep the log for a named reader from an index on; index 0 ends that."""
        self._receipts.record(hold)
        self._receipts.reply_with_batch(replier, receipt)

    def purge(self, name: str, replier: Replier, receipt: bytes) -> int:
        """
        Remove every message now on a queue, also those in delivery; give their number.

        Raises:
            DestinationError: There is no such queue.
        """
        queue = self._destinations.existing(name)
        through = queue.assigned_sequence - 1
        removed = queue.index.live_count + len(queue.transients)
        self._destinations.empty(queue)
        queue.purging_through = through
        queue.choice.skip_to(through + 1)
        self._receipts.record(PurgeRecord(queue.number, through))
        self._receipts.reply_with_batch(replier, receipt)
        return removed

    def delete(self, name: str, replier: Replier, receipt: bytes) -> int:
        """
        Remove a queue with its messages; give their number. Who came by a wildcard leaves it.

        Raises:
            DestinationError: There is no such queue, or somebody consumes from it.
        """
        queue = self._destinations.existing(name)
        consumer_count = len(queue.subscriptions) - queue.wild_count
        if consumer_count:
            raise DestinationError(
                f"queue {name!r} has {consumer_count} consumers; disconnect them first"
            )
        removed = queue.index.live_count + len(queue.transients)
        self._destinations.delete(queue)
        self._receipts.reply_with_batch(replier, receipt)
        return removed
