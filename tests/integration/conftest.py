"""
Brokers as real processes for these tests, and what must hold at the end of every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalCluster

StartCluster = Callable[..., LocalCluster]

# Small segments seal while a test looks on; quick elections keep the suite short.
QUICK = ["--segment", "256KiB", "--heartbeat-seconds", "0.05"]
QUICK += ["--election-seconds-min", "0.5", "--election-seconds-max", "1.0"]


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """
    Start clusters of a topology; at the end all is killed, and no log may hold an exception.
    """
    started: list[LocalCluster] = []
    with ExitStack() as stack:

        def start(
            topology: str = "single", *arguments: str, name: str = "c", open_files_max: int = 0
        ) -> LocalCluster:
            folder = tmp_path / f"{name}{len(started)}"
            cluster = stack.enter_context(LocalCluster(folder, topology, [*QUICK, *arguments]))
            for node in cluster.nodes.values():
                node.open_files_max = open_files_max
            started.append(cluster)
            cluster.start()
            return cluster

        yield start
    for cluster in started:
        for node in cluster.nodes.values():
            text = node.log_path.read_text(errors="replace")

            assert "Traceback" not in text, f"{node.name} wrote:\n{text[-6000:]}"
