"""
Clients that do not read, or never come to an end: what fifty of a kind take of a node's memory.

A node for each kind, a real process on loopback; fifty connections send as long as anything is
taken from them and read nothing, an honest client beside them sends, receives and acknowledges one
message after the other. Printed: what the node took before and at most, what the crowd got rid of
and how many of it were closed, how many rounds the honest client had and how long they took. The
most must be under `memory` and 300 MB. With `--together` all kinds press one node at once. With
`--without` a bound is switched off, to see that it is what keeps the memory small.

Run: .venv/bin/python benches/hostile.py [--only KIND] [--count 50] [--seconds 10]
    [--memory 256MiB] [--together] [--without SETTING,...]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from machine import print_heading

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.hostile_clients import (
    HOSTILE,
    Crowd,
    forget_maximum,
    resident_bytes,
    resident_bytes_max,
)
from trials.clients.stomp_socket import StompSocket

MiB = 1 << 20
_PATIENCE_SECONDS = 60.0
_PATIENT = ["--election-seconds-min", "5", "--election-seconds-max", "8"]
"""The honest client follows no failover."""


class Honest(threading.Thread):
    """Sends, receives and acknowledges one message after the other, and times each round."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.seconds: list[float] = []
        self.problem = ""
        self.is_stopping = threading.Event()

    def run(self) -> None:
        """Go on until told to stop."""
        try:
            self._work()
        except (OSError, AssertionError) as error:
            self.problem = f"{type(error).__name__}: {error}"

    def _work(self) -> None:
        with StompSocket(self.port, timeout_seconds=_PATIENCE_SECONDS) as client:
            client.connect()
            client.subscribe("/queue/honest")
            while not self.is_stopping.wait(0.01):
                began = time.monotonic()
                answer = client.publish("/queue/honest", b"x")
                assert answer.command == "RECEIPT", answer
                client.acknowledge(client.read_message())
                self.seconds.append(time.monotonic() - began)


def press(node: LocalNode, kinds: list[str], count: int, seconds: float) -> list[Crowd]:
    """Let a crowd of each kind press for so long, all at the same time."""
    with ExitStack() as stack:
        crowds = [stack.enter_context(HOSTILE[kind].crowd(node, count)) for kind in kinds]
        threads = []
        for crowd in crowds:
            crowd.quiet_seconds = max(2.0, seconds / 2)
            threads.append(threading.Thread(target=crowd.press, args=(1 << 50, seconds)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(1.0)
        return crowds


def measure(kinds: list[str], chosen: argparse.Namespace) -> None:
    """Press one node, and print its line."""
    is_of_peers = any(HOSTILE[kind].port == "peer" for kind in kinds)
    arguments = ["--memory", chosen.memory, "--segment", "16MiB"]
    with (
        tempfile.TemporaryDirectory(dir=chosen.directory) as data,
        LocalCluster(
            Path(data),
            "three" if is_of_peers else "single",
            [*arguments, *(_PATIENT if is_of_peers else ())],
        ) as cluster,
    ):
        for node in cluster.nodes.values():
            if chosen.without:
                node.program = ["-m", "trials.clients.endless", chosen.without]
        leader = cluster.start()
        before = resident_bytes(leader)
        forget_maximum(leader)
        honest = Honest(leader.stomp_port)
        honest.start()
        crowds = press(leader, kinds, chosen.count, chosen.seconds)
        most = resident_bytes_max(leader)
        honest.is_stopping.set()
        honest.join(_PATIENCE_SECONDS)
        times = sorted(honest.seconds) or [0.0]
        print(
            f"| {kinds[0] if len(kinds) == 1 else 'all together'} | {before // MiB} MiB"
            f" | {most // MiB:,} MiB | {sum(it.sent_bytes for it in crowds) // MiB:,} MiB"
            f" | {sum(it.closed_count for it in crowds)} | {len(honest.seconds):,}"
            f" | {times[len(times) // 2] * 1000:.0f} ms, {times[-1] * 1000:.0f} ms"
            f" {honest.problem} |",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=str(__doc__).strip().splitlines()[0])
    options.add_argument("--only", choices=list(HOSTILE), action="append")
    options.add_argument("--count", type=int, default=50)
    options.add_argument("--seconds", type=float, default=10.0, help="of each kind")
    options.add_argument("--memory", default="256MiB")
    options.add_argument("--together", action="store_true")
    options.add_argument("--without", default="", help="settings that are bounds")
    options.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    chosen = options.parse_args()
    print_heading(chosen.directory, nodes="one; three where the port for peers is pressed")
    print("| kind | before | most | sent | closed | honest rounds | half under, slowest |")
    print("|---|---|---|---|---|---|---|")
    kinds = chosen.only or list(HOSTILE)
    for some in [kinds] if chosen.together else [[kind] for kind in kinds]:
        measure(some, chosen)


if __name__ == "__main__":
    main()
