"""
The broker against its model with consumers that want some messages only; see `claim_machine`.

Each delivery is held against what its consumer wants; whoever wants a message gets it in its order
among all that are wanted so; and what somebody wants who has room does not stay.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from holdfast.broker.serving.consumer import NO_CLAIM, AcknowledgeMode, Claim, Values
from holdfast.broker.serving.delivery import Delivery
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.examiner import Examiner
from holdfast.broker.serving.router.parked import Place
from holdfast.broker.serving.router.sifting import Sifting
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.facts import PRIORITY_MAX
from holdfast.model.records import MessageRecord
from tests.property.broker.claim_machine import ClaimMachine
from tests.property.broker.clients import Consumer
from tests.property.broker.expected import PLACE, Model


class Said(dict[str, object]):
    """What a message says: its number, and the rest of some divisions of it, as texts."""

    def __init__(self, body: bytes, redelivered: int) -> None:
        number = int(body.split()[-1])
        super().__init__(number=number, redelivered=redelivered)
        self.update({f"mod{by}": str(number % by) for by in (2, 3, 7)})
        self["seven"] = number % 7  # A number, though it is looked for as a text.

    def __missing__(self, name: str) -> object:
        return None


class FakeSelector:
    """A selector: a word under a name, and perhaps more than that."""

    effort = 1
    cost_bytes = 10

    def __init__(self, condition: str, *, is_found_by_word: bool = True) -> None:
        self.condition = condition
        self._parts = [part.split("=") for part in condition.split("&")]
        self.literal: tuple[str, str] | None = None
        if is_found_by_word:
            name, word = self._parts[0]
            self.literal = (name, word)

    def selects(self, message: TransientMessage) -> bool:
        raise AssertionError("that is asked on topics only")

    def values_of(
        self, key: int, message: MessageRecord | TransientMessage, redelivered: int
    ) -> Values:
        assert message.body is not None
        return Said(message.body, redelivered)

    def is_true_of(self, values: Mapping[str, object]) -> bool:
        return all(str(values[name]) == word for name, word in self._parts)

    def wants(self, body: bytes, redelivered: int) -> bool:
        return self.is_true_of(Said(body, redelivered))


SELECTORS = [
    None,
    FakeSelector("mod2=0"),
    FakeSelector("mod2=1"),
    FakeSelector("mod3=0", is_found_by_word=False),
    FakeSelector("mod3=1&mod2=1"),
    FakeSelector("mod7=4"),
    FakeSelector("seven=4"),
    FakeSelector("mod7=9"),
    FakeSelector("redelivered=2", is_found_by_word=False),
]


class PickyModel(Model):
    """Which messages live; in what order they go is told by who wants them."""

    def seen_first(self, place: PLACE) -> None:
        """Nothing: it matters who gets it."""


class SelectorMachine(ClaimMachine):
    """A leader and clients that want some messages."""

    def __init__(self) -> None:
        super().__init__()
        self.model: PickyModel = PickyModel()
        self.newest_of: dict[tuple[str, str | None], int] = {}
        """By what keeps its order, and condition: the newest that was delivered first."""
        self.came_back: dict[tuple[str, str | None], int] = {}
        """The same of what was given back, in one dispatch."""
        self.just_given: dict[int, tuple[MessageRecord | TransientMessage | None, int]] = {}
        """What stands in the step, and which delivery of it that is."""

    def subscribe(
        self,
        name: str,
        mode: AcknowledgeMode,
        prefetch: int,
        claim: Claim = NO_CLAIM,
        selector: FakeSelector | None = None,
    ) -> None:
        consumer = Consumer(name, mode, prefetch)
        consumer.subscription.claim = claim
        consumer.subscription.selector = selector
        self.consumers.append(consumer)
        self.broker.subscribe(consumer.subscription, self.broker.queue(name))

    def body_of(self, queue: Queue, key: int) -> bytes:
        if key < 0:
            return self.volatile(queue, key).body
        body = self.read(queue.index.record_number(key)).body
        assert body is not None
        return body

    def volatile(self, queue: Queue, key: int) -> TransientMessage:
        """Give a message, also one that is settled as it is delivered."""
        message = queue.transients.find(key) or self.just_given[key][0]
        assert isinstance(message, TransientMessage)
        return message

    def could_have(self, subscription: Subscription, key: int) -> bool:
        """Whether somebody wants a message, and has nothing parked that comes before it."""
        return self.wants(subscription, key) and not self.has_parked(subscription, key)

    def has_parked(self, subscription: Subscription, key: int) -> bool:
        """Whether something stands before a message for somebody, who may wait for the mark."""
        queue = subscription.queue
        assert queue is not None
        sifting = queue.sifting
        first = None
        if isinstance(sifting, Sifting):
            first = sifting.classes.of(subscription).heads.first()
        if first is None:
            return False
        if key > 0:
            return first < Place(PRIORITY_MAX - queue.index.priority(key), key, 0)
        message = self.volatile(queue, key)
        return first < Place(PRIORITY_MAX - message.priority, message.order, -key)

    def is_seen_in_turn(self, subscription: Subscription, key: int) -> bool:
        """Whether somebody has looked through all that stands before a message."""
        queue = subscription.queue
        assert queue is not None
        sifting = queue.sifting
        if not isinstance(sifting, Sifting):
            return True
        backlog = sifting.classes.of(subscription).backlog
        order = key if key > 0 else self.volatile(queue, key).order
        return backlog is None or backlog.is_before(order)

    def wants(self, subscription: Subscription, key: int) -> bool:
        """Whether somebody wants a message, and has looked through all before it."""
        selector, queue = subscription.selector, subscription.queue
        assert queue is not None
        if not self.is_seen_in_turn(subscription, key):
            return False
        assert selector is None or isinstance(selector, FakeSelector)
        flagged = queue.delivery_count(key) if queue.is_flagged(key) else 0
        if key in self.just_given:
            flagged = self.just_given[key][1]
        return selector is None or selector.wants(self.body_of(queue, key), flagged)

    def dispatch(self) -> None:
        """Deliver; what is to be looked at is read."""
        dispatch = self.broker.routing.dispatch
        self.came_back.clear()

        def reading(settle: object, sieve: object) -> Generator[list[Delivery], None, None]:
            for step in dispatch(settle, sieve):  # type: ignore[arg-type]
                taken = []
                self.just_given = {each[1]: (each[2], each[4]) for each in step}
                for delivery in step:
                    subscription, key, message, number, _ = delivery
                    if type(subscription) is Examiner:
                        assert message is None
                        subscription.examine(key, self.read(number))
                    else:
                        taken.append(delivery)
                yield taken

        routing = _Reading(reading)
        before, self.broker.routing = self.broker.routing, routing  # type: ignore[assignment]
        try:
            super().dispatch()
        finally:
            self.broker.routing = before
            self.just_given.clear()
        for _, error in self.broker.broken:
            raise error

    def check_turn(self, subscription: Subscription, key: int) -> None:
        assert self.wants(subscription, key), "nobody asked for it"
        super().check_turn(subscription, key)

    def check_order(
        self, subscription: Subscription, place: PLACE, given_back: dict[str, int]
    ) -> None:
        """What is wanted by somebody goes to him in order; what was given back in its place."""
        selector = subscription.selector
        who = (self.stream_of(place), None if selector is None else selector.condition)
        order = self.model.order[place]
        if place in self.model.returned:
            assert order > self.came_back.get(who, 0), "given back, and out of order"
            self.came_back[who] = order
        elif place not in self.model.seen and place not in self.model.claimed:
            is_late = place in self.model.overtaken or order > self.newest_of.get(who, 0)
            assert is_late, f"{place} is out of order"
            self.newest_of[who] = max(order, self.newest_of.get(who, 0))

    def stream_of(self, place: PLACE) -> str:
        """Tell among what a message keeps its order: among all of its queue."""
        return place[0]

    def change_leader(self, survivors: int, way: str) -> None:
        super().change_leader(survivors, way)
        self.newest_of.clear()


class _Reading:
    """Dispatches as the broker does."""

    def __init__(self, dispatch: object) -> None:
        self.dispatch = dispatch
