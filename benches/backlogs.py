"""
What it costs a node that ten million messages wait: without a word, with a lifetime, by priority.

One node, a real process on loopback, persistent messages of 40 bytes; a new node for each line.
Printed: how long it took to send them, what the node holds resident, what it does while nobody
sends or takes (per cent of a core, over twenty seconds), the longest turn of its loop so far (in
processor time), and how long a consumer waits: for the first message from its SUBSCRIBE on (where
they go by priority that is the one of the highest, sent last; else the oldest), and for each of the
next thousand from the ACK of the one before, the median.

Run: .venv/bin/python benches/backlogs.py [--messages 10000000] [--only LINE] [--directory DIR]
     [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from brokers import Holdfast
from curves import resident_bytes
from document import BACKLOGS, backlogs, put_section
from feature_load import Wire, fill, frame
from machine import KIB, heading, print_told

_BODY_BYTES = 40
_IDLE_SECONDS = 20.0
_SETTLE_SECONDS = 5.0
_NEXT = 1_000
_QUEUE = "/queue/backlog"
_HEAD = (
    "| messages that wait | sent in | resident | idle | longest turn | first, next |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Line:
    """One kind of backlog."""

    title: str
    policies: tuple[str, ...] = ()
    low: str = ""
    """The priority of all but the last."""
    high: str = ""


LINES = {
    "plain": Line("plain"),
    "lifetimes": Line("each expires in a day", ("zeroExpirationOverride=86400000",)),
    "priorities": Line("by priority", ("prioritizedMessages=true",), low="1", high="9"),
}


def say(broker: Holdfast, line: Line) -> None:
    """Say what holds for the queue."""
    if line.policies:
        command = [sys.executable, "-m", "holdfast", "queues", "set", "queue://backlog"]
        said = [*command, *line.policies, "--admin", broker.leader.admin]
        subprocess.run(said, check=True, stdout=subprocess.DEVNULL)


def cpu_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def idle(broker: Holdfast) -> float:
    """How busy the node is while nobody asks anything of it, in per cent of a core."""
    (pid,) = broker.pids
    time.sleep(_SETTLE_SECONDS)
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(_IDLE_SECONDS)
    return 100 * (cpu_seconds(pid) - before) / (time.monotonic() - began)


def taken(broker: Holdfast, wanted: int) -> tuple[float, float]:
    """Take messages one by one; gives seconds to the first, and from one to the next."""
    wire = Wire(broker.address)
    began = time.monotonic()
    headers = {"destination": _QUEUE, "id": "0", "ack": "client", "activemq.prefetchSize": "1"}
    wire.write(frame("SUBSCRIBE", headers))
    first, gaps = 0.0, []
    for number in range(_NEXT):
        while not (found := [it for it in wire.read() if it.startswith(b"MESSAGE")]):
            pass
        now = time.monotonic()
        if not number:
            first = now - began
            body = found[0].partition(b"\n\n")[2]
            assert int(body[:12]) == wanted, f"{body!r} came first"
        else:
            gaps.append(now - began)
        lines = found[0].split(b"\n")
        name = next(it for it in lines if it.startswith(b"message-id:"))
        began = time.monotonic()
        wire.write(b"ACK\n" + name + b"\nsubscription:0\n\n\0")
    wire.close()
    return first, statistics.median(gaps)


def measure(line: Line, count: int, directory: Path) -> str:
    """Fill a queue of a new node, and give the line."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-backlog-", dir=directory) as data,
        Holdfast(Path(data), 1) as broker,
    ):
        say(broker, line)

        def headers_of(number: int) -> Mapping[str, str]:
            priority = line.high if number == count - 1 else line.low
            return {"priority": priority} if priority else {}

        rate = fill(broker.address, _QUEUE, range(count), headers_of, _BODY_BYTES)
        (pid,) = broker.pids
        busy = idle(broker)
        turn = broker.leader.status()["turn_cpu_seconds_max"] * 1e3
        resident = resident_bytes(pid) / KIB**2
        first, following = taken(broker, count - 1 if line.high else 0)
        return (
            f"| {count:,} {line.title} | {count / rate:,.0f} s | {resident:,.0f} MiB"
            f" | {busy:.1f} % | {turn:.1f} ms | {first * 1e3:.2f} ms, {following * 1e3:.2f} ms |"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).strip().splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--only", choices=LINES, help="only this line")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table into FILE")
    chosen = parser.parse_args()
    told = heading(chosen.directory)
    print_told(told)
    table = [*_HEAD]
    print(*table, sep="\n", flush=True)
    for name, line in LINES.items():
        if chosen.only in {None, name}:
            table.append(measure(line, chosen.messages, chosen.directory))
            print(table[-1], flush=True)
    if chosen.write is not None:
        put_section(chosen.write, BACKLOGS, backlogs(told, "\n".join(table)))


if __name__ == "__main__":
    main()
