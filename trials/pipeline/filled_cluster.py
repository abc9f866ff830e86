"""
Three real nodes on which messages wait, for tests that hurt the nodes.

Whoever takes one may kill what is in it; each has its own folder and ports, and all of it is level
when it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.client import blocking
from holdfast.testing.local_cluster import LocalCluster


@contextmanager
def filled_cluster(directory: Path, queue: str, bodies: Iterable[bytes]) -> Iterator[LocalCluster]:
    """Start a cluster whose nodes all have these messages of a queue."""
    with LocalCluster(directory, "three") as cluster:
        cluster.start()
        with (
            blocking.connect(cluster.uri) as connection,
            connection.producer(f"/queue/{queue}") as producer,
        ):
            for body in bodies:
                producer.send(body)
        cluster.wait_level()
        yield cluster
