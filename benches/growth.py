"""
How speed and memory change with size: connections, consumers, bodies, queues, backlog.

One node, real processes on loopback, one message after the other synced before its receipt. Each
curve grows one thing and leaves the rest alone; about the same number of messages is under way at
every point of it. The last column compares with the first point of the curve that has what is
measured.

Run: .venv/bin/python benches/growth.py [--curve NAMES] [--quick] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from brokers import Holdfast
from curves import Curve, Point, resident_bytes
from document import GROWTH, growth, put_section
from feature_curves import durables, groups, selectors
from generator import Generator, GeneratorMissingError
from machine import KIB, heading, print_told
from options import table_options
from scenarios import Place

from trials.clients.stomp_socket import StompSocket

_UNDER_WAY = 1000
_UNDER_WAY_BYTES = 32 * KIB * KIB
_BODY_BYTES = KIB
_FILLED_BODY_BYTES = 100
_FILLING = 1000
_SECONDS = 4.0
_SECONDS_QUICK = 1.0
_RUNS = 3
_WAIT_SECONDS = 60.0


def _load(place: Place, *arguments: str, size: str, note: str = "") -> Point:
    run = place.load(*arguments, "-T", f"{place.seconds:g}")
    cpu = run.numbers.get("broker_cpu_s_per_million", 0.0)
    return Point(size, run.rate, note=note or f"{cpu:.1f} CPU-s per million", fault=run.fault)


def connections(place: Place, count: int) -> Point:
    """So many producers and as many consumers of one queue."""
    window = max(1, _UNDER_WAY // count)
    shape = ["-p", str(count), "-c", str(count), "-W", str(window)]
    return _load(place, *shape, size=f"{count:,} + {count:,}")


def consumers(place: Place, count: int) -> Point:
    """So many consumers of one queue, ten producers."""
    return _load(place, "-p", "10", "-c", str(count), "-W", "100", size=f"{count:,}")


def bodies(place: Place, size: int) -> Point:
    """Bodies of so many bytes, one producer and one consumer."""
    window = max(1, min(_UNDER_WAY, _UNDER_WAY_BYTES // size))
    point = _load(
        place, "-p", "1", "-c", "1", "-W", str(window), "-S", str(size), size=f"{size:,} B"
    )
    megabytes = point.rate * size / 1e6
    return Point(point.size, point.rate, note=f"{megabytes:,.0f} MB/s", fault=point.fault)


def queues(place: Place, count: int) -> Point:
    """A message on each of so many queues; then one producer and one consumer beside them."""
    (pid,) = place.broker.pids
    before = resident_bytes(pid)
    _fill(place, count)
    grown = (resident_bytes(pid) - before) / count
    words = f"{grown / KIB:,.1f} KiB a queue, its message of {_BODY_BYTES:,} B included"
    return _load(place, "-p", "1", "-c", "1", "-W", str(_UNDER_WAY), size=f"{count:,}", note=words)


def backlog(place: Place, count: int) -> Point:
    """One consumer takes from a queue that holds so many messages, of those a part."""
    queue = place.new_queue()
    body = ["-S", str(_FILLED_BODY_BYTES)]
    filled = place.load(
        "-p", "10", "-c", "0", "-W", "1000", "-n", str(count), *body, destination=queue
    )
    (pid,) = place.broker.pids
    note = f"{resident_bytes(pid) / KIB**2:,.0f} MiB resident"
    part = min(count, 50_000)
    drained = place.load("-p", "0", "-c", "1", "-n", str(part), *body, destination=queue)
    fault = "; ".join(each.fault for each in (filled, drained) if each.fault)
    return Point(f"{count:,}", drained.rate, note=note, fault=fault)


CURVES = (
    Curve("connections", "producers + consumers", (1, 10, 100, 1000), (1, 100), connections),
    Curve("consumers", "consumers of one queue", (1, 10, 100, 1000), (1, 100), consumers),
    Curve(
        "bodies",
        "size of bodies",
        (100, KIB, 10 * KIB, 100 * KIB, KIB * KIB, 8 * KIB * KIB),
        (100, KIB * KIB),
        bodies,
    ),
    Curve(
        "queues", "queues", (100, 1000, 10_000, 80_000), (100, 5_000), queues, has_own_broker=True
    ),
    Curve(
        "backlog",
        "messages that wait",
        (1_000, 10_000, 100_000, 1_000_000),
        (1_000, 20_000),
        backlog,
        has_own_broker=True,
    ),
    Curve(
        "groups",
        "message groups, one message each, three consumers",
        (1_000, 10_000, 100_000, 1_000_000),
        (1_000, 10_000),
        groups,
        has_own_broker=True,
    ),
    Curve(
        "selectors",
        "consumers with a correlation id each beside one producer and one consumer",
        (10, 100, 1_000, 10_000),
        (10, 1_000),
        selectors,
        has_own_broker=True,
    ),
    Curve(
        "durables",
        "durable subscriptions that are away, bodies of 100 B",
        (1, 10, 100, 1_000),
        (1, 100),
        durables,
        has_own_broker=True,
    ),
)


def _fill(place: Place, count: int) -> None:
    """Send one message to each of so many queues."""
    host, _, port = place.broker.address.rpartition(":")
    assert host, "an address has a host"
    with StompSocket(int(port), timeout_seconds=_WAIT_SECONDS) as client:
        client.connect()
        for start in range(0, count, _FILLING):
            end = min(start + _FILLING, count)
            frames = [
                f"SEND\ndestination:/queue/growth.{number}\npersistent:true\n"
                f"{f'receipt:w{end}' if number == end - 1 else 'x:y'}\n\n{'m' * _BODY_BYTES}\0"
                for number in range(start, end)
            ]
            client.write("".join(frames).encode())
            client.await_receipt(f"w{end}")


class Bench:
    """All curves, one after the other."""

    def __init__(self, given: argparse.Namespace, directory: Path) -> None:
        self.given = given
        self.directory = directory
        self.generator = Generator(directory, given.stompbench)
        self.seconds = _SECONDS_QUICK if given.quick else _SECONDS

    def points(self, curve: Curve) -> Iterator[Point]:
        """Measure the points of a curve, each as often as is wanted; the median counts."""
        sizes = curve.sizes_quick if self.given.quick else curve.sizes
        if curve.has_own_broker:
            for size in sizes:
                yield self._median([self._alone(curve, size) for _ in range(self.given.runs)])
            return
        with Holdfast(self.directory / curve.name, 1) as broker:
            place = Place(broker, self.generator, self.seconds, self.directory)
            curve.measure(Place(broker, self.generator, 1.0, self.directory), sizes[0])
            # Round by round, so that a slow minute of the machine meets every point alike.
            rounds = [
                [curve.measure(place, size) for size in sizes] for _ in range(self.given.runs)
            ]
            for samples in zip(*rounds, strict=True):
                yield self._median([*samples])

    def _alone(self, curve: Curve, size: int) -> Point:
        with Holdfast(self.directory / curve.name, 1) as broker:
            return curve.measure(Place(broker, self.generator, self.seconds, self.directory), size)

    @staticmethod
    def _median(samples: list[Point]) -> Point:
        whole = [each for each in samples if not each.fault]
        if not whole:
            return samples[0]
        wanted = statistics.median_low([each.rate for each in whole])
        return next(each for each in whole if each.rate == wanted)


def arguments() -> argparse.Namespace:
    parser = table_options(__doc__, "curve", [curve.name for curve in CURVES])
    given = parser.parse_args()
    given.runs = given.runs or (1 if given.quick else _RUNS)
    return given


def main() -> int:
    given = arguments()
    lines = [
        "| what grows | to | messages a second | against the first |  |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    has_faults = False
    with tempfile.TemporaryDirectory(prefix="holdfast-growth-", dir=given.directory) as name:
        directory = Path(name)
        told = heading(directory)
        bench = Bench(given, directory)
        told["settings"] = f"{given.runs} run(s) of {bench.seconds:g} s at each point"
        print_told(told)
        for curve in (each for each in CURVES if each.name in given.curve):
            first = 0.0
            for point in bench.points(curve):
                first = first or point.rate
                has_faults = has_faults or bool(point.fault)
                words = point.fault or point.note
                ratio = f"×{point.rate / first:.2f}" if first else "-"
                line = f"| {curve.title} | {point.size} | {point.rate:,.0f} | {ratio} | {words} |"
                print(line, flush=True)
                lines.append(line)
    if given.write:
        put_section(given.write, GROWTH, growth(told, "\n".join(lines)))
    return 1 if has_faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except GeneratorMissingError as missing:
        sys.exit(f"growth: {missing}")
