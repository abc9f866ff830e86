"""
How long it takes to find the next message among ten million with priorities.

python -m benches.priorities [COUNT]: that many of priority 1, and one of 9 behind all of them. The
queue's index is filled as the log fills it; then a new leader notes which chunks have which
priority, in steps, and takes message after message, as it does when it dispatches.
What is told is processor time: others share the machine.
"""

from __future__ import annotations

import sys
import time
from statistics import median

from holdfast.broker.broker import Broker
from holdfast.broker.serving.lanes import Lanes
from holdfast.broker.settings import BrokerSettings

COUNT = 10_000_000
TAKEN = 100_000
STEP = 512


def main() -> None:
    """Fill a queue, take over, and take messages."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    broker = Broker(BrokerSettings())
    broker.lead()
    queue = broker.queue("ranked")
    lasting = queue.lasting
    lasting.index.put_next(1, 1, [100] * (count + 1))
    for sequence in range(1, count + 1):
        lasting.index.put_priority(sequence, 1)
    lasting.index.put_priority(count + 1, 9)
    lasting.next_sequence = count + 2
    lasting.see(0, count + 1)
    lanes = Lanes(queue, 1)
    steps = []
    while lanes.is_noting:
        lanes.left = STEP
        began = time.process_time()
        lanes.note()
        steps.append(time.process_time() - began)
    lanes.left = 10 * count
    began = time.process_time()
    first = lanes.next_key()
    late = time.process_time() - began
    assert first == count + 1, "the highest goes first"
    times = []
    for expected in range(1, min(TAKEN, count) + 1):
        began = time.process_time()
        key = lanes.next_key()
        times.append(time.process_time() - began)
        assert key == expected
    print(f"{count:,} messages of priority 1, one of 9 behind them")
    print(f"  noted by a new leader in {sum(steps):.3f} s, longest step {1e3 * max(steps):.1f} ms")
    print(f"  the one of 9 found in {1e6 * late:.1f} us")
    print(f"  each next one in {1e6 * median(times):.1f} us, slowest {1e6 * max(times):.0f} us")


if __name__ == "__main__":
    main()
