"""
Replay by one sender on the driver and by several of Spark's tasks: messages stored per second.

A log of eight queues is replayed to a queue of a node (or of three) on this machine, once to warm
up and then by each count of senders in turn, each round to a queue of its own. The node, Java and
the workers share the processors.

Run: .venv/bin/python benches/replay.py [--messages N] [--topology T] [--senders N ...] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from itertools import product
from pathlib import Path

from holdfast.model.records import QueueRecord
from holdfast.spark.pipelines.replay import Choice, replay
from holdfast.spark.session import spark_session
from holdfast.testing.local_cluster import LocalCluster
from trials.pipeline.written_log import WrittenLog, message

QUEUES = 8
PER_ENTRY = 400


def write(directory: Path, messages: int, body: bytes) -> None:
    """Eight queues in turn, one producer."""
    with WrittenLog(directory, segment_bytes=16 * 1024 * 1024) as log:
        log.put(*(QueueRecord(number, f"orders.{number}") for number in range(1, QUEUES + 1)))
        for start in range(0, messages, PER_ENTRY):
            numbers = range(start, min(start + PER_ENTRY, messages))
            log.put(*(message(n % QUEUES + 1, n // QUEUES + 1, body) for n in numbers))


def main() -> None:
    """Write the log, send it, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--topology", choices=("single", "three"), default="single")
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[4]")
    arguments = parser.parse_args()
    rates: dict[int, list[float]] = {senders: [] for senders in arguments.senders}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        log = Path(name) / "log"
        write(log, arguments.messages, b"x" * arguments.body_bytes)
        with LocalCluster(Path(name) / "cluster", arguments.topology) as cluster:
            cluster.start()
            spark = spark_session("bench", arguments.master)
            for turn, senders in product(range(arguments.rounds + 1), arguments.senders):
                target = f"/queue/replayed.{turn}.{senders}"
                source = {"path": str(log)}
                done = replay(spark, source, Choice(), target, cluster.uri, senders=senders)
                assert done.confirmed == arguments.messages, done
                rates[senders] += [done.rate] if turn else []
            spark.stop()
    for senders, found in rates.items():
        low, middle, high = min(found), statistics.median(found), max(found)
        print(f"{senders} senders: {middle:,.0f} messages/s ({low:,.0f} to {high:,.0f})")


if __name__ == "__main__":
    main()
