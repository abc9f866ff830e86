"""
What is measured: the lines of the speed table, and how each run of them is made.

A scenario makes one `Sample` per run: values by key, and faults. A line of the table shows one key
of one scenario beside what it should reach. Each run has a destination of its own. Bodies are
1 KiB, persistent, one ACK per message unless the scenario says otherwise.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from brokers import Broker
from generator import Generator, Run
from machine import disk_rate

BACKLOG_MESSAGES_MAX = 200_000
_BACKLOG_MESSAGES_MIN = 2_000
_BACKLOG_CUMULATIVE = 100
_DISK_SECONDS = 1.0
_KILL_AFTER_SECONDS = 1.5
_KILL_LOAD_SECONDS = 4.0
_RATE_SECONDS_MIN = 4.0

_serial = itertools.count(1)


@dataclass
class Sample:
    """What one run gave."""

    values: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def add(self, run: Run) -> Run:
        """Keep a run and its fault."""
        self.runs.append(run)
        if run.fault:
            self.faults.append(run.fault)
        return run


@dataclass(frozen=True)
class Place:
    """Where a scenario is run: one started broker, and how long a load lasts."""

    broker: Broker
    generator: Generator
    seconds: float
    directory: Path

    def load(self, *arguments: str, destination: str = "", headers: bool = True) -> Run:
        """Run the generator against the leader, with a queue of its own unless one is named."""
        broker = self.broker
        own = ["-d", destination or self.new_queue()]
        return self.generator.run(
            broker.address,
            broker.pids,
            [*arguments, *own, *(broker.headers() if headers else ())],
            seconds=self.seconds * 4,
        )

    def new_queue(self) -> str:
        """Name a queue that no other run has used; made already where making it is slow."""
        queue = fresh("queue")
        if self.broker.declares_slowly:
            self.load("-p", "1", "-c", "1", "-n", "1", destination=queue)
        return queue


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    title: str
    key: str
    unit: str
    reach: float
    aim: float
    less_is_better: bool = False


@dataclass(frozen=True)
class Scenario:
    """Runs that belong together, and the lines that tell of them."""

    name: str
    nodes: int
    measure: Callable[[Place], Sample]
    lines: tuple[Line, ...]
    command: str
    runs_min: int = 1


def fresh(kind: str) -> str:
    """A destination that no other run has used."""
    return f"/{kind}/bench-{next(_serial)}"


def _timed(place: Place) -> list[str]:
    return ["-T", f"{place.seconds:g}"]


def _throughput(producers: int, consumers: int, window: int) -> Callable[[Place], Sample]:
    shape = ["-p", str(producers), "-c", str(consumers), "-W", str(window)]

    def measure(place: Place) -> Sample:
        sample = Sample()
        run = sample.add(place.load(*shape, *_timed(place)))
        sample.values["rate"] = run.rate
        sample.values["cpu"] = float(run.numbers.get("broker_cpu_s_per_million", 0.0))
        return sample

    return measure


def _fill(place: Place, sample: Sample) -> tuple[str, int, float]:
    """Fill a fresh queue for about as long as a load lasts; its name, its length, the rate."""
    shape = ["-p", "10", "-c", "0", "-W", "100"]
    trial = sample.add(place.load(*shape, "-T", "0.5"))
    count = int(min(max(trial.rate * place.seconds, _BACKLOG_MESSAGES_MIN), BACKLOG_MESSAGES_MAX))
    queue = place.new_queue()
    run = sample.add(place.load(*shape, "-n", str(count), destination=queue))
    return queue, int(run.numbers.get("confirmed", 0)), run.rate


def _backlog(place: Place) -> Sample:
    sample = Sample()
    fills = []
    for key, mode in (("drain-cumulative", str(_BACKLOG_CUMULATIVE)), ("drain-each", "each")):
        queue, count, rate = _fill(place, sample)
        fills.append(rate)
        shape = ["-p", "0", "-c", "1", "-a", mode, "-n", str(count)]
        run = sample.add(place.load(*shape, destination=queue))
        sample.values[key] = run.rate
    sample.values["fill"] = sum(fills) / len(fills)
    return sample


def _topic(place: Place) -> Sample:
    sample = Sample()
    run = sample.add(
        place.load(
            *("-p", "1", "-c", "10", "-W", "1000", "-S", "256", "-a", "auto"),
            *("--topic", "--nonpersistent", *_timed(place)),
            destination=fresh("topic"),
            headers=False,
        )
    )
    sample.values["rate"] = float(run.numbers.get("delivered_s", 0.0))
    return sample


def _one_by_one(place: Place) -> Sample:
    """
    One unconfirmed message at a time: what one durable message costs.

    The disk is measured before and after, and its better rate taken, so that a neighbour of the
    disk cannot flatter us. Nobody is quicker than the disk: a run that seems so was disturbed.
    """
    seconds = min(_DISK_SECONDS, place.seconds)
    before = disk_rate(place.directory, seconds)
    sample = _throughput(1, 0, 1)(place)
    disk = max(before, disk_rate(place.directory, seconds))
    sample.values["disk"] = disk
    sample.values["share"] = sample.values["rate"] / disk
    if sample.values["share"] > 1:
        sample.faults.append(f"disturbed: the disk itself did {disk:.0f}/s before and after")
    return sample


def _fixed_rate(place: Place) -> Sample:
    sample = Sample()
    seconds = max(place.seconds, _RATE_SECONDS_MIN)
    run = sample.add(
        place.load("-p", "1", "-c", "1", "-W", "1000", "--rate", "500", "-T", f"{seconds:g}")
    )
    latency = run.numbers.get("receipt_ms", {})
    sample.values["p50"] = float(latency.get("p50", 0.0))
    sample.values["p99"] = float(latency.get("p99", 0.0))
    if abs(run.rate - 500) > 25 and not run.fault:
        sample.faults.append(f"only {run.rate:.0f} messages/s of 500")
    return sample


def _failover(place: Place) -> Sample:
    """Kill the leader under load; the longest time without receipts, then heal."""
    broker = place.broker
    # Queues are led where they were declared: a load before the kill declares it on the leader.
    queue = place.new_queue()
    sample = Sample()
    sample.add(place.load("-p", "1", "-c", "1", "-n", "500", destination=queue))
    killer = threading.Timer(_KILL_AFTER_SECONDS, broker.kill_leader)
    arguments = ["-p", "1", "-c", "1", "-W", "500", "-T", f"{_KILL_LOAD_SECONDS:g}", "--failover"]
    run = place.generator.run(
        broker.addresses, broker.pids, [*arguments, "-d", queue, *broker.headers()],
        seconds=_KILL_LOAD_SECONDS, may_reconnect=True, meanwhile=killer.start,
    )  # fmt: skip
    killer.join()
    sample.add(run)
    if not run.fault and not run.numbers.get("reconnects"):
        sample.faults.append("nobody noticed the kill")
    sample.values["gap"] = float(run.numbers.get("gap_ms", 0.0)) / 1000
    begin = time.monotonic()
    broker.heal()
    sample.values["heal"] = time.monotonic() - begin
    return sample


_RATE, _SECONDS = "msg/s", "s"

SCENARIOS = (
    Scenario(
        "one-1x1",
        1,
        _throughput(1, 1, 1000),
        (
            Line("one node, 1 producer W=1000, 1 consumer", "rate", _RATE, 40e3, 70e3),
            Line("- its CPU-seconds per million", "cpu", _SECONDS, 25, 15, less_is_better=True),
        ),
        "-p 1 -c 1 -W 1000 -T SECONDS",
    ),
    Scenario(
        "one-10x10",
        1,
        _throughput(10, 10, 100),
        (Line("one node, 10 producers W=100, 10 consumers", "rate", _RATE, 36e3, 70e3),),
        "-p 10 -c 10 -W 100 -T SECONDS",
    ),
    Scenario(
        "one-backlog",
        1,
        _backlog,
        (
            Line("one node, fill by 10 producers W=100", "fill", _RATE, 45e3, 80e3),
            Line("drain by 1 consumer, ACK every 100", "drain-cumulative", _RATE, 60e3, 150e3),
            Line("drain by 1 consumer, ACK each", "drain-each", _RATE, 40e3, 90e3),
        ),
        "-p 10 -c 0 -W 100 -n COUNT, then -p 0 -c 1 -n COUNT -a 100; the same with -a each",
    ),
    Scenario(
        "one-topic",
        1,
        _topic,
        (
            Line(
                "topic, 1 non-persistent producer, 10 subscribers, 256 B: deliveries",
                *("rate", _RATE),
                *(125e3, 300e3),
            ),
        ),
        "-p 1 -c 10 -W 1000 -S 256 -a auto --topic --nonpersistent -T SECONDS",
    ),
    Scenario(
        "one-w1",
        1,
        _one_by_one,
        (
            Line("one node, W=1, no consumer", "rate", _RATE, 0, 0),
            Line("- its share of the raw disk's rate", "share", "x disk", 0.5, 0.8),
        ),
        "-p 1 -c 0 -W 1 -T SECONDS",
    ),
    Scenario(
        "one-rate500",
        1,
        _fixed_rate,
        (
            Line("fixed 500 msg/s: receipt p50", "p50", "ms", 1.0, 0.5, less_is_better=True),
            Line("fixed 500 msg/s: receipt p99", "p99", "ms", 4.0, 2.0, less_is_better=True),
        ),
        "-p 1 -c 1 -W 1000 --rate 500 -T SECONDS",
    ),
    Scenario(
        "three-1x1",
        3,
        _throughput(1, 1, 1000),
        (
            Line("three nodes, 1 producer W=1000, 1 consumer", "rate", _RATE, 30e3, 60e3),
            Line("- CPU-seconds per million, all three", "cpu", _SECONDS, 0, 0, True),
        ),
        "-p 1 -c 1 -W 1000 -T SECONDS",
    ),
    Scenario(
        "three-10x10",
        3,
        _throughput(10, 10, 100),
        (Line("three nodes, 10 producers W=100, 10 consumers", "rate", _RATE, 28e3, 55e3),),
        "-p 10 -c 10 -W 100 -T SECONDS",
    ),
    Scenario(
        "three-w1",
        3,
        _throughput(1, 0, 1),
        (Line("three nodes, W=1, no consumer", "rate", _RATE, 800, 1500),),
        "-p 1 -c 0 -W 1 -T SECONDS",
    ),
    Scenario(
        "three-kill",
        3,
        _failover,
        (
            Line(
                "longest time without receipts after kill -9 of the leader",
                *("gap", _SECONDS),
                *(0.5, 0.15),
                less_is_better=True,
            ),
        ),
        "-p 1 -c 1 -W 500 --failover -T 4; kill -9 of the leader after 1.5 s",
        runs_min=5,
    ),
)
