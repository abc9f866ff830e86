"""
Brokers as real processes on this machine: for tests, the demo and the benchmarks.

Each node is `holdfast serve` with its own data folder and its own loopback ports; it can be killed,
paused, stopped and started again. Nothing outlives the `with` block, nor this process. Waiting is
always bounded and fails with what the node wrote to its log.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from holdfast.admin.endpoint import Endpoint
from holdfast.admin.token_file import FILE_NAME, NO_PROOF, LocalProof, read_proof
from holdfast.testing.free_ports import free_ports
from holdfast.testing.guardian import end_with_us

_POLL_SECONDS = 0.01
_POLL_SECONDS_MAX = 0.05
_POLL_SHARE = 0.05
"""Of what was waited so far: whoever asks a starting node for its status without a pause takes the
core that it starts with."""
_STOP_SECONDS = 60.0
LOOPBACK = "127.0.0.1"


class LocalNodeError(RuntimeError):
    """A node did not do in time what it should; the sentence ends with the tail of its log."""


def _rest(began: float) -> None:
    """Wait before one asks again, longer where it has lasted longer."""
    waited = time.monotonic() - began
    time.sleep(min(_POLL_SECONDS_MAX, max(_POLL_SECONDS, waited * _POLL_SHARE)))


class LocalNode:
    """One broker process; `host` is the address it binds, `ports` are STOMP, admin and peers."""

    def __init__(
        self,
        name: str,
        directory: Path,
        arguments: Iterable[str] = (),
        *,
        host: str = LOOPBACK,
        ports: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self.directory = directory
        self.host = host
        self.stomp_port, self.admin_port, self.peer_port = ports or free_ports(3)
        self.arguments = list(arguments)
        self.environment: dict[str, str] = {}
        """Added to the environment of the process when it starts."""
        self.open_files_max = 0
        """How many files the process may have open; 0: as many as this one."""
        self.program = ["-m", "holdfast"]
        """What the interpreter runs."""
        self.is_detached = False
        """Start it in a process group of its own: Ctrl-C in the terminal does not reach it."""
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path = directory / f"{name}.log"

    @property
    def data(self) -> Path:
        """The node's data folder."""
        return self.directory / self.name

    @property
    def uri(self) -> str:
        """Where clients connect."""
        return f"stomp://{self.host}:{self.stomp_port}"

    @property
    def admin(self) -> str:
        """The admin port as the command line takes it."""
        return f"{self.host}:{self.admin_port}"

    @property
    def peers(self) -> str:
        """Where it listens for the other members."""
        return f"{self.host}:{self.peer_port}"

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
        command = [sys.executable, *self.program, "serve", "--name", self.name]
        command += ["--data", str(self.data), "--stomp", f"{self.host}:{self.stomp_port}"]
        command += ["--admin", self.admin, *self.arguments, *extra]
        if self.open_files_max:
            limit = f'ulimit -n {self.open_files_max} && exec "$@"'
            command = ["/bin/sh", "-c", limit, "sh", *command]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
        environment |= self.environment
        with self.log_path.open("ab") as log:
            self.process = self._spawn(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
        end_with_us(self.process.pid)

    def _spawn(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        group = 0 if self.is_detached else None
        return subprocess.Popen(command, process_group=group, **options)  # noqa: S603 - ours

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
        if self._local_proof().fingerprint:
            return self._get_by_tls(path)
        request = urllib.request.Request(f"http://{self.admin}{path}", headers=self.proof())
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - http
            return json.loads(answer.read())

    def _get_by_tls(self, path: str) -> Any:
        endpoint = Endpoint(self.admin).trusting(self._local_proof().fingerprint)
        connection = endpoint.connection(5)
        try:
            connection.request("GET", path, headers=self.proof())
            answer = connection.getresponse()
            if answer.status >= HTTPStatus.BAD_REQUEST:
                raise OSError(f"{self.name} answered {path} with HTTP status {answer.status}")
            return json.loads(answer.read())
        finally:
            connection.close()

    def proof(self) -> dict[str, str]:
        """Give the header by which the node knows its own user; none before it has started."""
        token = self._local_proof().token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _local_proof(self) -> LocalProof:
        with suppress(OSError):
            return read_proof(self.data.absolute() / FILE_NAME, self.host, self.admin_port)
        return NO_PROOF

    def status(self) -> dict[str, Any] | None:
        """Give the node's status, None while it does not answer."""
        with suppress(OSError, ValueError, HTTPException):  # It may die in the middle of it.
            status: dict[str, Any] = self.get("/status")
            return status
        return None

    def log_tail(self, lines: int = 30) -> str:
        """Give the end of what the node wrote."""
        if not self.log_path.exists():
            return "(no log)"
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def wait_until(
        self, condition: Callable[[dict[str, Any]], bool], what: str, seconds: float = 60.0
    ) -> dict[str, Any]:
        """
        Wait until the status fulfils a condition, and give that status.

        Raises:
            LocalNodeError: It did not in time, or the process ended.
        """
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            status = self.status()
            if status is not None and condition(status):
                return status
            if not self.is_running:
                break
            _rest(began)
        state = "running" if self.is_running else "ended"
        raise LocalNodeError(f"{self.name} ({state}) never was {what}\n{self.log_tail()}")


NodeT = TypeVar("NodeT", bound=LocalNode)

TOPOLOGIES = {
    "single": (("a", "voter"),),
    "pair": (("a", "voter"), ("b", "voter")),
    "three": (("a", "voter"), ("b", "voter"), ("c", "voter")),
    "witness": (("a", "voter"), ("b", "voter"), ("c", "witness")),
    "five": tuple((name, "voter") for name in "abcde"),
    "far": (*((name, "voter") for name in "abc"), *((name, "learner") for name in "lmn")),
}


class NodeGroup(Generic[NodeT]):
    """What is asked of all nodes of a cluster, wherever they run; use as a context manager."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.secret_path = directory / "secret"
        self.nodes: dict[str, NodeT] = {}

    @property
    def secret(self) -> bytes:
        """What the members know of each other, as changes from another machine need it."""
        return self.secret_path.read_bytes().strip()

    @property
    def uri(self) -> str:
        """Where clients connect: a failover URI of every node."""
        inner = ",".join(node.uri for node in self.nodes.values())
        return f"failover:({inner})?initialReconnectDelay=10&maxReconnectDelay=100"

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

    def start(self) -> NodeT:
        """
        Start every node and give the leader once it serves clients and all others know of it.

        A quorum elects before the slowest of them has opened its files: it would have no status
        and no ballot yet, and be behind in all that a test looks at.

        Raises:
            LocalNodeError: There is no leader in time, or every node has ended.
        """
        for node in self.nodes.values():
            node.start()
        leader = self._found_leader(60.0, None, is_starting=True)
        for node in self.nodes.values():
            node.wait_until(lambda status: status["leader"] is not None, "told of a leader")
        return leader

    def leader(self, seconds: float = 60.0, but: LocalNode | None = None) -> NodeT:
        """
        Give the node that leads and serves clients; `but` is one that does not count.

        Raises:
            LocalNodeError: There is none in time.
        """
        return self._found_leader(seconds, but, is_starting=False)

    def _found_leader(self, seconds: float, but: LocalNode | None, *, is_starting: bool) -> NodeT:
        """While they start nobody else starts one anew, so there is nothing to wait for without."""
        began = time.monotonic()
        why = f"no leader within {seconds} s"
        while time.monotonic() < began + seconds:
            for node in self.nodes.values():
                if node is but or not node.is_running:
                    continue
                status = node.status()
                if status and status["role"] == "leader" and status["serving"]:
                    return node
            if is_starting and not any(node.is_running for node in self.nodes.values()):
                why = "no leader: every node has ended"
                break
            _rest(began)
        tails = "\n".join(f"--- {n.name}\n{n.log_tail()}" for n in self.nodes.values())
        raise LocalNodeError(f"{why}\n{tails}")

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


class LocalCluster(NodeGroup[LocalNode]):
    """
    Several nodes that replicate one store; use as a context manager.

    `topology` is one of TOPOLOGIES. `arguments` go to every node.
    """

    def __init__(
        self, directory: Path, topology: str = "three", arguments: Iterable[str] = ()
    ) -> None:
        super().__init__(directory)
        members = TOPOLOGIES[topology]
        self.arguments = list(arguments)
        self.nodes = {name: LocalNode(name, directory, self.arguments) for name, _ in members}
        if len(members) > 1:
            listed = []
            for name, kind in members:
                suffix = "" if kind == "voter" else f",{kind}"
                listed += ["--member", f"{name}={self.nodes[name].peers}{suffix}"]
            for node in self.nodes.values():
                node.arguments += ["--peers", node.peers, *listed]
                node.arguments += ["--secret-file", str(self.secret_path)]

    @property
    def stomp_addresses(self) -> str:
        """The same for stompbench: host:port,host:port."""
        return ",".join(f"127.0.0.1:{node.stomp_port}" for node in self.nodes.values())
