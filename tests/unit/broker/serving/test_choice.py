"""
Another choice than the plain one can take a queue: this one gives the newest first.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.broker.serving.choice import Choice, Settle
from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.delivery import Delivery
from holdfast.broker.serving.queue import Queue


class NewestFirst:
    """Gives the newest message to the first consumer with room."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._consumers: dict[Consumer, None] = {}
        self._taken: set[int] = set()
        self._transients: list[int] = []

    @property
    def cursor(self) -> int:
        return self._queue.newest_before + 1

    @property
    def goes_by_priority(self) -> bool:
        return False

    def begin_lanes(self) -> None:
        raise AssertionError("nothing has a priority")

    @property
    def has_ready(self) -> bool:
        return bool(self._consumers)

    def _order(self) -> list[int]:
        lasting = self._queue.lasting
        last = min(lasting.next_sequence - 1, lasting.dispatch_mark)
        kept = self._taken | self._queue.custody.withheld | self._queue.custody.reserved
        stored = self._queue.index.sequences(1, last + 1)
        keys = [key for key in (*stored, *self._transients) if key not in kept]
        return [key for key in keys if key > 0 or key in self._queue.transients]

    def assign(self, settle: Settle, step: list[Delivery], count_max: int) -> bool:
        while len(step) < count_max and (order := self._order()):
            consumer = next((each for each in self._consumers if each.has_room()), None)
            if consumer is None:
                return True
            key = order[-1]
            self._taken.add(key)
            queue = self._queue
            message = queue.cache.get(key) if key > 0 else queue.transients[key]
            number = 0 if message is not None else queue.index.record_number(key)
            step.append((consumer, key, message, number, queue.is_flagged(key)))
            if consumer.mode is AcknowledgeMode.AUTO:
                settle(key)
            else:
                consumer.unacknowledged[key] = None
        return not self._order()

    def make_ready(self, consumer: Consumer) -> bool:
        is_new = consumer not in self._consumers
        self._consumers[consumer] = None
        return is_new or consumer.has_room()

    def leave(self, consumer: Consumer) -> None:
        self._consumers.pop(consumer, None)

    def may_hold(self, consumer: Consumer) -> bool:
        return not consumer.is_closed

    def wake(self, now_ms: int, count_max: int) -> tuple[int, int]:
        return 0, now_ms * 0 * count_max

    def add_transient(self, key: int) -> None:
        self._transients.append(key)

    def give_back(self, order: int, serial: int, key: int) -> None:
        assert order >= key or serial
        self._taken.discard(key)

    def is_at_hand(self, sequence: int) -> bool:
        return sequence not in self._taken

    def skip_to(self, sequence: int) -> None:
        self._taken.update(range(1, sequence))

    def empty(self) -> tuple[Collection[object], ...]:
        transients, self._transients = self._transients, []
        return (transients,)


def newest_first(queue: Queue) -> Choice:
    return NewestFirst(queue)


def chosen(desk) -> Queue:
    """Give a queue on which the newest goes first."""
    queue = desk.queue()
    queue.choose(newest_first(queue))
    return queue


def test_another_choice_takes_a_queue(desk, new_client) -> None:
    """
    Stored messages and those in memory go out as it wants, and what is acknowledged is gone.
    """
    client = new_client()
    chosen(desk)
    for body in (b"1", b"2", b"3"):
        desk.send(body)
    desk.broker.send_transient(desk.queue(), b"", b"in memory")
    desk.turn()
    consumer = desk.subscribe(client=client)
    desk.turn()
    assert client.keys == [-1, 3, 2, 1]
    for key in client.keys:
        desk.broker.acknowledge(consumer, key, client, None)
    desk.turn()
    assert desk.state.live_count() == 0
    assert not desk.queue().transients


def test_what_its_consumer_leaves_goes_to_the_next_flagged(desk, new_client) -> None:
    """
    Giving back is the queue's, whoever chooses; so is what a transaction has reserved.
    """
    chosen(desk)
    for body in (b"1", b"2"):
        desk.send(body)
    desk.turn()
    gone = desk.subscribe()
    desk.turn()
    transaction = desk.broker.begin("t")
    transaction.add_settlement(gone, [2])
    desk.broker.unsubscribe(gone)
    heir = new_client()
    desk.subscribe(client=heir)
    desk.turn()
    assert heir.deliveries == [(1, True)]
    for _ in desk.broker.abort(transaction):
        pass
    desk.turn()
    assert heir.deliveries == [(1, True), (2, True)]


def test_a_purge_takes_everything_from_it(desk, new_client) -> None:
    """
    What comes after it goes out.
    """
    client = new_client()
    chosen(desk)
    desk.send(b"purged")
    desk.turn()
    desk.broker.purge("orders", desk.client, b"p")
    desk.send(b"kept")
    desk.subscribe(client=client)
    desk.turn()
    assert client.keys == [2]
