"""
Faults that a cluster has in a good week: a process dies, hangs, is restarted or hands over.

One at a time, and the next only when all nodes are back and level, so that what is seen between
them is the steady state. Kinds come in shuffled rounds: each happens before one comes again.

Runs in its own thread while the run lasts; marks are handed over as they end.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

from holdfast.admin.remote import RemoteNode
from holdfast.errors import HoldfastError, QuorumLostError
from holdfast.testing.local_cluster import LocalCluster, LocalNode, LocalNodeError

ALONE = ("kill leader", "stop leader")
TOGETHER = (
    "kill leader",
    "pause leader",
    "transfer",
    "stop follower",
    "kill follower",
    "pause follower",
    "stop leader",
)
_DOWN_SECONDS = (0.5, 3.0)
_WHOLE_SECONDS_MAX = 60.0


def fault_order(seed: int, node_count: int) -> Iterator[str]:
    """Give the kinds of faults in the order of a seed, for ever; the leader's death comes first."""
    randomness = random.Random(f"faults {seed}")  # noqa: S311 - a schedule
    kinds = list(ALONE if node_count == 1 else TOGETHER)
    yield kinds[0]
    rest = kinds[1:]
    while True:
        randomness.shuffle(rest)
        yield from rest
        rest = kinds.copy()


class MildFaults:
    """Does faults to a cluster from time to time."""

    def __init__(
        self,
        cluster: LocalCluster,
        seed: int,
        interval: float,
        note: Callable[[str, str, float, float], None],
    ) -> None:
        self.cluster = cluster
        self.interval = interval
        self.note = note
        """Called with kind, node, monotonic start, seconds until the cluster was whole."""
        self.problems: list[str] = []
        self.counts: dict[str, int] = {}
        self.refused_count = 0
        self.last = ""
        self._order = fault_order(seed, len(cluster.nodes))
        self._randomness = random.Random(f"times {seed}")  # noqa: S311 - a schedule
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Do no more; returns when the one under way is mended."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_WHOLE_SECONDS_MAX + 15)

    def _run(self) -> None:
        while not self._stopping.wait(self.interval * self._randomness.uniform(0.7, 1.3)):
            try:
                self._do(next(self._order))
            except (LocalNodeError, HoldfastError, OSError) as error:
                self.problems.append(f"after a fault: {error}")
                return

    def _do(self, kind: str) -> None:
        verb, _, where = kind.partition(" ")
        leader = self.cluster.leader()
        node = leader if where != "follower" else self._follower(leader)
        began = time.monotonic()
        down = self._randomness.uniform(*_DOWN_SECONDS)
        if verb == "transfer":
            node = self._transfer(leader)
        elif verb == "pause":
            node.signal(signal.SIGSTOP)
            self._stopping.wait(down)
            node.signal(signal.SIGCONT)
        else:
            if verb == "kill":
                node.kill()
            else:
                node.stop()
            self._stopping.wait(down if len(self.cluster.nodes) > 1 else 0.0)
            node.start()
        self._wait_whole()
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.last = f"{kind} {node.name}"
        self.note(kind, node.name, began, time.monotonic() - began)

    def _follower(self, leader: LocalNode) -> LocalNode:
        others = [node for node in self.cluster.nodes.values() if node is not leader]
        return self._randomness.choice(others)

    def _transfer(self, leader: LocalNode) -> LocalNode:
        try:
            RemoteNode(leader.admin).change("POST", "/cluster/transfer")
        except QuorumLostError:
            self.refused_count += 1  # The other one did not take over in time; that is allowed.
        return leader

    def _wait_whole(self) -> None:
        deadline = time.monotonic() + _WHOLE_SECONDS_MAX
        while not all(node.status() for node in self.cluster.nodes.values()):
            if time.monotonic() > deadline:
                raise LocalNodeError(f"not all nodes answer within {_WHOLE_SECONDS_MAX:g} s")
            self._stopping.wait(0.05)
            time.sleep(0.05)
        self.cluster.wait_level(_WHOLE_SECONDS_MAX)
