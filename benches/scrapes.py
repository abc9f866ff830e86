"""
Very many queues, and somebody who asks for all of it every second: what that costs the clients.

Three nodes, real processes on loopback. Each node's `/metrics` is scraped every second, as
Prometheus would; with `--more` the leader's also with the hundred deepest queues and with a
pattern, and all pages of `/queues` are read one after the other. An honest client beside it sends
message after message and times each, before, during and after the scrapes: where the machine is
shared, the times in between are to be compared with the others. Printed: elections, of which there
must be none, the longest turns of each node's loop, by the clock and by what a core has worked, how
long answers took, and the honest client's times.

Run: .venv/bin/python benches/scrapes.py [--seconds 300] [--queues 100000] [--more]
    [--directory DIR]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from multiprocessing import Process, Queue
from pathlib import Path
from typing import Any
from urllib.parse import quote

from machine import print_heading
from producers import HonestClient, memory_mib
from turns import connected, fill

from holdfast.testing.local_cluster import LocalCluster

_WAIT_SECONDS = 60.0
_BEFORE_SECONDS = 10.0
_EVERY_SECONDS = 1.0


@dataclass
class Asked:
    """What was asked of one node again and again, and how long the answers took."""

    name: str
    admin: str
    path: str
    seconds: list[float] = field(default_factory=list)
    answer_bytes: int = 0


def ask(admin: str, path: str) -> bytes:
    """Give the answer to one question."""
    with urllib.request.urlopen(f"http://{admin}{path}", timeout=_WAIT_SECONDS) as answer:
        body: bytes = answer.read()
        return body


def scrape(asked: Asked, until: float) -> None:
    """Ask every second."""
    due = time.monotonic()
    while due < until:
        time.sleep(max(0.0, due - time.monotonic()))
        due += _EVERY_SECONDS
        began = time.monotonic()
        asked.answer_bytes = len(ask(asked.admin, asked.path))
        asked.seconds.append(time.monotonic() - began)


def read_pages(asked: Asked, until: float) -> None:
    """Read all pages of the queues, one every tenth of a second, again and again."""
    after = ""
    while time.monotonic() < until:
        time.sleep(_EVERY_SECONDS / 10)
        began = time.monotonic()
        page = json.loads(ask(asked.admin, f"{asked.path}?after={quote(after, safe='')}"))
        asked.seconds.append(time.monotonic() - began)
        after = page["next"] or ""


def scrape_all(all_asked: list[Asked], seconds: float, done: Queue[list[Asked]]) -> None:
    """Ask for everything at the same time; a process of its own, so that it delays nobody here."""
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=read_pages if it.path == "/queues" else scrape, args=(it, until))
        for it in all_asked
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.put(all_asked)


def share(times: list[float], part: float) -> float:
    """What this part of the times stays under, in milliseconds."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000


def print_honest(what: str, times: list[float]) -> None:
    """Print a line of the honest client's times."""
    print(
        f"honest client {what}: {len(times):,} messages, p50 {share(times, 0.5):.1f} ms,"
        f" p99 {share(times, 0.99):.1f} ms, p99.9 {share(times, 0.999):.1f} ms,"
        f" slowest {max(times) * 1000:.1f} ms",
        flush=True,
    )


def statuses(cluster: LocalCluster) -> dict[str, dict[str, Any]]:
    """What each node says of itself."""
    return {name: node.get("/status") for name, node in cluster.nodes.items()}


def measure(cluster: LocalCluster, queues: int, seconds: float, *, has_more: bool) -> None:
    """Fill, scrape, print."""
    leader = cluster.start()
    honest = HonestClient(leader.stomp_port)
    with connected(leader.stomp_port) as client:
        client.publish("/queue/honest", b"x")
        began = time.monotonic()
        fill(client, queues - 1, lambda number: f"of.somebody.{number:06}")
    cluster.wait_level()
    before = statuses(cluster)
    print(f"{queues:,} queues with a message each, filled in {time.monotonic() - began:.0f} s")
    honest.start()
    time.sleep(_BEFORE_SECONDS)
    alone = list(honest.seconds)
    everything = [Asked(it.name, it.admin, "/metrics") for it in cluster.nodes.values()]
    more = ("/metrics?queues=top:100", "/metrics?queues=*99", "/queues") if has_more else ()
    everything += [Asked(leader.name, leader.admin, path) for path in more]
    done: Queue[list[Asked]] = Queue()
    process = Process(target=scrape_all, args=(everything, seconds, done))
    process.start()
    scraped = done.get()
    process.join()
    during = len(honest.seconds)
    time.sleep(_BEFORE_SECONDS)
    honest.is_stopping.set()
    honest.join(_WAIT_SECONDS)
    print_honest("before", alone)
    print_honest(f"in {seconds:.0f} s of scrapes", honest.seconds[len(alone) : during])
    print_honest("after", honest.seconds[during:])
    print("| node | path | answers | of bytes | p50 | slowest |")
    print("|---|---|---|---|---|---|")
    for it in scraped:
        size = f"{it.answer_bytes:,}" if it.answer_bytes else "pages"
        print(
            f"| {it.name} | {it.path} | {len(it.seconds):,} | {size}"
            f" | {share(it.seconds, 0.5):.0f} ms | {max(it.seconds) * 1000:.0f} ms |"
        )
    after = statuses(cluster)
    for name, status in after.items():
        print(
            f"{name}: {status['role']}, terms {before[name]['term']} to {status['term']}, longest"
            f" turn {status['turn_seconds_max'] * 1000:.1f} ms by the clock,"
            f" {status['turn_cpu_seconds_max'] * 1000:.1f} ms of work"
            f" (before: {before[name]['turn_cpu_seconds_max'] * 1000:.1f} ms),"
            f" {memory_mib(cluster.nodes[name]):,.0f} MiB"
        )
    terms = {status["term"] for status in (*before.values(), *after.values())}
    print(f"elections since the queues are there: {max(terms) - min(terms)}")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=str(__doc__).strip().splitlines()[0])
    options.add_argument("--seconds", type=float, default=300.0, help="of scrapes")
    options.add_argument("--queues", type=int, default=100_000)
    options.add_argument("--more", action="store_true", help="ask the leader for single queues too")
    options.add_argument("--directory", type=Path)
    chosen = options.parse_args()
    directory = chosen.directory or Path(tempfile.gettempdir())
    print_heading(directory, nodes="three")
    with (
        tempfile.TemporaryDirectory(dir=directory) as data,
        LocalCluster(Path(data)) as cluster,
    ):
        measure(cluster, chosen.queues, chosen.seconds, has_more=chosen.more)


if __name__ == "__main__":
    main()
