"""
Very many producers, each with one message: what they cost three nodes, and whom they disturb.

Short-lived clients that bring an id of their own each are the normal case. Real processes on
loopback; one connection sends under a new id each time, beside it an honest client sends one
message after the other and times each. Printed: memory of each node before and after, producers
known and forgotten, the longest turn of each node's loop, the slowest messages of the honest
client, and elections, of which there must be none.

Run: .venv/bin/python benches/producers.py [--count N] [--directory DIR]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

from machine import print_heading

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.stomp_socket import StompSocket

_WINDOW = 500
_WAIT_SECONDS = 60.0


def memory_mib(node: LocalNode) -> float:
    """Resident memory of a node's process."""
    lines = Path(f"/proc/{node.pid}/status").read_text().splitlines()
    found = next(line for line in lines if line.startswith("VmRSS:"))
    return int(found.split()[1]) / 1024


def frame(number: int) -> bytes:
    """A persistent message of a producer that nobody has seen."""
    return (
        b"SEND\ndestination:/queue/reports\npersistent:true\n"
        b"producer-id:cron-%012d-4f6a-%08x\nproducer-sequence:1\n%b\nreport %d\0"
    ) % (number, number * 2_654_435_761 % 2**32, receipt(number), number)


def receipt(number: int) -> bytes:
    """A line that asks for a receipt, for the last message of a window."""
    return b"receipt:%d\n" % number if number % _WINDOW == 0 else b""


def send_all(port: int, count: int) -> float:
    """Send so many messages of one producer each; give the seconds that took."""
    began = time.monotonic()
    with StompSocket(port, timeout_seconds=_WAIT_SECONDS) as client:
        client.connect()
        for start in range(1, count + 1, _WINDOW):
            client.write(b"".join(frame(number) for number in range(start, start + _WINDOW)))
            answer = client.await_receipt(str(start + _WINDOW - 1))
            assert answer.command == "RECEIPT", answer
    return time.monotonic() - began


class HonestClient(threading.Thread):
    """One message after the other, each timed."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.seconds: list[float] = []
        self.is_stopping = threading.Event()

    def run(self) -> None:
        """Send until told to stop."""
        with StompSocket(self.port, timeout_seconds=_WAIT_SECONDS) as client:
            client.connect()
            while not self.is_stopping.wait(0.005):
                began = time.monotonic()
                client.publish("/queue/honest", b"x")
                self.seconds.append(time.monotonic() - began)


def print_nodes(cluster: LocalCluster, when: str) -> None:
    """Print what each node says of itself."""
    for node in cluster.nodes.values():
        status = node.status()
        assert status is not None, "the node answers"
        producers = status["producers"]
        print(
            f"{when} {node.name}: {memory_mib(node):7.1f} MiB, producers {producers['count']:,}"
            f" of {producers['count_max']:,}, forgotten {producers['forgotten']:,};"
            f" longest turn {status['turn_seconds_max'] * 1000:.1f} ms, a core's work"
            f" {status['turn_cpu_seconds_max'] * 1000:.1f} ms; term {status['term']}"
        )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=str(__doc__).strip().splitlines()[0])
    options.add_argument("--count", type=int, default=1_000_000)
    options.add_argument("--directory", type=Path)
    chosen = options.parse_args()
    count = -(-chosen.count // _WINDOW) * _WINDOW
    with (
        tempfile.TemporaryDirectory(dir=chosen.directory) as directory,
        LocalCluster(Path(directory)) as cluster,
    ):
        print_heading(Path(directory), producers=f"{count:,}, one message each; three nodes")
        leader = cluster.start()
        cluster.wait_level()
        before = leader.status()
        print_nodes(cluster, "before")
        honest = HonestClient(leader.stomp_port)
        honest.start()
        try:
            seconds = send_all(leader.stomp_port, count)
        except OSError as error:
            tails = "\n".join(node.log_tail() for node in cluster.nodes.values())
            raise SystemExit(f"{error}\n{tails}") from error
        honest.is_stopping.set()
        honest.join(_WAIT_SECONDS)
        cluster.wait_level()
        print(f"sent in {seconds:.1f} s, {count / seconds:,.0f} a second")
        print_nodes(cluster, "after ")
        times = sorted(honest.seconds)
        print(
            f"honest client: {len(times):,} messages, median {times[len(times) // 2] * 1000:.1f}"
            f" ms, 99 % {times[len(times) * 99 // 100] * 1000:.1f} ms,"
            f" slowest {times[-1] * 1000:.1f} ms"
        )
        after = leader.status()
        assert before is not None
        assert after is not None
        assert before["term"] == after["term"], "there was an election"
        print("no election")


if __name__ == "__main__":
    main()
