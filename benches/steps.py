"""
What the broker does in slices: what one unit of it costs, and how long its longest step takes.

One process, no sockets, no disk; processor time of this thread, so that other work on the machine
does not count. A slice of the loop ends with the step in which its time is over: a turn is longer
than its slices by these steps.

Run: .venv/bin/python benches/steps.py
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from pathlib import Path

from machine import print_heading

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.producers import Producers
from holdfast.broker.lasting.record_steps import record_steps
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import MessageRecord

_MESSAGES = 500_000
_SUBSCRIBERS = 100_000
_QUEUES = 100_000
_SENDS = 100_000
_WINDOW = 65_535
_CONSUMERS = 200_000
_PRODUCERS = 200_000
_RECORDS_PER_STEP = 512
_OBJECTS = 100_000


class Client:
    """A connection that takes everything."""

    def __init__(self) -> None:
        self.room_bytes = 1 << 40
        self.subscriptions: dict[str, Subscription] = {}

    def reply(self, receipt: bytes) -> None:
        """Take a receipt."""


def leading() -> Broker:
    """A broker that leads."""
    broker = Broker(BrokerSettings(temporary_count_max=_QUEUES))
    broker.lead()
    return broker


def commit(broker: Broker) -> None:
    """Apply what has gathered."""
    while broker.receipts.has_batch():
        broker.apply_batch(broker.receipts.take_batch(), broker.sending.serial + 1, 1)


def filled() -> Broker:
    """A broker with one queue that is full, all in memory."""
    broker = leading()
    for _ in range(_MESSAGES):
        broker.send(broker.queue("q"), b"", b"x" * 40, Client(), None)
    commit(broker)
    return broker


def measure(what: str, count: int, step: Callable[[], bool]) -> None:
    """Do steps until one says that there is nothing left; print a line."""
    gc.collect()
    total = longest = 0.0
    is_left = True
    while is_left:
        began = time.thread_time()
        is_left = step()
        seconds = time.thread_time() - began
        total += seconds
        longest = max(longest, seconds)
    print(f"| {what} | {count:,} | {total / count * 1e6:.2f} us | {longest * 1000:.2f} ms |")


def free(broker: Broker) -> Callable[[], bool]:
    """Let go of what is gone, a step at a time."""

    def step() -> bool:
        broker.let_go(lambda: True)
        return broker.has_to_let_go

    return step


def once(work: Callable[[], object]) -> Callable[[], bool]:
    """Work that is not in steps."""

    def step() -> bool:
        work()
        return False

    return step


def purge() -> None:
    """A full queue."""
    broker = filled()
    request = once(lambda: broker.purge("q", Client(), b"p"))
    measure("a purge: the request", 1, request)
    measure("a purge: its record is applied", 1, once(lambda: commit(broker)))
    measure("a purge: a message in memory is freed", _MESSAGES, free(broker))


def publish() -> None:
    """A message for many."""
    broker = leading()
    topic = broker.topic("t")
    for number in range(_SUBSCRIBERS):
        client = Client()
        one = Subscription(client, f"{number}", mode=AcknowledgeMode.AUTO, prefetch=9)
        client.subscriptions["s"] = one
        broker.subscribe(one, topic)
    measure("a message to a topic: the SEND", 1, once(lambda: broker.publish(topic, b"", b"x")))
    steps = broker.dispatch()
    measure(
        "a message to a topic: a subscription",
        _SUBSCRIBERS,
        lambda: next(steps, None) is not None,
    )


def leave() -> None:
    """A connection with many temporary queues."""
    broker = leading()
    owner = Client()
    for number in range(_QUEUES):
        queue = broker.temporaries.queue(f"{number}", owner)
        broker.send_transient(queue, b"", b"x")
    steps = broker.drop_temporary(owner)
    measure("a temporary queue goes", _QUEUES, lambda: next(steps, steps) is not steps)


def sums() -> None:
    """What status and cleaning ask of all queues."""
    broker = leading()
    for number in range(_QUEUES):
        broker.queue(f"{number}")
    commit(broker)
    state = broker.state
    measure("live messages and bytes of all queues", 1, once(state.live_count))


def commit_many() -> None:
    """A transaction of as many sends as may be, to one queue and to as many as may be."""
    for destinations in (1, 5_000):
        broker = leading()
        queues = [broker.queue(f"{number}") for number in range(destinations)]
        transaction = broker.begin("t")
        for number in range(_SENDS):
            to = queues[number % destinations]
            broker.hold(transaction, to, b"", b"x" * 40, persistent=True)
        ask = partial(broker.commit, transaction, Client(), b"r")
        measure(f"COMMIT: the sends, to {destinations:,} queues", _SENDS, once(ask))
        steps = chain.from_iterable(broker.receipts.take_batch().unnumbered)
        number = partial(next, steps, steps)
        measure("after it: their numbers", _SENDS, lambda it=number, end=steps: it() is not end)


def commit_acknowledged() -> None:
    """A transaction of as many acknowledgements as may be, of as many subscriptions as may be."""
    subscriptions = 5_000
    broker = leading()
    queue = broker.queue("q")
    client = Client()
    transaction = broker.begin("t")
    each = _SENDS // subscriptions
    for number in range(subscriptions):
        one = Subscription(client, f"{number}", mode=AcknowledgeMode.CLIENT, prefetch=each)
        broker.subscribe(one, queue)
        keys = list(range(number * each + 1, (number + 1) * each + 1))
        one.unacknowledged = dict.fromkeys(keys)
        transaction.add_settlement(one, keys)
    ask = partial(broker.commit, transaction, client, b"r")
    measure(f"COMMIT: acknowledgements of {subscriptions:,} subscriptions", _SENDS, once(ask))

    def step() -> bool:
        broker.errands.run(lambda: True)
        return bool(broker.errands)

    measure("after it: what is done for each", _SENDS, step)


def abort_acknowledged() -> None:
    """A transaction of as many acknowledgements of one subscription, with a full window since."""
    broker = leading()
    queue = broker.queue("q")
    one = Subscription(Client(), "s", mode=AcknowledgeMode.CLIENT, prefetch=_WINDOW)
    broker.subscribe(one, queue)
    one.unacknowledged = dict.fromkeys(range(1, _SENDS + _WINDOW))
    transaction = broker.begin("t")
    for key in range(1, _SENDS):
        transaction.add_settlement(one, [key])
    steps = broker.abort(transaction)
    total = _SENDS + _WINDOW
    measure("ABORT: acknowledgements and deliveries", total, lambda: next(steps, steps) is None)


def acknowledge() -> None:
    """One acknowledgement of as many messages as may be, and the record that comes of it."""
    broker = leading()
    queue = broker.queue("q")
    for _ in range(_WINDOW):
        broker.send(queue, b"", b"x" * 40, Client(), None)
    commit(broker)
    client = Client()
    one = Subscription(client, "s", mode=AcknowledgeMode.CLIENT, prefetch=_WINDOW)
    broker.subscribe(one, queue)
    while len(one.unacknowledged) < _WINDOW:
        for _ in broker.dispatch():
            pass
        commit(broker)
    last = next(reversed(one.unacknowledged))
    ask = partial(broker.acknowledge, one, last, client, b"r")
    measure("one ACK: the messages", _WINDOW, once(ask))
    records = broker.receipts.take_batch().records
    steps = record_steps(broker.sending.serial + 1, records, _RECORDS_PER_STEP, broker.state.queues)

    def step() -> bool:
        first, some = next(steps, (0, []))
        broker.apply_entry(first, some, 1)
        return bool(some)

    measure("its record is applied, on every node", _WINDOW, step)


def acknowledge_late() -> None:
    """An acknowledgement by message id on a queue with as many consumers as may be."""
    broker = leading()
    queue = broker.queue("q")
    broker.send(queue, b"", b"x", Client(), None)
    commit(broker)
    for number in range(_CONSUMERS):
        one = Subscription(Client(), f"{number}", mode=AcknowledgeMode.CLIENT, prefetch=1)
        broker.subscribe(one, queue)
    for _ in broker.dispatch():
        pass
    holder = next(each for each in queue.subscriptions if each.unacknowledged)
    broker.acknowledge(holder, 1, Client(), None)  # It is on its way.
    ask = partial(broker.acknowledge_identity, queue.number, 1, Client(), None)
    measure("a late ACK: the consumers of its queue", _CONSUMERS, once(ask))


def producers() -> None:
    """As many producers as are kept: one more message of each, while somebody has asked for all."""
    known = Producers()
    for number in range(_PRODUCERS):
        known.stored(f"producer-{number}", 1, number, 1)
    measure("all producers as they are", 1, once(known.as_they_are))
    numbers = iter(range(_PRODUCERS))

    def step() -> bool:
        some = list(islice(numbers, _RECORDS_PER_STEP))
        for number in some:
            known.stored(f"producer-{number}", 2, number, 2)
        return bool(some)

    measure("after it: one message of each, 512 in a step", _PRODUCERS, step)


def end_leading() -> None:
    """The end, and the beginning, of a leadership of as many queues as may be."""
    broker = leading()
    for number in range(_QUEUES):
        broker.queue(f"{number}")
    commit(broker)
    measure("the lead ends", 1, once(broker.follow))
    measure("the next begins", 1, once(broker.lead))
    measure("after it: what the first one had is freed", _QUEUES, free(broker))


def cycles() -> None:
    """What the collector of cycles looks at in a tick: what was made since the last one."""
    gc.collect()
    kept = [MessageRecord(1, number, b"", b"", 0) for number in range(_OBJECTS)]
    began = time.thread_time()
    gc.collect(0)
    seconds = time.thread_time() - began
    each = seconds / _OBJECTS * 1e6
    print(f"| cycles: a new object | {len(kept):,} | {each:.2f} us | {seconds * 1000:.2f} ms |")


def main() -> None:
    """Measure and print."""
    gc.disable()  # A node looks for cycles at each tick, see `cycles`.
    print_heading(Path(tempfile.gettempdir()), nodes="none, one process")
    print("| what | at the limit | processor time of one | longest step |")
    print("|---|---|---|---|")
    for work in WORK:
        work()


WORK = (
    purge,
    publish,
    leave,
    sums,
    commit_many,
    commit_acknowledged,
    abort_acknowledged,
    acknowledge,
    acknowledge_late,
    producers,
    end_leading,
    cycles,
)


if __name__ == "__main__":
    main()
