"""
A broker, or a cluster of them, for a test: there within the `with`, gone afterwards.

Real processes of the installed Holdfast on free loopback ports, with folders of their own. Nothing
is left behind but what the test itself kept: processes are killed, temporary folders removed, also
where the test fails.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.testing.local_cluster import TOPOLOGIES, LocalCluster, LocalNode


@contextmanager
def running_broker(
    arguments: Iterable[str] = (), directory: Path | None = None
) -> Iterator[LocalNode]:
    """
    Run one broker and give it once it serves clients; clients connect to its `uri`.

    Args:
        arguments: Flags for `holdfast serve`, beside those that name places and ports.
        directory: Where its data and its log go; a temporary folder if none is given.

    Raises:
        LocalNodeError: It did not start; the end of its log is in the message.
        ValueError: The flags are one text.
    """
    with running_cluster("single", arguments, directory) as cluster:
        yield next(iter(cluster.nodes.values()))


@contextmanager
def running_cluster(
    topology: str = "three", arguments: Iterable[str] = (), directory: Path | None = None
) -> Iterator[LocalCluster]:
    """
    Run a cluster and give it once it has a leader that serves clients.

    Its `uri` is a failover URI of every node. `leader()` names the one that leads, and each of
    `nodes` can be killed, stopped and started again.

    Args:
        topology: One of `local_cluster.TOPOLOGIES`: single, pair, three, witness, five, far.

    Raises:
        LocalNodeError: It has no leader in time; the ends of the nodes' logs are in the message.
        ValueError: There is no such topology, or the flags are one text.
    """
    if topology not in TOPOLOGIES:
        raise ValueError(f"{topology!r} is no topology; there are {', '.join(TOPOLOGIES)}")
    if isinstance(arguments, str):
        raise ValueError(f"{arguments!r} is one text; give a list of flags")
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
            with running_cluster(topology, arguments, Path(name)) as cluster:
                yield cluster
            return
    with LocalCluster(Path(directory), topology, arguments) as cluster:
        cluster.start()
        yield cluster
