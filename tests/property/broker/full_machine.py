"""
A leader whose queue has a limit, and what is dropped of it, beside what may be.

What is dropped is checked as it happens, against the messages that the clients know of: who has
each, and in which order they were sent. How many there are is looked at after each entry.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.errors import QueueFullError
from holdfast.model.format_level import LIMITS_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from tests.unit.broker.conftest import Desk

NAME = "orders"
PREFETCH_SUM = 4
CONSUMERS_MAX = 2


class FullMachine:
    """One queue with a limit, its clients, and what they know."""

    def __init__(self, limit: int, overflow: str, *, is_of_bytes: bool) -> None:
        self.desk = Desk()
        self.limit = limit
        self.drops = overflow == "drop-head"
        self.key = "maxLengthBytes" if is_of_bytes else "maxLength"
        self.consumers: list[Subscription] = []
        self.sent: list[int] = []
        """Keys in the order of sending, under this leader."""
        self.dropped: list[int] = []
        self.dropped_count = 0
        self.largest = 0
        self.desk.broker.sending.now_microseconds = 1_000_000
        self.desk.broker.receipts.record(FormatRecord(LIMITS_LEVEL))
        values = {self.key: limit * (10 if is_of_bytes else 1), "overflow": overflow}
        self.desk.broker.receipts.record(PolicyRecord(f"queue://{NAME}", json.dumps(values)))
        self.desk.turn()
        self.watch()

    @property
    def queue(self) -> Queue:
        return self.desk.queue(NAME)

    def watch(self) -> None:
        """Look at each drop of this leader's."""
        limiting = self.desk.broker.limiting
        drop = limiting._drop

        def checked(queue: Queue, bounds: Any, limits: Any, over: Any) -> None:
            self.check_dropped([*over.stored, *over.volatile])
            drop(queue, bounds, limits, over)

        limiting._drop = checked  # type: ignore[method-assign]

    def held(self) -> set[int]:
        """What somebody has, or comes back from somebody."""
        found = {key for each in self.consumers for key in each.unacknowledged}
        custody = self.queue.custody
        for consumer in custody.returning:
            found.update(consumer.unacknowledged)
        comebacks = custody.comebacks
        return found if comebacks is None else found | set(comebacks.under_way)

    def leaving(self) -> set[int]:
        lists = self.desk.broker.receipts.leaving(self.queue)
        return {key for keys in lists for key in keys} | set(self.dropped)

    def lives(self, key: int) -> bool:
        queue = self.queue
        if key < 0:
            return key in queue.transients
        return key >= queue.lasting.next_sequence or queue.index.is_live(key)

    def free(self) -> list[int]:
        """What nobody has, in the order of sending."""
        gone = self.held() | self.leaving()
        return [key for key in self.sent if key not in gone and self.lives(key)]

    def check_dropped(self, keys: list[int]) -> None:
        if not keys:
            return
        free = self.free()
        assert set(keys) == set(free[: len(keys)]), "the oldest that nobody has"
        leaving = self.leaving()
        there = [key for key in self.sent if key not in leaving and self.lives(key)]
        assert there[-1] not in keys, "the newest stays, whoever has it"
        left = len(there) - len(keys)
        assert left >= self.limit, "no more than is too much"
        self.dropped += keys
        self.dropped_count += len(keys)

    # What clients do ------------------------------------------------------------------------------

    def send(self, random: Random) -> None:
        for _ in range(random.choice((1, 1, 2, 3, 30))):
            queue = self.queue
            first = queue.assigned_sequence
            if self.desk.broker.limiting.refusal(queue, 1, 10) is not None:
                assert not self.drops, "there is room for all"
                return
            self.desk.send(b"0123456789", NAME)
            self.sent.append(first)
            self.desk.broker.limiting.sent(queue, first, 10)

    def send_volatile(self, _random: Random) -> None:
        queue, broker = self.queue, self.desk.broker
        if broker.limiting.refusal(queue, 1, 10, is_stored=False) is None:
            broker.send_transient(queue, b"", b"0123456789")
            self.sent.append(-broker.sending.serial)
            broker.limiting.sent(queue, queue.assigned_sequence, 0)

    def commit_transaction(self, random: Random) -> None:
        broker, queue = self.desk.broker, self.queue
        transaction = broker.begin("t")
        count = random.randint(1, self.limit + 1)
        for _ in range(count):
            broker.hold(transaction, queue, b"", b"0123456789", persistent=True)
        try:
            broker.limiting.require_room(transaction)
        except QueueFullError:
            assert count > self.limit or not self.drops
            for _ in broker.abort(transaction):
                pass
            return
        first = queue.assigned_sequence
        broker.commit(transaction, self.desk.client, None)
        self.sent += range(first, first + count)
        broker.limiting.committed(transaction)

    def subscribe(self, random: Random) -> None:
        if len(self.consumers) < CONSUMERS_MAX:
            mode = random.choice(list(AcknowledgeMode))
            prefetch = PREFETCH_SUM // CONSUMERS_MAX
            self.consumers.append(self.desk.subscribe(NAME, mode=mode, prefetch=prefetch))

    def acknowledge(self, random: Random) -> None:
        holders = [each for each in self.consumers if each.unacknowledged]
        if holders:
            consumer = random.choice(holders)
            key = random.choice(list(consumer.unacknowledged))
            self.desk.broker.acknowledge(consumer, key, self.desk.client, None)

    def leave(self, random: Random) -> None:
        if self.consumers:
            consumer = self.consumers.pop(random.randrange(len(self.consumers)))
            self.desk.broker.unsubscribe(consumer)
            self.desk.broker.errands.finish()

    # What goes on ---------------------------------------------------------------------------------

    def seal(self, _random: Random) -> None:
        self.desk.seal()

    def commit(self, _random: Random) -> None:
        """Apply one entry after the other, and look at each."""
        while self.desk.in_flight:
            (first, timestamp, batch) = self.desk.in_flight.pop(0)
            self.desk.broker.apply_batch(batch, first, timestamp)
            self.check_count()

    def check_count(self) -> None:
        """What is in memory only is there at once; what it drops of the log, with an entry."""
        queue = self.queue
        most = max(self.limit, PREFETCH_SUM + 1)
        assert queue.index.live_count <= most, "an entry of the log leaves too much"
        going = sum(queue.index.is_live(key) for key in self.dropped if key > 0)
        count = queue.index.live_count - going + queue.transient_count
        self.largest = max(self.largest, count)
        # Non-persistent messages that come after the last entry was sealed are looked at with the
        # next one.
        assert count <= most or queue in queue.leadership.filling, "over the limit"

    def turn(self, random: Random) -> None:
        self.desk.broker.wake()
        self.seal(random)
        self.commit(random)
        self.desk.dispatch()
        self.desk.confirm()

    def change_leader(self, _random: Random) -> None:
        self.desk.fail_over()
        self.desk.broker.sending.now_microseconds = 1_000_000
        self.consumers.clear()
        self.dropped.clear()
        index = self.queue.index
        self.sent = list(index.sequences(0, index.last() + 1))
        self.watch()
