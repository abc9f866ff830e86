"""
Brokers as real processes on this machine: for tests, the demo and the benchmarks.

Each node is `holdfast serve` with its own data folder and its own loopback ports; it can be killed,
paused, stopped and started again. Nothing outlives the `with` block. Waiting is always bounded and
fails with what the node wrote to its log.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

_POLL_SECONDS = 0.01
_STOP_SECONDS = 15.0


class LocalNodeError(RuntimeError):
    """A node did not do in time what it should; the sentence ends with the tail of its log."""


def free_ports(count: int) -> list[int]:
    """Give loopback ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class LocalNode:
    """One broker process."""

    def __init__(self, name: str, directory: Path, arguments: Iterable[str] = ()) -> None:
        self.name = name
        self.directory = directory
        self.stomp_port, self.admin_port, self.peer_port = free_ports(3)
        self.arguments = list(arguments)
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path = directory / f"{name}.log"

    @property
    def data(self) -> Path:
        """The node's data folder."""
        return self.directory / self.name

    @property
    def admin(self) -> str:
        """The admin port as the command line takes it."""
        return f"127.0.0.1:{self.admin_port}"

    @property
    def pid(self) -> int:
        """The process id of the running node."""
        assert self.process is not None, "the node was never started"
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.poll() is None

    def start(self, extra: Iterable[str] = ()) -> None:
        """Start the process; returns at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "holdfast", "serve", "--name", self.name]
        command += ["--data", str(self.data), "--stomp", f"127.0.0.1:{self.stomp_port}"]
        command += ["--admin", self.admin, *self.arguments, *extra]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )

    def kill(self) -> None:
        """Kill the process without any warning (SIGKILL), and reap it."""
        if self.is_running:
            self.signal(signal.SIGKILL)
            self.wait()

    def stop(self) -> int:
        """Stop the process as an operator does (SIGTERM) and give its exit code."""
        if self.is_running:
            self.signal(signal.SIGTERM)
            try:
                return self.wait()
            except subprocess.TimeoutExpired:
                self.kill()
                raise LocalNodeError(
                    f"{self.name} did not stop in time\n{self.log_tail()}"
                ) from None
        return self.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the end of the process and give its exit code."""
        assert self.process is not None, "the node was never started"
        return self.process.wait(_STOP_SECONDS)

    def get(self, path: str) -> Any:
        """Ask the admin port; raises OSError while it is closed."""
        url = f"http://{self.admin}{path}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.loads(answer.read())

    def status(self) -> dict[str, Any] | None:
        """Give the node's status, None while it does not answer."""
        with suppress(OSError, ValueError, urllib.error.HTTPError):
            status: dict[str, Any] = self.get("/status")
            return status
        return None

    def log_tail(self, lines: int = 30) -> str:
        """Give the end of what the node wrote."""
        if not self.log_path.exists():
            return "(no log)"
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def wait_until(
        self, condition: Callable[[dict[str, Any]], bool], what: str, seconds: float = 30.0
    ) -> dict[str, Any]:
        """
        Wait until the status fulfils a condition, and give that status.

        Raises:
            LocalNodeError: It did not in time, or the process ended.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            status = self.status()
            if status is not None and condition(status):
                return status
            if not self.is_running:
                break
            time.sleep(_POLL_SECONDS)
        state = "running" if self.is_running else "ended"
        raise LocalNodeError(f"{self.name} ({state}) never was {what}\n{self.log_tail()}")


TOPOLOGIES = {
    "single": (("a", "voter"),),
    "pair": (("a", "voter"), ("b", "voter")),
    "three": (("a", "voter"), ("b", "voter"), ("c", "voter")),
    "witness": (("a", "voter"), ("b", "voter"), ("c", "witness")),
    "five": tuple((name, "voter") for name in "abcde"),
}


class LocalCluster:
    """
    Several nodes that replicate one store; use as a context manager.

    `topology` is one of TOPOLOGIES. `arguments` go to every node.
    """

    def __init__(
        self, directory: Path, topology: str = "three", arguments: Iterable[str] = ()
    ) -> None:
        members = TOPOLOGIES[topology]
        self.directory = directory
        self.arguments = list(arguments)
        self.secret_path = directory / "secret"
        self.nodes = {name: LocalNode(name, directory, self.arguments) for name, _ in members}
        if len(members) > 1:
            listed = []
            for name, kind in members:
                suffix = "" if kind == "voter" else f",{kind}"
                port = self.nodes[name].peer_port
                listed += ["--member", f"{name}=127.0.0.1:{port}{suffix}"]
            for node in self.nodes.values():
                node.arguments += ["--peers", f"127.0.0.1:{node.peer_port}", *listed]
                node.arguments += ["--secret-file", str(self.secret_path)]

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.secret_path.exists():
            self.secret_path.write_text(secrets.token_hex(32))
            self.secret_path.chmod(0o600)
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            if node.is_running:
                with suppress(ProcessLookupError):
                    node.signal(signal.SIGCONT)
                node.kill()

    def start(self) -> LocalNode:
        """Start every node and give the leader once it serves clients."""
        for node in self.nodes.values():
            node.start()
        return self.leader()

    def leader(self, seconds: float = 30.0, but: LocalNode | None = None) -> LocalNode:
        """
        Give the node that leads and serves clients; `but` is one that does not count.

        Raises:
            LocalNodeError: There is none in time.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for node in self.nodes.values():
                if node is but or not node.is_running:
                    continue
                status = node.status()
                if status and status["role"] == "leader" and status["serving"]:
                    return node
            time.sleep(_POLL_SECONDS)
        tails = "\n".join(f"--- {n.name}\n{n.log_tail()}" for n in self.nodes.values())
        raise LocalNodeError(f"no leader within {seconds} s\n{tails}")

    @property
    def uri(self) -> str:
        """Where clients connect: a failover URI of every node."""
        inner = ",".join(f"stomp://127.0.0.1:{n.stomp_port}" for n in self.nodes.values())
        return f"failover:({inner})?initialReconnectDelay=10&maxReconnectDelay=100"

    @property
    def stomp_addresses(self) -> str:
        """The same for stompbench: host:port,host:port."""
        return ",".join(f"127.0.0.1:{node.stomp_port}" for node in self.nodes.values())

    def wait_level(self, seconds: float = 60.0) -> int:
        """Wait until every running node has applied what the leader has committed; its index."""
        leader = self.leader()
        status = leader.status()
        assert status is not None, "the leader answers"
        index = int(status["commit_index"])
        for node in self.nodes.values():
            if node.is_running:
                node.wait_until(
                    lambda s: s["applied_index"] >= index or s["role"] == "witness",
                    f"level with entry {index}",
                    seconds,
                )
        return index
