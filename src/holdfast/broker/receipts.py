"""
The ledger of batches: durable before told.

Whatever must last goes into the gathering batch, with who is told when it does. A batch is
gathered, closed when it fills a log entry, taken, proposed at an index of the log, applied once the
entry of that index is committed, told, and gone from here. It stands in one place all the way.

Owned by the broker; whoever conducts says what became of a batch. Lives on the leader only: when
the lead ends nobody is told anything more, and nothing has to be undone.

Invariants:
    Nobody but this module calls a `reply` or `confirm` for what depends on the log, and it does so
    only for batches that are applied, or where nothing is under way.
    `in_flight`, oldest first: batches applied and being told, then those that have an index, then
    those taken and not proposed yet; so they are applied and told in the order they were taken.
    `uncommitted_bytes` is what all batches have that are not applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from operator import length_hint

from holdfast.broker.lasting.access import AccessKey, KeptRecord
from holdfast.broker.lasting.access import key_of as access_key_of
from holdfast.broker.lasting.policies import PolicyKey, key_of
from holdfast.broker.outputs import Batch, Publisher, Replier, size_of
from holdfast.broker.serving.advises import SILENCE, Advises
from holdfast.broker.serving.queue import Queue
from holdfast.model.records import (
    FiredRecord,
    HoldRecord,
    PolicyRecord,
    Record,
    ReturnedRecord,
)

Broke = Callable[[Replier, Exception], None]
"""Is told of a mistake of ours that came as somebody was told: it costs that one only."""


class Receipts:
    """All batches of one leadership, and who waits for them."""

    __slots__ = (
        "acknowledged_queues",
        "advising",
        "batch",
        "before_batch_ends",
        "closed",
        "dead_lettered_total",
        "format_level",
        "in_flight",
        "message_bytes_max",
        "proposed_count",
        "uncommitted_bytes",
    )

    def __init__(self) -> None:
        self.batch = Batch()
        """What gathers."""
        self.closed: deque[Batch] = deque()
        """Batches that are full and not yet taken, oldest first."""
        self.in_flight: deque[Batch] = deque()
        """Batches taken, and not yet applied with all replies given, oldest first."""
        self.proposed_count = 0
        """Those of them that have an index and are not applied."""
        self.acknowledged_queues: list[Queue] = []
        """Queues of which something was acknowledged since the gathering batch began."""
        self.uncommitted_bytes = 0
        self.message_bytes_max = 0
        """The most that one message may have, as the store is now; 0: any is stored."""
        self.format_level = 0
        """The level that the log is raised to by a record of these; 0: by none."""
        self.before_batch_ends: Callable[[], None] = lambda: None
        """Puts into the gathering batch what is to be in it before nothing else is."""
        self.advising: Advises = SILENCE
        self.dead_lettered_total = 0
        """Messages stored on the dead-letter queue because they were rejected, of all
        leaderships of this process."""

    def clear(self) -> Iterator[Collection[object]]:
        """Forget all: the leadership is over. Gives what was long, to be let go of."""
        batches = list(self._batches())
        self.batch = Batch()
        self.closed.clear()
        self.in_flight.clear()
        self.acknowledged_queues.clear()
        self.proposed_count = self.uncommitted_bytes = self.format_level = 0
        for batch in batches:
            # Copies: its entry may be half applied, and the rest of it is taken from there.
            yield [*batch.records]
            yield [*batch.replies]
            for each in batch.publications:
                yield each.held

    def is_storable(self, size: int) -> bool:
        """Whether the store takes a message of so many bytes, as it is now."""
        return not self.message_bytes_max or size <= self.message_bytes_max

    def has_batch(self) -> bool:
        """Whether there is anything that must last."""
        batch = self.batch
        if batch.records or batch.replies or batch.publications:
            return True
        return bool(self.acknowledged_queues or self.closed)

    def record(self, record: Record) -> None:
        """Put a record into the gathering batch; somebody waits for it."""
        size = size_of(record)
        self.batch.add(record)
        self.batch.size_bytes += size
        self.uncommitted_bytes += size
        self.batch.is_urgent = True

    def add_records(self, records: Iterable[Record]) -> None:
        """Put records into the gathering batch."""
        for record in records:
            self.record(record)

    def settle(self, queue: Queue, keys: list[int]) -> None:
        """Let acknowledgements of stored messages be part of the gathering batch."""
        if keys:
            if not queue.acknowledged:
                self.acknowledged_queues.append(queue)
            queue.acknowledged += keys
            self.batch.settled_count += len(keys)

    def reply_with_batch(self, replier: Replier, receipt: bytes) -> None:
        """Reply when the gathering batch is stored, or is known to hold nothing to be stored."""
        self.batch.replies.append((replier, receipt))
        self.batch.is_urgent = True

    def reply_after_pending(self, replier: Replier, receipt: bytes) -> None:
        """Reply once everything asked so far is stored; at once if nothing is under way."""
        if self.has_batch():
            self.reply_with_batch(replier, receipt)
        elif self.in_flight:
            self.in_flight[-1].replies.append((replier, receipt))
        else:
            replier.reply(receipt)

    @staticmethod
    def reply_stored(replier: Replier, receipt: bytes) -> None:
        """Reply at once: the request holds nothing but what is applied already."""
        replier.reply(receipt)

    def close_batch(self) -> None:
        """Let what comes next begin a batch of its own: what is gathered fills a log entry."""
        self.before_batch_ends()
        self.closed.append(self._gathered())

    def take_batch(self) -> Batch:
        """Give the oldest of what must last, to be one log entry; it is in flight from now on."""
        if not self.closed:
            self.before_batch_ends()
        self.in_flight.append(self.closed.popleft() if self.closed else self._gathered())
        return self.in_flight[-1]

    def _gathered(self) -> Batch:
        """End the gathering batch and begin the next."""
        batch, self.batch = self.batch, Batch()
        for queue in self.acknowledged_queues:
            if queue.acknowledged:
                if not (queue.is_deleted and queue.topic_number):
                    # Behind its deletion a durable subscription would come back, without a name.
                    batch.add(queue.acknowledgement(queue.acknowledged))
                if self.advising.is_heard:
                    self.advising.consumed(queue, queue.acknowledged)
                queue.acknowledged = []
        self.acknowledged_queues.clear()
        return batch

    def proposed(self, batch: Batch, index: int) -> None:
        """Note at which index of the log a batch stands if it is committed."""
        batch.index = index
        self.proposed_count += 1

    def joins_earlier(self, batch: Batch) -> bool:
        """
        Let what waits for a batch without records wait for what was proposed before it.

        False if nothing was: what is asked for is stored, it may be let go of now.
        """
        if not self.proposed_count:
            return False
        self.in_flight.pop()
        earlier = self.in_flight[-1]
        earlier.replies.extend(batch.replies)
        earlier.publications.extend(batch.publications)
        return True

    def awaiting(self, index: int) -> Batch | None:
        """Give the batch that was proposed at an index, if it is the next to be applied."""
        if not self.in_flight:
            return None
        oldest = self.in_flight[0]
        return oldest if oldest.index == index and not oldest.is_applied else None

    def is_next(self, batch: Batch) -> bool:
        """Whether a batch is still the next: the leadership may have ended meanwhile."""
        return bool(self.in_flight) and self.in_flight[0] is batch

    def applied(self, batch: Batch) -> None:
        """Note that all records of the oldest batch in flight are applied to the state."""
        assert self.in_flight[0] is batch, "batches are applied in the order they were taken"
        batch.is_applied = True
        if batch.index:
            self.proposed_count -= 1
        self.uncommitted_bytes -= batch.size_bytes
        self.dead_lettered_total += batch.dead_letter_count
        if self.advising.is_heard:
            self.advising.arrived(batch.records, batch.size_bytes)

    def released(self, batch: Batch) -> None:
        """Note that all that waited for the oldest batch in flight was told and is seen."""
        released = self.in_flight.popleft()
        assert released is batch, "batches are released in the order they were taken"

    def tell_at_once(self, batch: Batch, count_max: int, broke: Broke) -> bool:
        """Tell all who wait for an applied batch, if they are few; false, and nobody told, else."""
        if batch.publications or len(batch.replies) > count_max:
            return False
        for _ in self.tell(batch, count_max, broke):
            pass
        self.released(batch)
        return True

    def tell(self, batch: Batch, count_max: int, broke: Broke) -> Iterator[None]:
        """Say to each, so many in a step, that what it asked for is stored."""
        replies = iter(batch.replies)
        while not _reply_to(replies, count_max, broke):
            yield

    @staticmethod
    def confirm(told: Iterable[tuple[Publisher, bytes]], broke: Broke) -> None:
        """Say to each that its messages are out, which only this node has: they never last."""
        for publisher, receipt in told:
            try:
                publisher.confirm(receipt)
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                broke(publisher, error)

    def settling(self, wanted: Mapping[int, set[int]] | None = None) -> dict[int, set[int]]:
        """
        Give, by queue number, the sequences whose acknowledgement is on its way to the log.

        Of all there are, or of the `wanted` only: to look one up costs a tenth of noting it.
        """
        found: dict[int, set[int]] = {}
        for number, sequences in self._on_their_way():
            if wanted is None:
                found.setdefault(number, set()).update(sequences)
            elif number in wanted:
                found.setdefault(number, set()).update(wanted[number].intersection(sequences))
        return found

    def _on_their_way(self) -> Iterator[tuple[int, list[int]]]:
        for queue in self.acknowledged_queues:
            yield queue.number, queue.acknowledged
        for batch in self._batches():
            for record in batch.settling:
                yield record.queue_number, record.sequences

    def leaving(self, queue: Queue) -> list[list[int]]:
        """
        Give lists of a queue's sequences that something takes off which is not applied.

        What was acknowledged twice is there twice.
        """
        found = [queue.acknowledged] if queue.acknowledged else []
        is_oldest, index, applied = True, queue.index, queue.lasting.next_sequence
        for batch in self._not_applied():
            lists = batch.leaving_from(queue.number)
            if is_oldest:  # Some of its records may be applied.
                lists = [
                    [it for it in each if it >= applied or index.is_live(it)] for each in lists
                ]
                is_oldest = False
            found += lists
        return found

    def returning(self) -> Iterator[ReturnedRecord]:
        """Give what says of messages that they came back, and is not applied yet, in its order."""
        for batch in self._not_applied():
            yield from batch.returns

    def firing(self) -> Iterator[FiredRecord]:
        """Give what says when scheduled messages are due again, and is not applied yet."""
        for batch in self._not_applied():
            yield from batch.fired

    def settling_count(self) -> int:
        """Give how many acknowledged messages are on their way to the log, about."""
        return sum(batch.settled_count for batch in self._batches())

    def newest_move(self) -> Batch | None:
        """Give the last batch on its way to the log that moves messages; None if none does."""
        moving = [batch for batch in self._not_applied() if batch.moved_count]
        return moving[-1] if moving else None

    def holds_under_way(self) -> dict[str, HoldRecord]:
        """Give, by name, the holds that are set, moved or ended by a record on its way."""
        return {record.name: record for batch in self._batches() for record in batch.holds}

    def policies_under_way(self) -> dict[PolicyKey, PolicyRecord]:
        """Give, by key, the last word of each that is on its way to the log."""
        return {key_of(each): each for batch in self._batches() for each in batch.policies}

    def access_under_way(self) -> dict[AccessKey, KeptRecord]:
        """Give, by key, the last word on each user and grant that is on its way to the log."""
        return {access_key_of(each): each for batch in self._batches() for each in batch.access}

    def _not_applied(self) -> Iterator[Batch]:
        return (batch for batch in self._batches() if not batch.is_applied)

    def _batches(self) -> Iterator[Batch]:
        return chain(self.in_flight, self.closed, (self.batch,))


def _reply_to(replies: Iterator[tuple[Replier, bytes]], count_max: int, broke: Broke) -> bool:
    """Tell so many, or up to one that breaks, which costs that one only; whether it was all."""
    replier: Replier | None = None
    try:
        for replier, receipt in islice(replies, count_max):
            replier.reply(receipt)
    except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
        assert replier is not None, "it broke"
        broke(replier, error)
    return not length_hint(replies)
