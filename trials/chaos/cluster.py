"""
A cluster of real brokers over a network that can be troubled, each with a disk that can be.

One node per host, at the same ports everywhere, at default election timings. What is asked of the
nodes here is asked as host "operator", whose links are never troubled.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.testing.local_cluster import LocalNode, LocalNodeError, NodeGroup
from trials.chaos.faulty_disk import FaultyDisk
from trials.chaos.launch import UPTIME_VARIABLE
from trials.chaos.network import (
    OPERATOR,
    PEER_PORT,
    PORTS,
    STOMP_PORT,
    Network,
)

_ANSWER_SECONDS = 5.0
_STATUS_SECONDS = 1.0
"""Short: a paused node must not hold up whoever looks for the leader."""
_POLL_SECONDS = 0.02
_UPTIME_SECONDS_MAX = 10_000_000


@dataclass(frozen=True, slots=True)
class ChaosMember:
    """One member as a topology lists it."""

    name: str
    kind: str = "voter"
    site: str = ""

    def listed(self, address: str) -> str:
        """The member as `--member` takes it."""
        kind = "" if self.kind == "voter" else f",{self.kind}"
        site = f",site={self.site}" if self.site else ""
        return f"{self.name}={address}{kind}{site}"


@dataclass(frozen=True, slots=True)
class ChaosTopology:
    """Who the members are, and what each is started with."""

    members: tuple[ChaosMember, ...]
    arguments: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that its members need."""
        return tuple(member.name for member in self.members)


_ABC = (ChaosMember("a"), ChaosMember("b"), ChaosMember("c"))

CHAOS_TOPOLOGIES = {
    "three": ChaosTopology(_ABC),
    "five": ChaosTopology((*_ABC, ChaosMember("d"), ChaosMember("e"))),
    "witness": ChaosTopology((ChaosMember("a"), ChaosMember("b"), ChaosMember("w", "witness"))),
    "sites": ChaosTopology(
        (
            ChaosMember("a", site="east"),
            ChaosMember("b", site="east"),
            ChaosMember("c", site="west"),
            ChaosMember("d", site="west"),
            ChaosMember("w", "witness", site="north"),
        ),
        arguments=("--sites", "2"),
    ),
    "learner": ChaosTopology((*_ABC, ChaosMember("l", "learner"))),
}


class ChaosNode(LocalNode):
    """One broker on its own host; `disk` is what can go wrong with its files, None without."""

    def __init__(
        self, name: str, directory: Path, network: Network, *, has_faulty_disk: bool = False
    ) -> None:
        super().__init__(name, directory, host=network.listen_address(name), ports=PORTS)
        self._network = network
        self.disk: FaultyDisk | None = None
        if has_faulty_disk:
            directory.mkdir(parents=True, exist_ok=True)
            self.disk = FaultyDisk(directory / f"{name}.disk", self.data)

    @property
    def address(self) -> str:
        """Where clients reach it, `host:port`."""
        return f"{self._network.address(self.name)}:{STOMP_PORT}"

    @property
    def peer_address(self) -> str:
        """Where the other members reach it, `host:port`."""
        return f"{self._network.address(self.name)}:{PEER_PORT}"

    def get(self, path: str, seconds: float = _ANSWER_SECONDS) -> Any:
        """Ask the admin port as the operator; raises OSError while it does not answer in time."""
        request = urllib.request.Request(f"http://{self.admin}{path}", headers=self.proof())
        with (
            self._network.inside(OPERATOR),
            urllib.request.urlopen(request, timeout=seconds) as answer,  # noqa: S310 - http
        ):
            return json.loads(answer.read())

    def status(self) -> dict[str, Any] | None:
        """Give the node's status, None while it does not answer."""
        with suppress(OSError, ValueError, urllib.error.HTTPError):
            status: dict[str, Any] = self.get("/status", _STATUS_SECONDS)
            return status
        return None

    def _spawn(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        # Machines have been up for unequal times, and a restart may be that of the machine.
        uptime = str(secrets.randbelow(_UPTIME_SECONDS_MAX))
        options["env"] = options["env"] | {UPTIME_VARIABLE: uptime}
        if self.disk is not None:
            options["env"] = options["env"] | self.disk.environment()
        return self._network.spawn(self.name, command, **options)


class ChaosCluster(NodeGroup[ChaosNode]):
    """
    The nodes of a topology over a network; use as a context manager within the network's.

    Args:
        folder: For data folders, logs and the secret.
        topology: A name of CHAOS_TOPOLOGIES.
        network: Has a host for each member, and for those that are added later.
        disks: Put a FaultyDisk under each node.
        arguments: For every node.
    """

    def __init__(
        self,
        folder: Path,
        topology: str,
        network: Network,
        *,
        disks: bool = False,
        arguments: Iterable[str] = (),
    ) -> None:
        super().__init__(folder)
        self.topology = CHAOS_TOPOLOGIES[topology]
        self.network = network
        self._disks = disks
        self._arguments = [*self.topology.arguments, *arguments]
        self.members = {member.name: member for member in self.topology.members}
        for member in self.topology.members:
            self.nodes[member.name] = self._node(member)
        for node in self.nodes.values():
            node.arguments = self._node_arguments(node, self.topology.members)

    @property
    def kinds(self) -> dict[str, str]:
        """Each member's kind at its start, by name."""
        return {name: member.kind for name, member in self.members.items()}

    @property
    def sites(self) -> dict[str, str]:
        """Each member's site, by name; empty words without sites."""
        return {name: member.site for name, member in self.members.items()}

    @property
    def uri(self) -> str:
        """Where clients on host "client" connect: a failover URI of every node but witnesses."""
        inner = ",".join(f"stomp://{address}" for address in self.stomp_addresses.split(","))
        return f"failover:({inner})?initialReconnectDelay=10&maxReconnectDelay=100"

    @property
    def stomp_addresses(self) -> str:
        """The same as host:port,host:port."""
        return ",".join(
            node.address for name, node in self.nodes.items() if self.kinds[name] != "witness"
        )

    def peer_address(self, name: str) -> str:
        """Where the other members reach this one, `host:port`, as membership changes want it."""
        return self.nodes[name].peer_address

    def add_node(self, name: str, kind: str = "voter", site: str = "") -> ChaosNode:
        """Make a node that knows of the members; the caller starts it and has it admitted."""
        known = [each for other, each in self.members.items() if other != name]
        member = ChaosMember(name, kind, site)
        node = self._node(member)
        self.nodes[name] = node
        self.members[name] = member
        node.arguments = self._node_arguments(node, [*known, member])
        return node

    def forget_node(self, name: str) -> None:
        """Kill a node that was removed from the members, and keep its folder."""
        self.nodes.pop(name).kill()
        self.members.pop(name)

    def leader(self, seconds: float = 60.0, but: LocalNode | None = None) -> ChaosNode:
        """
        Give the node that leads in the highest term and serves clients.

        One that was cut off may take itself for the leader for a while; `but` does not count.

        Raises:
            LocalNodeError: There is none in time.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            leaders = []
            for node in list(self.nodes.values()):
                if node is but or not node.is_running:
                    continue
                status = node.status()
                if status and status["role"] == "leader" and status["serving"]:
                    leaders.append((status["term"], node))
            if leaders:
                return max(leaders, key=lambda each: int(each[0]))[1]
            time.sleep(_POLL_SECONDS)
        tails = "\n".join(f"--- {n.name}\n{n.log_tail()}" for n in self.nodes.values())
        raise LocalNodeError(f"no leader within {seconds} s\n{tails}")

    def _node(self, member: ChaosMember) -> ChaosNode:
        return ChaosNode(member.name, self.directory, self.network, has_faulty_disk=self._disks)

    def _node_arguments(self, node: ChaosNode, members: Iterable[ChaosMember]) -> list[str]:
        arguments = [*self._arguments, "--peers", node.peers]
        arguments += ["--secret-file", str(self.secret_path)]
        arguments += ["--audit-file", str(self.directory / f"{node.name}.audit.jsonl")]
        # In namespaces all clients come from elsewhere: without users no leader serves else.
        arguments += ["--anonymous-role", "everybody"]
        for member in members:
            arguments += ["--member", member.listed(self.nodes[member.name].peer_address)]
        return arguments
