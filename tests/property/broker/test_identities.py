"""
No message id is ever given twice: whatever is lost by a forced promotion or brought back by a
restore, an acknowledgement that comes late settles the message its sender saw, or nothing.
"""

from __future__ import annotations

from itertools import chain
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.snapshot import encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError, UnknownDeliveryError
from holdfast.model.numbering import Numbering, generation_of
from holdfast.model.records import MessageRecord
from holdfast.store.record_codec import decode_records, encode_records

NAMES = ("a", "b")
SETTINGS = BrokerSettings(dispatch_mark_step_min=4, dispatch_mark_step_max=16)
LogEntry = tuple[int, bytes, int]
"""First record, body and term."""


class World:
    """A cluster whose copies may lag, and a consumer who remembers every id it ever saw."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.log: list[LogEntry] = []
        self.tails: list[list[LogEntry]] = []
        """Logs of deposed leaders of this generation, with what they alone have."""
        self.generation = 0
        self.term = 2
        self.room_bytes = 1 << 30
        self.subscriptions: dict[str, Subscription] = {}
        self.seen: dict[tuple[int, int], bytes] = {}
        """Queue number and key of everything delivered, and its content."""
        self.bodies: set[bytes] = set()
        self.count = 0
        self.restored = 0
        """So many entries are what the last restore wrote: every copy has them."""
        self.broker = Broker(SETTINGS)
        self.broker.lead(self.numbering)

    @property
    def numbering(self) -> Numbering:
        return Numbering(self.generation, self.term)

    def reply(self, receipt: bytes) -> None:
        assert receipt

    # What happens ---------------------------------------------------------------------------------

    def send(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            self.count += 1
            queue = self.broker.queue(self.random.choice(NAMES))
            self.broker.send(queue, b"", b"%d" % self.count, self, None)

    def send_volatile(self) -> None:
        self.count += 1
        queue = self.broker.queue(self.random.choice(NAMES))
        self.broker.send_transient(queue, b"", b"%d" % self.count)

    def subscribe(self) -> None:
        name = self.random.choice(NAMES)
        if name not in self.subscriptions:
            mode = AcknowledgeMode.INDIVIDUAL
            subscription = Subscription(self, name, mode=mode, prefetch=self.random.randint(1, 9))
            self.subscriptions[name] = subscription
            self.broker.subscribe(subscription, self.broker.queue(name))

    def leave(self) -> None:
        for subscription in self.subscriptions.values():
            self.broker.unsubscribe(subscription)
        self.subscriptions.clear()

    def acknowledge(self) -> None:
        for subscription in self.subscriptions.values():
            for key in list(subscription.unacknowledged)[:2]:
                self.broker.acknowledge(subscription, key, self, None)

    def acknowledge_late(self) -> None:
        persistent = [place for place in self.seen if place[1] > 0]
        if not persistent:
            return
        place = self.random.choice(persistent)
        self.turn()
        before = self.live()
        try:
            self.broker.acknowledge_identity(*place, self, None)
        except UnknownDeliveryError:
            return
        self.turn()
        gone = before - self.live()
        assert gone <= {self.seen[place]}, f"{gone} went, and {self.seen[place]} was meant"

    def delete(self) -> None:
        self.leave()
        try:
            self.broker.delete(self.random.choice(NAMES), self, b"d")
        except DestinationError:
            return

    # The log --------------------------------------------------------------------------------------

    def turn(self) -> None:
        self.dispatch()
        while self.broker.receipts.has_batch():
            batch = self.broker.receipts.take_batch()
            first = self.next_record
            self.log.append((first, b"".join(encode_records(batch.records)), self.term))
            self.broker.apply_batch(batch, first, len(self.log), self.term)
            self.dispatch()

    @property
    def next_record(self) -> int:
        if not self.log:
            return 1
        first, body, _ = self.log[-1]
        return first + sum(1 for _ in decode_records(body))

    def dispatch(self) -> None:
        for subscription, key, message, record_number, flagged in chain.from_iterable(
            self.broker.dispatch()
        ):
            queue = subscription.queue
            assert isinstance(queue, Queue)
            content = message or self.read(record_number)
            body = getattr(content, "body", None)
            assert isinstance(body, bytes)
            if key > 0:
                known = self.seen.setdefault((queue.number, key), body)
                assert known == body, f"the id of {known!r} was given to {body!r}"
                assert flagged or body not in self.bodies, f"{body!r} came again and hid it"
                self.bodies.add(body)

    def read(self, record_number: int) -> object:
        for first, body, _ in reversed(self.log):
            if first <= record_number:
                return list(decode_records(body))[record_number - first]
        raise AssertionError(record_number)

    def live(self) -> set[bytes]:
        found = set()
        for queue in self.broker.state.queues.values():
            for key in queue.index.sequences(1, queue.next_sequence):
                record = self.read(queue.index.record_number(key))
                assert isinstance(record, MessageRecord)
                found.add(record.body or b"")
        return found

    # Who goes on ----------------------------------------------------------------------------------

    def fail_over(self) -> None:
        """Another node that has everything takes over, from the log or from a checkpoint."""
        self.term += self.random.choice((1, 1, 1, 3))
        state = BrokerState(SETTINGS)
        for number, (first, body, term) in enumerate(self.log):
            state.apply(first, decode_records(body, with_content=False), number, term)
        if self.random.random() < 0.5:
            state = decode_state(b"".join(encode_state(state)), SETTINGS)
        self.subscriptions.clear()
        self.broker = Broker(SETTINGS, state)
        self.broker.lead(self.numbering)

    def depose(self) -> None:
        """A leader is cut off and goes on for a while; another one, without that, takes over."""
        self.turn()
        log = [*self.log]
        for _ in range(self.random.randint(1, 4)):
            self.send()
            batch = self.broker.receipts.take_batch()
            first = log[-1][0] + sum(1 for _ in decode_records(log[-1][1])) if log else 1
            log.append((first, b"".join(encode_records(batch.records)), self.term))
        self.tails.append(log)
        self.fail_over()

    def promote(self) -> None:
        """A copy that lags goes on alone, or a leader that was deposed."""
        if self.tails and self.random.random() < 0.5:
            self.log = self.random.choice(self.tails)
        else:
            lag = self.random.randint(0, min(6, len(self.log) - self.restored))
            del self.log[len(self.log) - lag :]
        self.tails.clear()
        self.generation += 1
        self.term += 1000
        self.fail_over()

    def restore(self) -> None:
        """An archive that ends somewhere becomes a new cluster under the old name."""
        del self.log[len(self.log) - self.random.randint(0, min(6, len(self.log))) :]
        self.restored = len(self.log)
        self.tails.clear()
        self.fail_over()
        queues = self.broker.state.queues.values()
        newest = max((generation_of(queue.next_sequence) for queue in queues), default=0)
        self.generation = newest + 100 + self.random.randrange(1 << 18)
        self.fail_over()


STEPS = {
    World.send: 6,
    World.send_volatile: 2,
    World.subscribe: 5,
    World.leave: 2,
    World.acknowledge: 4,
    World.acknowledge_late: 5,
    World.delete: 1,
    World.fail_over: 1,
    World.depose: 1,
    World.promote: 2,
    World.restore: 0.5,
}


@given(seed=st.integers(0, 1 << 32))
def test_no_id_is_given_twice(seed: int) -> None:
    """
    Through failovers, forced promotions with lag, several in a row, restores and promotions after.
    """
    random = Random(seed)
    world = World(random)
    for _ in range(60):
        (step,) = random.choices(list(STEPS), list(STEPS.values()))
        step(world)
        if random.random() < 0.8:
            world.turn()
    world.leave()
    world.turn()
    for name in NAMES:
        world.broker.send_transient(world.broker.queue(name), b"", b"last %b" % name.encode())
    before = world.live()
    for _ in NAMES:
        world.subscribe()
    while len(world.subscriptions) < len(NAMES):
        world.subscribe()
    for _ in range(400):
        world.turn()
        if not any(each.unacknowledged for each in world.subscriptions.values()):
            break
        world.acknowledge()
    assert not world.live(), f"of {len(before)} messages some never came"
    world.broker.let_go(lambda: False)
    assert world.broker.flow.memory_bytes == 0, "a non-persistent message never came"
