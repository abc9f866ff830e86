"""
What it costs to apply the purge or deletion of a queue of ten million messages, and to free it.

One process, no sockets, no disk; processor time of this thread. On a leader the messages are sent,
and an operator asks; a follower applies what is in the log. Both have as many contents in memory as
their limit lets them. With `--after` so many messages stand behind a purge when its record is
applied: no leader writes such a log, as what comes after a purge is in the log after its record.

Each line is one kind: the request on the leader, the longest step of applying, and of letting go.
The limit is 10 ms for a step.

Run: .venv/bin/python benches/purges.py [--messages 10000000] [--after 0]
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from machine import print_heading

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.snapshot import Snapshot
from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import (
    AcknowledgeRecord,
    DeleteQueueRecord,
    MessageRecord,
    PurgeRecord,
    QueueRecord,
    Record,
)

_RUN = 4_096
_BODY = b"x" * 40
_STEP_SECONDS_MAX = 0.010


class Client:
    """Whoever sends and asks; takes every answer."""

    room_bytes = 1 << 40

    def reply(self, receipt: bytes) -> None:
        """Take a receipt."""


def records_of(first: int, count: int) -> list[Record]:
    """Messages of queue 1, next to each other, as the loop's own records: with their bodies."""
    return [MessageRecord(1, first + it, b"", _BODY, len(_BODY), None, 0) for it in range(count)]


def fill(broker: Broker, count: int, first: int = 1) -> None:
    """Apply so many messages, in entries of a few thousand."""
    for start in range(first, first + count, _RUN):
        some = min(_RUN, first + count - start)
        broker.state.apply(start + 1, records_of(start, some), start)


def send(broker: Broker, count: int) -> None:
    """Have so many messages sent to the leader, and committed in entries of a few thousand."""
    client = Client()
    queue = broker.queue("q")
    for number in range(1, count + 1):
        broker.send(queue, b"", _BODY, client, None)
        if number % _RUN == 0 or number == count:
            while broker.receipts.has_batch():
                batch = broker.receipts.take_batch()
                broker.apply_batch(batch, broker.state.timestamp + 1, broker.state.timestamp + _RUN)


def thin_out(broker: Broker, count: int) -> None:
    """Acknowledge all but one message of each chunk: as many chunks, hardly anything alive."""
    for start in range(1, count + 1, 512):
        gone = list(range(start, min(start + 511, count)))
        broker.state.apply(count + start + 1, [AcknowledgeRecord(1, gone)], count + start)


def timed(step: Callable[[], object]) -> float:
    """Give the processor seconds that one step takes."""
    began = time.thread_time()
    step()
    return time.thread_time() - began


def letting_go(broker: Broker) -> Iterator[float]:
    """Give the seconds of each step until nothing is left."""
    while broker.state.discards:
        yield timed(lambda: broker.let_go(lambda: True))


def measured(what: str, broker: Broker, records: list[Record] | None, through: int) -> bool:
    """Apply a record, or what an operator asks of the leader; print a line; tell if quick."""
    gc.collect()
    request = 0.0
    if records is None:
        work = broker.purge if what.startswith("purge") else broker.delete
        request = timed(lambda: work("q", Client(), b"r"))
        records = broker.receipts.take_batch().records
    live = broker.state.live_count()
    applying = timed(lambda: broker.state.apply(2 * through + 9, records, 2 * through + 9))
    began = time.thread_time()
    steps = list(letting_go(broker))
    total = time.thread_time() - began
    longest = max(steps, default=0.0)
    gone = live - broker.state.live_count()
    print(
        f"| {what} | {gone:,} | {request * 1e3:.2f} ms | {applying * 1e3:.2f} ms"
        f" | {longest * 1e3:.2f} ms | {total:.2f} s |",
        flush=True,
    )
    return max(request, applying, longest) <= _STEP_SECONDS_MAX


def full(count: int, *, is_leader: bool, is_thin: bool = False) -> Broker:
    """A node with one queue of so many messages."""
    broker = Broker(BrokerSettings())
    if is_leader:
        broker.lead()
        send(broker, count)
        return broker
    broker.state.apply(1, [QueueRecord(1, "q", 1, 0)], 1)
    fill(broker, count)
    if is_thin:
        thin_out(broker, count)
    return broker


def kinds(count: int, after: int) -> Iterator[bool]:
    """Measure one kind after the other; each on a node of its own."""
    purge, delete = PurgeRecord(1, count), DeleteQueueRecord(1)
    yield measured("purge, leader", full(count, is_leader=True), None, count)
    yield measured("delete, leader", full(count, is_leader=True), None, count)
    yield measured("purge, follower", full(count, is_leader=False), [purge], count)
    yield measured("delete, follower", full(count, is_leader=False), [delete], count)
    thin = full(count, is_leader=False, is_thin=True)
    yield measured("purge, follower, one alive in each chunk", thin, [purge], count)
    written = full(count, is_leader=False)
    written.state.snapshot = Snapshot(written.state)
    yield measured("purge, follower, a checkpoint just begun", written, [purge], count)
    if after:
        behind = full(count, is_leader=False)
        fill(behind, after, count + 1)
        yield measured(f"purge, follower, {after:,} came after it", behind, [purge], count)


def main() -> None:
    """Measure each, and say which is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--after", type=int, default=0)
    options = parser.parse_args()
    print_heading(Path(tempfile.gettempdir()))
    print("| what | messages gone | request | longest step: applying | letting go | in all |")
    print("|---|---|---|---|---|---|")
    slow = [not is_quick for is_quick in kinds(options.messages, options.after)]
    print(f"{sum(slow)} of {len(slow)} over {_STEP_SECONDS_MAX * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
