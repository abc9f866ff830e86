"""
The broker that clients meet.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.testing.local_cluster import LocalCluster, LocalNode


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    """
    One broker for all tests of a file; it made no mistake that ended in a Traceback.
    """
    with LocalCluster(tmp_path_factory.mktemp("clients"), "single") as cluster:
        yield cluster.start()
        log = cluster.nodes["a"].log_path.read_text(errors="replace")

        assert "Traceback" not in log
