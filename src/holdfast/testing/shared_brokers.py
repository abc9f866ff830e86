"""
Several brokers over one log, as real processes on this machine: for tests and demos.

Where the log is (a shared directory, a database) is said by the flags that all of them get; one of
them serves, the others wait. The rest is as with any group of nodes: each can be killed, paused,
stopped and started again, and nothing outlives the `with` block.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.testing.local_cluster import LocalNode, NodeGroup


class SharedBrokers(NodeGroup[LocalNode]):
    """
    Brokers over one log; use as a context manager.

    `arguments` go to every one and say where the log is, `--shared DIR` for instance.
    """

    def __init__(
        self, directory: Path, arguments: Iterable[str], names: Iterable[str] = "abc"
    ) -> None:
        super().__init__(directory)
        given = list(arguments)
        self.nodes = {name: LocalNode(name, directory, given) for name in names}

    def standby(self) -> LocalNode:
        """Give one that waits; LocalNodeError if none is left."""
        holder = self.leader()
        return next(it for it in self.nodes.values() if it is not holder and it.is_running)
