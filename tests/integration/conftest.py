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
# Where nobody may be elected and no client cut off but for what the test does: with quick elections
# a node that this machine keeps waiting for half a second is taken for a silent one. Costs nothing:
# a new cluster and one whose leader's links are closed elect at once.
PATIENT_SECONDS = 10.0
PATIENT = ["--election-seconds-min", str(PATIENT_SECONDS), "--election-seconds-max", "15"]


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """
    Start clusters of a topology; at the end all is killed, and no log may hold an exception.
    """
    started: list[LocalCluster] = []
    with ExitStack() as stack:

        def start(
            topology: str = "single",
            *arguments: str,
            name: str = "c",
            open_files_max: int = 0,
            is_patient: bool = False,
            environment: dict[str, str] | None = None,
        ) -> LocalCluster:
            folder = tmp_path / f"{name}{len(started)}"
            timings = [*QUICK, *(PATIENT if is_patient else ())]
            cluster = stack.enter_context(LocalCluster(folder, topology, [*timings, *arguments]))
            for node in cluster.nodes.values():
                node.open_files_max = open_files_max
                node.environment |= environment or {}
            started.append(cluster)
            cluster.start()
            return cluster

        yield start
    for cluster in started:
        for node in cluster.nodes.values():
            text = node.log_path.read_text(errors="replace")

            assert "Traceback" not in text, f"{node.name} wrote:\n{text[-6000:]}"
