"""
What features of queues and topics cost, here and in ActiveMQ, in one run.

One node or broker, persistent messages of 256 bytes, each synced before its receipt; Holdfast and
ActiveMQ take turns, round by round. The load is made by feature_load.py, since headers differ from
message to message; a number that never came, or came twice, or out of its group's order, is a fault
and its run does not count.

Run: .venv/bin/python benches/features.py [--line NAMES] [--quick] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from activemq import ActiveMQ
from brokers import Broker, Holdfast
from document import FEATURES, features, put_section
from feature_load import Drain, Drained, Wire, fill, subscribing
from machine import heading, print_told
from options import table_options

_BODY_BYTES = 256
_COUNT = 30_000
_COUNT_QUICK = 3_000
_RUNS = 3
_SUBSCRIBERS = 10
_SEED = 27


@dataclass(frozen=True)
class Sample:
    """Messages a second, and what was wrong."""

    rate: float
    fault: str = ""


@dataclass(frozen=True)
class Line:
    """One line of the table, and how it is measured."""

    name: str
    title: str
    measure: Callable[[Broker, str, int], Sample]


def _plain(_: int) -> Mapping[str, str]:
    return {}


def _consumers(address: str, queue: str, count: int, **headers: str) -> list[Wire]:
    wires = []
    for _ in range(count):
        wires.append(Wire(address))
        named = {"ack": "client-individual", "activemq.prefetchSize": "500", **headers}
        wires[-1].subscribe(queue, "0", **named)
    return wires


def _sample(drained: Drained, *faults: str) -> Sample:
    return Sample(drained.rate, "; ".join([*drained.faults, *(each for each in faults if each)]))


def _drained(wires: list[Wire], count: int) -> tuple[Drain, Drained]:
    drain = Drain(wires, count)
    result = drain.run()
    for wire in wires:
        wire.close()
    return drain, result


def plain(broker: Broker, queue: str, count: int) -> Sample:
    """Three consumers of a queue without features: what the others are held against."""
    fill(broker.address, queue, range(count), _plain, _BODY_BYTES)
    return _sample(_drained(_consumers(broker.address, queue, 3), count)[1])


def groups(broker: Broker, queue: str, count: int) -> Sample:
    """A message in ten has a group of its own; three consumers; order is judged per group."""
    chosen = random.Random(_SEED).choices(range(count // 10), k=count)
    named = [{"JMSXGroupID": f"g{group}"} for group in chosen]
    fill(broker.address, queue, range(count), named.__getitem__, _BODY_BYTES)
    drain, result = _drained(_consumers(broker.address, queue, 3), count)
    last: dict[int, int] = {}
    wrong = 0
    for _, number in drain.order:
        wrong += number < last.get(chosen[number], -1)
        last[chosen[number]] = number
    return _sample(result, f"{wrong:,} out of order in their group" if wrong else "")


def selectors(broker: Broker, queue: str, count: int) -> Sample:
    """A thousand consumers on ten connections, each of them selecting its own correlation id."""
    consumers = 1000
    wires = []
    for first in range(0, consumers, 100):
        wires.append(Wire(broker.address))
        frames = [
            subscribing(
                queue, str(number), ack="client-individual",
                selector=f"JMSCorrelationID = 'c{number}'",
            )
            for number in range(first, first + 100)
        ]  # fmt: skip
        wires[-1].write(b"".join(frames))
        wires[-1].await_receipts(100)
    headers = [{"correlation-id": f"c{number}"} for number in range(consumers)]
    filler = broker.address
    drain = Drain(wires, count)
    # What a socket holds back is read afterwards: sending and taking are one after the other here,
    # so that this process is never the slower one of two threads.
    sent = fill(filler, queue, range(count), lambda n: headers[n % consumers], _BODY_BYTES)
    result = drain.run()
    for wire in wires:
        wire.close()
    result.seconds += count / sent
    return _sample(result)


def priorities(broker: Broker, queue: str, count: int) -> Sample:
    """Ten priorities at random, one consumer with a prefetch of ten."""
    chosen = random.Random(_SEED).choices(range(10), k=count)
    named = [{"priority": str(priority)} for priority in range(10)]
    fill(broker.address, queue, range(count), lambda n: named[chosen[n]], _BODY_BYTES)
    wires = _consumers(broker.address, queue, 1, **{"activemq.prefetchSize": "10"})
    drain, result = _drained(wires, count)
    late = sum(
        chosen[number] > chosen[before]
        for (_, before), (_, number) in zip(drain.order, drain.order[1:], strict=False)
    )
    return _sample(result, f"{late:,} behind a lower priority" if late else "")


def scheduled(broker: Broker, queue: str, count: int) -> Sample:
    """All due about when the last one is stored; from the first sent to the last delivered."""
    wires = _consumers(broker.address, queue, 1)
    delay = {"AMQ_SCHEDULED_DELAY": "1000"}
    sent = fill(broker.address, queue, range(count), lambda _: delay, _BODY_BYTES)
    _, result = _drained(wires, count)
    result.seconds += count / sent
    return _sample(result)


def _durable(address: str, topic: str) -> list[Wire]:
    """Ten clients, each with its durable subscription."""
    wires = []
    for number in range(_SUBSCRIBERS):
        wires.append(Wire(address, client_id=f"{topic}.{number}".replace("/", ".")))
        named = {"ack": "client-individual", "activemq.prefetchSize": "500"}
        wires[-1].subscribe(topic, "0", **named, **{"activemq.subscriptionName": "bench"})
    return wires


def _fanned_out(wires: list[Wire], count: int) -> Drained:
    result = Drain(wires, count * len(wires), to_each=True).run()
    for wire in wires:
        wire.leave()
    return result


def durables(broker: Broker, queue: str, count: int) -> Sample:
    """Ten durable subscribers that are there: deliveries, from the first SEND to the last."""
    topic, count = queue.replace("/queue/", "/topic/"), count // 3
    wires = _durable(broker.address, topic)
    filling = threading.Thread(
        target=fill, args=(broker.address, topic, range(count), _plain, _BODY_BYTES)
    )
    filling.start()
    result = _fanned_out(wires, count)
    filling.join()
    return _sample(result)


def returning(broker: Broker, queue: str, count: int) -> Sample:
    """Ten durable subscribers that come back at once: deliveries of what was sent meanwhile."""
    topic, count = queue.replace("/queue/", "/topic/"), count // 3
    for wire in _durable(broker.address, topic):
        wire.leave()
    fill(broker.address, topic, range(count), _plain, _BODY_BYTES)
    return _sample(_fanned_out(_durable(broker.address, topic), count))


LINES = (
    Line("plain", "no feature, three consumers", plain),
    Line("groups", "message groups, ten messages each, three consumers", groups),
    Line("selectors", "1,000 consumers that select a correlation id", selectors),
    Line("priorities", "ten message priorities, one consumer", priorities),
    Line("scheduled", "scheduled a second ahead, stored, fired and taken", scheduled),
    Line("durables", "ten durable subscribers of a topic, deliveries as it is sent to", durables),
    Line("returning", "ten durable subscribers that come back to a backlog, deliveries", returning),
)


class _ActiveMQ(ActiveMQ):
    """With the scheduler on, and priorities where they are measured."""

    attributes = ' schedulerSupport="true"'
    elements = """
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry queue="bench.priorities.>" prioritizedMessages="true"/>
    </policyEntries></policyMap></destinationPolicy>"""


class _Holdfast(Holdfast):
    """With priorities where they are measured."""

    def start(self) -> None:
        """Start it and say so."""
        super().start()
        command = [sys.executable, "-m", "holdfast", "queues", "set", "bench.priorities.>"]
        said = [*command, "prioritizedMessages=true", "--admin", self.leader.admin]
        subprocess.run(said, check=True, stdout=subprocess.DEVNULL)


def _started(stack: ExitStack, directory: Path) -> list[Broker]:
    brokers: list[Broker] = [stack.enter_context(_Holdfast(directory / "holdfast", 1))]
    if not (reason := ActiveMQ.missing()):
        brokers.append(stack.enter_context(_ActiveMQ(directory / "activemq", 1)))
    else:
        print(f"ActiveMQ: {reason}")
    return brokers


def _measured(broker: Broker, line: Line, turn: int, count: int) -> Sample:
    """Measure a line once; what a broker refuses is the sample's fault."""
    try:
        return line.measure(broker, f"/queue/bench.{line.name}.{turn}", count)
    except (ConnectionError, TimeoutError) as error:
        return Sample(0.0, str(error).partition("\n\n")[0].replace("\n", ", "))


def _told(samples: list[Sample]) -> tuple[float, str]:
    """The median of what is whole with its range; without such, the fault."""
    rates = [each.rate for each in samples if not each.fault]
    if not rates:
        return 0.0, samples[0].fault if samples else "-"
    median = statistics.median(rates)
    return median, f"{median:,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


def _row(line: Line, samples: dict[str, list[Sample]]) -> str:
    ours, words = _told(samples["holdfast"])
    theirs, their_words = _told(samples.get("activemq", []))
    ratio = f"×{ours / theirs:.2f}" if ours and theirs else "-"
    return f"| {line.title} | {words} | {their_words} | {ratio} |"


def measured(given: argparse.Namespace, directory: Path) -> tuple[list[str], bool]:
    """Measure all lines; gives the rows, and whether one of ours had a fault."""
    count = _COUNT_QUICK if given.quick else _COUNT
    rows, has_faults = [], False
    with ExitStack() as stack:
        brokers = _started(stack, directory)
        for line in (each for each in LINES if each.name in given.line):
            samples: dict[str, list[Sample]] = {broker.name: [] for broker in brokers}
            for broker in brokers:
                _measured(broker, line, -1, count // 10)
            for turn in range(given.runs):
                for broker in brokers:
                    samples[broker.name].append(_measured(broker, line, turn, count))
            has_faults |= any(each.fault for each in samples["holdfast"])
            rows.append(_row(line, samples))
            print(rows[-1], flush=True)
    return rows, has_faults


def main() -> int:
    parser = table_options(__doc__, "line", [line.name for line in LINES])
    given = parser.parse_args()
    given.runs = given.runs or (1 if given.quick else _RUNS)
    with tempfile.TemporaryDirectory(prefix="holdfast-features-", dir=given.directory) as name:
        directory = Path(name)
        told = heading(directory)
        told["settings"] = f"{given.runs} run(s) of {_COUNT:,} messages, in turns"
        print_told(told)
        rows, has_faults = measured(given, directory)
    if given.write:
        put_section(given.write, FEATURES, features(told, rows))
    return 1 if has_faults else 0


if __name__ == "__main__":
    sys.exit(main())
