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
from pathlib import Path

from machine import print_heading

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.subscription import AcknowledgeMode, Subscription

_MESSAGES = 500_000
_SUBSCRIBERS = 100_000
_QUEUES = 100_000
_GARBAGE_THRESHOLDS = (10_000, 500, 100)
"""As a node has them."""


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
    while broker.has_batch():
        broker.apply_batch(broker.take_batch(), broker.serial + 1, 1)


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
    gc.freeze()
    total = longest = 0.0
    is_left = True
    while is_left:
        began = time.thread_time()
        is_left = step()
        seconds = time.thread_time() - began
        total += seconds
        longest = max(longest, seconds)
    gc.unfreeze()
    print(f"| {what} | {count:,} | {total / count * 1e6:.2f} us | {longest * 1000:.2f} ms |")


def free(broker: Broker) -> Callable[[], bool]:
    """Let go of what is gone, a step at a time."""

    def step() -> bool:
        broker.let_go(lambda: True)
        return bool(broker.state.discards)

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


def main() -> None:
    """Measure and print."""
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    print_heading(Path(tempfile.gettempdir()), nodes="none, one process")
    print("| what | at the limit | processor time of one | longest step |")
    print("|---|---|---|---|")
    for work in (purge, publish, leave, sums):
        work()


if __name__ == "__main__":
    main()
