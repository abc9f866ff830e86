"""
The broker against its model with consumers that are not equal: some want to be the only one, some
have a higher priority; see `broker_machine`.

Beside what is true of all deliveries, each is held against who claims what at that moment; and what
may go to somebody who has room is gone after some turns. Some only look through a queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import ClassVar

from holdfast.broker.serving.browser import END_KEY
from holdfast.broker.serving.consumer import NO_CLAIM, AcknowledgeMode, Claim
from holdfast.broker.serving.delivery import Delivery
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.router import Router
from holdfast.broker.serving.router.sole import DRAIN_MS
from holdfast.broker.serving.subscription import Subscription
from tests.property.broker.broker_machine import BrokerMachine, Consumer

PRIORITIES = (-128, -1, 0, 0, 1, 127)
CLAIMS = [Claim(priority, kind) for priority in PRIORITIES for kind in (False, True)]


class Look:
    """What somebody is to be shown of a queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        keys = queue.index.sequences(1, queue.lasting.next_sequence)
        self._places = {key: (key, 0) for key in keys if not queue.has_ended(key)}
        self._places |= {key: (it.order, -key) for key, it in queue.transients.items()}
        self.shown: list[int] = []

    def check(self) -> None:
        """Whether it was so, in order, and then the end; what is gone meanwhile may be missing."""
        *keys, end = self.shown
        assert end == END_KEY
        assert keys == sorted(keys, key=self._places.__getitem__)
        assert len(keys) == len(set(keys))
        queue = self._queue
        missing = [] if queue.is_deleted else self._places.keys() - set(keys)
        assert not any(it > 0 and not queue.has_ended(it) for it in missing)
        assert not any(it in queue.transients for it in missing)


class ClaimMachine(BrokerMachine):
    """A leader and clients that claim something before others."""

    LOOK: ClassVar[type[Look]] = Look
    TURNS: ClassVar[int] = 6
    """After so many what may go has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.taken_over: set[Queue] = set()
        """Where a deadline has passed: what transactions hold was waited for no more."""
        self.looks: dict[Subscription, Look] = {}

    def subscribe(
        self, name: str, mode: AcknowledgeMode, prefetch: int, claim: Claim = NO_CLAIM
    ) -> None:
        consumer = Consumer(name, mode, prefetch)
        consumer.subscription.claim = claim
        self.consumers.append(consumer)
        self.broker.subscribe(consumer.subscription, self.broker.queue(name))

    def deadlines_pass(self) -> None:
        """Who does not let go has taken from him what he holds; it is the queue's again."""
        for milliseconds in (0, DRAIN_MS):
            self.time_passes(milliseconds)

    def time_passes(self, milliseconds: int) -> None:
        super().time_passes(milliseconds)
        if milliseconds == DRAIN_MS:
            every = [it.subscription for it in self.consumers]
            self.taken_over |= {it.queue for it in every if it.queue and it.reserved_count}
            # Who holds some in a step that is to come may still put it into a transaction.
            for queue in self.served():
                if isinstance(queue.choice, Router) and queue.choice.is_draining:
                    self.taken_over.add(queue)
        for consumer in self.consumers:
            window = consumer.subscription.unacknowledged
            lost = [key for key in consumer.held if key not in window]
            self.gives_back([consumer.held.pop(key) for key in lost])

    def served(self) -> list[Queue]:
        return [*self.broker.destinations.leadership.by_name.values()]

    def of(self, queue: Queue) -> list[Subscription]:
        """Give who consumes from a queue, in the order in which they came."""
        return [it.subscription for it in self.consumers if it.subscription.queue is queue]

    def sole(self, queue: Queue) -> Subscription | None:
        """Give who is to be the only one, None if all get messages or it is not to be told."""
        asking = [each for each in self.of(queue) if each.claim.is_exclusive]
        return max(asking, key=lambda each: each.claim.priority, default=None)

    def is_draining(self, queue: Queue) -> bool:
        """Whether somebody else than the only one holds something."""
        sole = self.sole(queue)
        return sole is not None and any(self.holds(each) for each in self.of(queue) if each != sole)

    @staticmethod
    def holds(subscription: Subscription) -> bool:
        return bool(subscription.unacknowledged or subscription.reserved_count)

    def dispatch(self) -> None:
        """Deliver, and hold each delivery against who claims what."""
        dispatch = self.broker.dispatch

        def watched() -> Generator[list[Delivery], None, None]:
            for step in dispatch():
                taken: list[Delivery] = []
                for delivery in step:
                    subscription = delivery[0]
                    assert isinstance(subscription, Subscription)
                    if subscription.browser is not None:
                        self.looks[subscription].shown.append(delivery[1])
                        continue
                    self.check_turn(subscription, delivery[1])
                    taken.append(delivery)
                yield taken

        self.broker.dispatch = watched  # type: ignore[method-assign]
        try:
            super().dispatch()
        finally:
            del self.broker.dispatch
        for look in self.looks.values():
            look.check()
        self.looks.clear()

    def browse(self, name: str) -> None:
        """Look through a queue: nothing of it is taken, and all that stays is shown."""
        if self.broker.destinations.has_queue(name):
            queue = self.broker.queue(name)
            receiver = Consumer(name, AcknowledgeMode.AUTO, 1)
            subscription = Subscription(receiver, "b", mode=AcknowledgeMode.AUTO, prefetch=1)
            self.broker.browse(subscription, queue)
            self.looks[subscription] = self.LOOK(queue)

    def check_turn(self, subscription: Subscription, key: int) -> None:
        """Whether it was this one's turn to get a message."""
        queue = subscription.queue
        assert queue is not None
        others = [each for each in self.of(queue) if each is not subscription]
        sole = self.sole(queue)
        if sole is None:
            higher = [it for it in others if it.claim.priority > subscription.claim.priority]
            higher = [each for each in higher if self.could_have(each, key)]
            assert not any(each.has_room() for each in higher), "a higher one had room"
            return
        assert subscription.claim.is_exclusive, "somebody else is the only one"
        assert subscription.claim.priority == sole.claim.priority, "a higher one is"
        if sole.claim.priority < CLAIMS[-1].priority:
            assert subscription is sole, "another one came first"
        assert not any(each.unacknowledged for each in others), "two hold messages at once"
        if queue not in self.taken_over:
            assert not any(each.reserved_count for each in others), "a transaction holds some"

    def could_have(self, subscription: Subscription, key: int) -> bool:
        """Whether somebody wants a message."""
        return True

    def abort_transaction(self, number: int) -> None:
        """What a consumer cannot have back, as another one took over, is the queue's again."""
        if not self.transactions:
            return
        opened = self.transaction(number)
        self.transactions.remove(opened)
        deque(self.broker.abort(opened.transaction), maxlen=0)
        for consumer, held in reversed(opened.settled):
            window = consumer.subscription.unacknowledged
            is_back = consumer in self.consumers and held.keys() <= window.keys()
            if is_back:
                consumer.held = {**held, **consumer.held}
            else:
                self.gives_back(list(held.values()))
        for queue, key, place in opened.late:
            choice = queue.choice
            back = queue.custody.comebacks
            if queue.is_withheld(key) or (back and key in back.under_way):  # It is yet to come.
                self.model.coming[place] = queue.returned_so_far(key).due_ms
            elif choice.is_at_hand(key) and key < choice.cursor and place in self.model.seen:
                # Else a former leader gave it to somebody, and with this one it comes in its turn.
                self.gives_back([place])

    def come_to_rest(self) -> None:
        """What may go to somebody who has room does."""
        for _ in range(self.TURNS):
            self.turn()
        for queue in self.served():
            consumers = self.of(queue)
            sole = self.sole(queue)
            if sole is not None:
                consumers = (
                    [] if self.is_draining(queue) or self.is_held_by_closed(queue) else [sole]
                )
                if sole.claim.priority == CLAIMS[-1].priority:
                    consumers = []  # Which of those it is the model does not know.
            consumers = [each for each in consumers if each.has_room()]
            last = queue.lasting.next_sequence
            left = [key for key in queue.index.sequences(1, last) if queue.choice.is_at_hand(key)]
            left = [key for key in left if not queue.is_withheld(key)]
            left = [key for key in left if any(self.could_have(it, key) for it in consumers)]
            assert not left, f"{left} are there, and somebody has room"

    def is_held_by_closed(self, queue: Queue) -> bool:
        """Whether a transaction of somebody who is gone holds some of a queue."""
        return any(
            subscription.queue is queue and subscription.is_closed
            for opened in self.transactions
            for subscription in opened.transaction.settlements
        )

    def change_leader(self, survivors: int, way: str) -> None:
        super().change_leader(survivors, way)
        self.taken_over.clear()
        self.looks.clear()
