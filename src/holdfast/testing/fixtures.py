"""
The same as fixtures of pytest: one line in the `conftest.py` of a user's tests.

    pytest_plugins = ["holdfast.testing.fixtures"]

Each test has a broker, or a cluster, of its own, which ends with the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from holdfast.testing.running import running_broker, running_cluster


@pytest.fixture
def holdfast_broker(tmp_path: Path) -> Iterator[LocalNode]:
    """Give one broker that serves clients; its data and log are in the test's `tmp_path`."""
    with running_broker(directory=tmp_path / "holdfast" / "broker") as broker:
        yield broker


@pytest.fixture
def holdfast_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Give three nodes with a leader; their data and logs are in the test's `tmp_path`."""
    with running_cluster(directory=tmp_path / "holdfast" / "cluster") as cluster:
        yield cluster
