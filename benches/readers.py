"""
Many who read the log of the leader at once: what that costs its clients, and what they get.

Three nodes, real processes on loopback, a log of some hundred megabytes. Readers, each a process,
fetch the log of the leader from its begin again and again, eight megabytes at a time, as the tasks
of a Spark job do that finds no other node; who is told to come later waits a fifth of a second. An
honest client beside it sends message after message and times each, before and during.

Run: .venv/bin/python benches/readers.py [--readers 16] [--seconds 15] [--messages 200000]
    [--directory DIR]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from http.client import HTTPConnection
from multiprocessing import Process, Queue
from pathlib import Path

from machine import print_heading
from producers import HonestClient
from scrapes import print_honest, statuses

from holdfast.admin.remote import admin_token
from holdfast.client import blocking
from holdfast.testing.local_cluster import LocalCluster

BODY = b"x" * 1000
SLICE_BYTES = 8 * 1024 * 1024
LATER_SECONDS = 0.2
WAIT_SECONDS = 60.0
MIB = 1024 * 1024


def read(admin: str, token: str, until: float, done: Queue[tuple[int, int, int]]) -> None:
    """Fetch from the begin to the end, again and again; tells bytes, answers and refusals."""
    headers = {"Authorization": f"Bearer {token}"}
    connection = HTTPConnection(admin, timeout=WAIT_SECONDS)
    size = answers = refused = 0
    index = 1
    while time.monotonic() < until:
        connection.request("GET", f"/log?from={index}&bytes={SLICE_BYTES}", headers=headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status >= 400:
            refused += 1
            time.sleep(LATER_SECONDS)
            continue
        answers += 1
        size += len(data)
        index = int(answer.headers["Holdfast-Next-Index"]) if data else 1
    done.put((size, answers, refused))


def measure(cluster: LocalCluster, messages: int, readers: int, seconds: float) -> None:
    """Fill, read, print."""
    leader = cluster.start()
    with (
        blocking.connect(cluster.uri) as connection,
        connection.producer("/queue/filled") as producer,
    ):
        for _ in range(messages):
            producer.send(BODY)
    cluster.wait_level()
    before = statuses(cluster)
    honest = HonestClient(leader.stomp_port)
    honest.start()
    time.sleep(seconds)
    alone = len(honest.seconds)
    done: Queue[tuple[int, int, int]] = Queue()
    until = time.monotonic() + seconds
    token = admin_token(cluster.secret)
    processes = [
        Process(target=read, args=(leader.admin, token, until, done)) for _ in range(readers)
    ]
    for process in processes:
        process.start()
    found = [done.get() for _ in processes]
    for process in processes:
        process.join()
    during = len(honest.seconds)
    honest.is_stopping.set()
    honest.join(WAIT_SECONDS)
    print_honest("before", honest.seconds[:alone])
    print_honest(f"beside {readers} readers", honest.seconds[alone:during])
    size, answers, refused = (sum(column) for column in zip(*found, strict=True))
    print(f"read {size / MIB / seconds:,.0f} MiB/s in {answers:,} answers; {refused:,} times later")
    after = statuses(cluster)
    told = {name: round(it["turn_seconds_max"] * 1000, 1) for name, it in after.items()}
    elections = max(it["term"] for it in after.values()) - max(it["term"] for it in before.values())
    print(f"elections: {elections}; longest turns, ms: {json.dumps(told)}")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=str(__doc__).strip().splitlines()[0])
    options.add_argument("--readers", type=int, default=16)
    options.add_argument("--seconds", type=float, default=15.0)
    options.add_argument("--messages", type=int, default=200_000)
    options.add_argument("--directory", type=Path)
    chosen = options.parse_args()
    directory = chosen.directory or Path(tempfile.gettempdir())
    print_heading(directory, nodes="three")
    with (
        tempfile.TemporaryDirectory(dir=directory) as data,
        LocalCluster(Path(data), arguments=["--segment", str(16 * MIB)]) as cluster,
    ):
        measure(cluster, chosen.messages, chosen.readers, chosen.seconds)


if __name__ == "__main__":
    main()
