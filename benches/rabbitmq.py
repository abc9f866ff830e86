"""
RabbitMQ from the Debian package with its STOMP plugin: classic queues, quorum queues.

Nodes, name service (epmd), cookie, logs and data belong to the bench and listen on loopback only.
Nodes are started by the server's own script, in the way systemd starts it: the script becomes the
Erlang machine, so that its process id is ours to end or to kill.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from brokers import Broker, BrokerError, end, package_version, wait_port

from holdfast.testing.free_ports import free_ports

_SCRIPTS = Path("/usr/lib/rabbitmq/bin")
_CLUSTER_SECONDS = 60.0
_COOKIE = "HOLDFASTBENCH"


class RabbitNode:
    """One Erlang machine."""

    def __init__(self, name: str, directory: Path, name_port: int) -> None:
        self.name = f"{name}@localhost"
        self.directory = directory / name
        self.name_port = name_port
        self.port, self.distribution_port = free_ports(2)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What makes the server's scripts use our places only."""
        here = self.directory
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": str(here.parent),
            "ERL_EPMD_PORT": str(self.name_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_MNESIA_BASE": str(here / "data"),
            "RABBITMQ_LOG_BASE": str(here / "log"),
            "RABBITMQ_CONFIG_FILE": str(here / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(here / "plugins"),
            "RABBITMQ_PID_FILE": str(here / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ("-kernel inet_dist_use_interface {127,0,0,1}"),
        }

    def prepare(self, members: list[str]) -> None:
        """Write its configuration."""
        self.directory.mkdir(parents=True)
        lines = ["listeners.tcp = none", f"stomp.listeners.tcp.1 = 127.0.0.1:{self.port}"]
        if len(members) > 1:
            lines.append("cluster_formation.peer_discovery_backend = classic_config")
            for number, member in enumerate(members, 1):
                lines.append(f"cluster_formation.classic_config.nodes.{number} = {member}")
        (self.directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.directory / "plugins").write_text("[rabbitmq_stomp].\n")

    def start(self) -> None:
        """Start it; returns at once."""
        with (self.directory / "out").open("ab") as out:
            self.process = subprocess.Popen(
                [str(_SCRIPTS / "rabbitmq-server")],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env=self.environment,
                cwd=self.directory,
            )

    def wait(self) -> None:
        """Wait for its STOMP port."""
        assert self.process is not None, "waited for after start"
        wait_port(self.port, self.process, self.directory / "out")

    def ask(self, program: str, *arguments: str) -> str:
        """Run one of the command line tools against it."""
        command = [str(_SCRIPTS / program), "--node", self.name, *arguments]
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=20,
                env=self.environment, cwd=self.directory,
            )  # fmt: skip
            return done.stdout
        return ""


class RabbitMQ(Broker):
    """What classic and quorum queues have in common."""

    queue_headers: tuple[str, ...] = ()

    def __init__(self, directory: Path, nodes: int) -> None:
        super().__init__(directory, nodes)
        self.names: subprocess.Popen[bytes] | None = None
        self.members: list[RabbitNode] = []
        self.leader = 0

    @classmethod
    def missing(cls) -> str:
        """It comes by `apt-get install rabbitmq-server`."""
        return "" if package_version("rabbitmq-server") else "not installed"

    @classmethod
    def version(cls) -> str:
        """The package's version."""
        return f"RabbitMQ {package_version('rabbitmq-server')}, {cls.title}, default settings"

    def start(self) -> None:
        """Start the name service and all nodes; wait until they are one cluster."""
        (name_port,) = free_ports(1)
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text(_COOKIE)
        cookie.chmod(0o400)
        with (self.directory / "epmd.log").open("wb") as out:
            command = ["epmd", "-address", "127.0.0.1", "-port", str(name_port)]
            self.names = subprocess.Popen(command, stdout=out, stderr=out)
        wait_port(name_port, self.names, self.directory / "epmd.log")
        self.leader = 0
        names = [f"bench{number}" for number in range(self.nodes)]
        self.members = [RabbitNode(name, self.directory, name_port) for name in names]
        for node in self.members:
            node.prepare([member.name for member in self.members])
        # One after the other: the first forms the cluster, the others find it and join.
        for node in self.members:
            node.start()
            node.wait()
        self._wait_cluster()

    def _wait_cluster(self) -> None:
        deadline = time.monotonic() + _CLUSTER_SECONDS
        while time.monotonic() < deadline:
            status = self.members[0].ask("rabbitmqctl", "cluster_status")
            running = status.partition("Running Nodes")[2].partition("Versions")[0]
            if all(node.name in running for node in self.members):
                return
            time.sleep(0.5)
        raise BrokerError(f"the nodes never became one cluster of {self.nodes}")

    def stop(self) -> None:
        """End all nodes, then the name service."""
        for node in self.members:
            if node.process is not None and node.process.poll() is None:
                node.process.kill()
                node.process.wait()
        end(self.names)

    @property
    def address(self) -> str:
        """The node that new queues are declared on, and so led by."""
        return f"127.0.0.1:{self.members[self.leader].port}"

    @property
    def addresses(self) -> str:
        """Every node, that one first."""
        order = self.members[self.leader :] + self.members[: self.leader]
        return ",".join(f"127.0.0.1:{node.port}" for node in order)

    @property
    def pids(self) -> list[int]:
        """Every Erlang machine."""
        return [node.process.pid for node in self.members if node.process is not None]

    def headers(self) -> list[str]:
        """What makes a queue of this type."""
        return [
            word
            for header in self.queue_headers
            for word in ("--send-header", header, "--sub-header", header)
        ]

    @property
    def declares_slowly(self) -> bool:
        """Ten clients that declare one quorum queue at once get errors."""
        return True

    def kill_leader(self) -> None:
        """Kill the node that leads the queue: the one it was declared on."""
        process = self.members[self.leader].process
        assert process is not None, "killed after start"
        process.kill()
        process.wait()

    def heal(self) -> None:
        """Start the killed node again."""
        for node in self.members:
            if node.process is not None and node.process.poll() is not None:
                node.start()
                node.wait()
        self._wait_cluster()


class RabbitClassic(RabbitMQ):
    """Classic durable queues, which stand on one node."""

    name = "rabbitmq-classic"
    title = "RabbitMQ classic"


class RabbitQuorum(RabbitMQ):
    """Quorum queues: Raft, synced on a majority."""

    name = "rabbitmq-quorum"
    title = "RabbitMQ quorum"
    node_counts = (1, 3)
    queue_headers = ("x-queue-type:quorum",)
