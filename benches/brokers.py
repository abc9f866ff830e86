"""
The brokers that are measured, each as processes of its own on loopback ports.

`Broker` is what the scenarios need of one; `Holdfast` is ours. The others are in `activemq.py` and
`rabbitmq.py`. None of them is a service of the system: each has its data in a directory of the
bench, is started by it, and is stopped by process id.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from holdfast import __version__
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.testing.local_cluster import LocalCluster, LocalNode

READY_SECONDS = 60.0
_STOP_SECONDS = 10.0


class BrokerError(RuntimeError):
    """A broker did not start, or ended; the sentence has the end of its log."""


class Broker:
    """One product in one topology; a context manager that starts and stops it."""

    name = ""
    title = ""
    node_counts: tuple[int, ...] = (1,)

    def __init__(self, directory: Path, nodes: int) -> None:
        self.directory = directory
        self.nodes = nodes

    @classmethod
    def missing(cls) -> str:
        """Why it cannot be measured here; empty if it can."""
        return ""

    @classmethod
    def version(cls) -> str:
        """Which version is measured."""
        return ""

    def __enter__(self) -> Self:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start all nodes and wait until clients can work."""
        raise NotImplementedError

    def stop(self) -> None:
        """End every process that was started."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """Where clients should connect to for speed: the leader."""
        raise NotImplementedError

    @property
    def addresses(self) -> str:
        """All nodes, the leader first."""
        return self.address

    @property
    def pids(self) -> list[int]:
        """The processes whose time counts."""
        raise NotImplementedError

    def headers(self) -> list[str]:
        """Arguments for the generator that this product needs."""
        return []

    @property
    def declares_slowly(self) -> bool:
        """Whether a queue should be made by one client before many meet it."""
        return False

    def kill_leader(self) -> None:
        """Kill the leader without warning."""
        raise NotImplementedError

    def heal(self) -> None:
        """Start what was killed again and wait until it is level with the others."""
        raise NotImplementedError


class Holdfast(Broker):
    """Real nodes, `holdfast serve`, with default settings."""

    name = "holdfast"
    title = "Holdfast"
    node_counts = (1, 3)
    cluster: LocalCluster | None = None
    leader: LocalNode

    @classmethod
    def version(cls) -> str:
        """The version of this checkout; the heading has the commit."""
        return f"Holdfast {__version__}, default settings"

    def start(self) -> None:
        """Start one node or three."""
        topology = {1: "single", 3: "three"}[self.nodes]
        self.cluster = LocalCluster(self.directory, topology)
        self.cluster.__enter__()
        self.leader = self.cluster.start()
        # Some features are refused for the first instant: the log comes to their level by an entry.
        self.leader.wait_until(
            lambda status: status["format_level"] >= NEWEST_LEVEL, "at the newest level"
        )

    def stop(self) -> None:
        """Kill every node: nothing of it is needed any more."""
        if self.cluster is not None:
            self.cluster.__exit__(None, None, None)

    @property
    def _all(self) -> list[LocalNode]:
        assert self.cluster is not None, "asked after start"
        nodes = [node for node in self.cluster.nodes.values() if node is not self.leader]
        return [self.leader, *nodes]

    @property
    def address(self) -> str:
        """The leader's client port."""
        return f"127.0.0.1:{self.leader.stomp_port}"

    @property
    def addresses(self) -> str:
        """Every node's client port."""
        return ",".join(f"127.0.0.1:{node.stomp_port}" for node in self._all)

    @property
    def pids(self) -> list[int]:
        """Every node."""
        return [node.pid for node in self._all]

    def kill_leader(self) -> None:
        """Kill the node that leads now."""
        self.leader.kill()

    def heal(self) -> None:
        """Start the killed node again; wait until it has caught up."""
        assert self.cluster is not None, "asked after start"
        for node in self._all:
            if not node.is_running:
                node.start()
        self.leader = self.cluster.leader()
        self.cluster.wait_level()


def wait_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """
    Wait until a port takes connections.

    Raises:
        BrokerError: The process ended, or it takes longer than READY_SECONDS.
    """
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
    raise BrokerError(f"nothing listens on port {port}\n{tail}")


def end(process: subprocess.Popen[bytes] | None) -> None:
    """End a process that this bench started: asked first, killed if it does not."""
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def package_version(package: str) -> str:
    """The version of an installed Debian package, empty if it is not installed."""
    if shutil.which("dpkg-query") is None:
        return ""
    command = ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Version}", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return words[1] if done.returncode == 0 and words[:1] == ["ii"] else ""
