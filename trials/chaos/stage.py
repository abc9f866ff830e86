"""
The cluster as the nemesis sees it: roles as they are now, who is whole, what an operator does.

The contracts here are what the nemesis needs of a cluster, a network, a disk and a load, and no
more, so that its tests can stand in for each. Waiting is always bounded; a cluster that does not
come back in time is a finding, not an accident: `StageError` goes to the report.

Invariants:
    A node that the nemesis has not put down must run; one that ended by itself is a problem.
    Roles are looked up at the moment of the fault, never remembered.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from holdfast.admin.remote import RemoteNode
from holdfast.errors import HoldfastError, LinkLostError, MembershipError, NotLeaderError
from trials.chaos import bit_rot
from trials.chaos.network import LinkTrouble
from trials.chaos.schedule import Step

LEADER_SECONDS_MAX = 40.0
WHOLE_SECONDS_MAX = 90.0
_POLL_SECONDS = 0.05
_ENDS_MAX = 3
"""A node that ended by itself more often is not started again."""

_LAG_ENTRIES_MAX = 200
"""A member so little behind a loaded leader is level."""


class StageError(RuntimeError):
    """The cluster did not do in time what it must; the sentence says what."""


class InapplicableError(RuntimeError):
    """This fault cannot happen here now; the sentence says why."""


class Disk(Protocol):
    """The layer between one node and its files."""

    def power_cut(self, randomness: random.Random) -> object: ...
    def forget(self) -> None: ...
    def fail_next_sync(self, number: int = ...) -> None: ...
    def fail_next_write(self, number: int = ...) -> None: ...
    def slow(self, seconds_per_sync: float) -> None: ...
    def hang(self, on: bool) -> None: ...
    def lie(self, on: bool) -> None: ...
    def pretend_free(self, count: int | None) -> None: ...
    def step_clock(self, seconds: float, rate: float = ...) -> None: ...
    def true_clock(self) -> None: ...
    def counts(self) -> Mapping[str, int]: ...


class Node(Protocol):
    """One broker process."""

    name: str

    @property
    def data(self) -> Path: ...
    @property
    def admin(self) -> str: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def disk(self) -> Disk | None: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...
    def stop(self) -> int: ...
    def wait(self) -> int: ...
    def signal(self, number: signal.Signals) -> None: ...
    def status(self) -> dict[str, Any] | None: ...
    def log_tail(self, lines: int = ...) -> str: ...


class Links(Protocol):
    """The network between the hosts."""

    kind: str

    def trouble(self, source: str, target: str, trouble: LinkTrouble) -> None: ...
    def heal(self) -> None: ...


class Cluster(Protocol):
    """All the nodes."""

    @property
    def nodes(self) -> Mapping[str, Node]: ...
    @property
    def kinds(self) -> Mapping[str, str]: ...
    @property
    def sites(self) -> Mapping[str, str]: ...
    @property
    def secret(self) -> bytes: ...
    def add_node(self, name: str, kind: str = ..., site: str = ...) -> Node: ...
    def forget_node(self, name: str) -> None: ...
    def peer_address(self, name: str) -> str: ...


class Load(Protocol):
    """The clients."""

    def kill_consumer(self) -> object: ...
    def mark(self, text: str) -> None: ...


@dataclass(slots=True, kw_only=True)
class Stage:
    """One cluster under load, and who acts on it."""

    cluster: Cluster
    links: Links
    load: Load
    chance: random.Random
    folder: Path
    """For copies of data folders."""

    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    down: set[str] = field(default_factory=set)
    """Nodes that the nemesis put down and has not started again."""

    asleep: set[str] = field(default_factory=set)
    """Paused nodes: asking one would hold us up, too."""

    ended: Counter[str] = field(default_factory=Counter)
    """How often each node ended by itself."""

    problems: list[str] = field(default_factory=list)
    leaders: list[str] = field(default_factory=list)
    """Who was seen to lead, one after the other, as `name in term`."""

    # Who is who -----------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in the order of their names."""
        return [self.cluster.nodes[name] for name in sorted(self.cluster.nodes)]

    def kind(self, node: Node) -> str:
        """Voter, witness or learner, as it is meant to be."""
        return self.cluster.kinds.get(node.name, "voter")

    def others(self, *nodes: Node) -> list[Node]:
        """Every node but these."""
        names = {node.name for node in nodes}
        return [node for node in self.nodes if node.name not in names]

    def find_leader(self) -> Node | None:
        """The node that leads and serves clients, if one does now."""
        found = None
        term = -1
        for node in self.nodes:
            is_out = not node.is_running or node.name in self.down | self.asleep
            status = None if is_out else node.status()
            is_leader = status is not None and status["role"] == "leader" and status["serving"]
            if status is not None and is_leader and status["term"] > term:
                found, term = node, int(status["term"])
        if found is not None:
            self._note_leader(f"{found.name} in {term}")
        return found

    def _note_leader(self, text: str) -> None:
        if not self.leaders or self.leaders[-1] != text:
            self.leaders.append(text)

    def leader(self, seconds: float = LEADER_SECONDS_MAX) -> Node:
        """
        The leader, waited for.

        Raises:
            StageError: None serves in time.
        """
        deadline = self.clock() + seconds
        while True:
            found = self.find_leader()
            if found is not None:
                return found
            if self.clock() > deadline:
                raise StageError(f"no leader within {seconds:.0f} s: {self.describe()}")
            self.sleep(_POLL_SECONDS)

    def pick(self, where: str) -> Node:
        """
        The node that a step means.

        Raises:
            InapplicableError: There is none of that role.
            StageError: There is no leader to tell it.
        """
        if where in self.cluster.nodes:
            return self.cluster.nodes[where]
        if where == "leader":
            return self.leader()
        if where == "any":
            found = self.nodes
        elif where in {"witness", "learner"}:
            found = [node for node in self.nodes if self.kind(node) == where]
        elif where == "follower":
            leader = self.leader()
            found = [node for node in self.others(leader) if self.kind(node) == "voter"]
        else:
            raise InapplicableError(f"no node is a {where}")
        found = [node for node in found if node.name not in self.down]
        if not found:
            raise InapplicableError(f"no node is a {where}")
        return self.chance.choice(found)

    def describe(self) -> str:
        """What each node says of itself, in a line."""
        parts = []
        for node in self.nodes:
            status = node.status() if node.is_running else None
            state = "runs" if node.is_running else "is down"
            if status is not None:
                state = f"{status['role']} in {status['term']}, applied {status['applied_index']}"
            parts.append(f"{node.name} {state}")
        return "; ".join(parts)

    # What is done to nodes ------------------------------------------------------------------------

    def kill(self, node: Node) -> None:
        """Kill a process; it stays down until `start`."""
        self.down.add(node.name)
        node.kill()

    def start(self, node: Node) -> None:
        """Start a process that was put down."""
        if not node.is_running:
            node.start()
        self.down.discard(node.name)

    def freeze(self, node: Node) -> None:
        """Pause a process until `thaw`."""
        self.asleep.add(node.name)
        node.signal(signal.SIGSTOP)

    def thaw(self, node: Node) -> None:
        """Let a paused process go on."""
        node.signal(signal.SIGCONT)
        self.asleep.discard(node.name)

    def supervise(self) -> None:
        """Note every node that ended by itself, and start it again as an init system would."""
        for node in self.nodes:
            if node.name not in self.down and not node.is_running:
                code = node.wait()
                self.problems.append(f"{node.name} ended by itself with {code}: {node.log_tail(4)}")
                self.ended[node.name] += 1
                if self.ended[node.name] > _ENDS_MAX:
                    self.down.add(node.name)
                    self.tell(f"{node.name} ended by itself with {code}; it is left so")
                    continue
                self.tell(f"{node.name} ended by itself with {code}; it is started again")
                node.start()

    def pause_for(self, seconds: float) -> None:
        """Let time pass, and note meanwhile who leads."""
        deadline = self.clock() + seconds
        while (left := deadline - self.clock()) > 0:
            self.find_leader()
            self.sleep(min(left, 0.2))

    # Whole and level ------------------------------------------------------------------------------

    def await_whole(
        self, victims: Sequence[Node] = (), *, seconds: float = WHOLE_SECONDS_MAX
    ) -> None:
        """
        Wait until every member is connected and level, and no damage is left unrepaired.

        A victim that refuses to go on with what is left on its disk gets an empty one, as an
        operator would give it; that happens once to each.

        Raises:
            StageError: It lasts too long.
        """
        deadline = self.clock() + seconds
        emptied: set[str] = set()
        missing = "nobody was asked"
        while self.clock() < deadline:
            for node in victims:
                if not node.is_running and node.name not in self.down | emptied:
                    emptied.add(node.name)
                    self._empty(node)
            self.supervise()
            missing = self.missing()
            if not missing:
                return
            self.sleep(0.1)
        raise StageError(f"not whole after {seconds:.0f} s: {missing}; {self.describe()}")

    def _empty(self, node: Node) -> None:
        lines = node.log_tail(2)
        self.tell(f"{node.name} refuses its disk ({lines}); the operator gives it an empty one")
        self.wipe(node)
        node.start()

    def wipe(self, node: Node) -> None:
        """Take everything from a dead node's disk."""
        bit_rot.wipe(node.data)
        if node.disk is not None:
            node.disk.forget()

    def missing(self) -> str:
        """What keeps the cluster from being whole and level, in words; empty if nothing does."""
        leader = self.find_leader()
        if leader is None:
            return "no leader"
        status = leader.status()
        if status is None:
            return f"the leader {leader.name} does not answer"
        members = {member["name"]: member for member in status["members"]}
        for node in self.nodes:
            if node.name in self.down:
                continue
            fault = self._fault_of(node, members.get(node.name), is_leader=node is leader)
            if fault:
                return f"{node.name} {fault}"
        return ""

    def _fault_of(self, node: Node, member: dict[str, Any] | None, *, is_leader: bool) -> str:
        status = node.status()
        if status is None:
            return "does not answer"
        if member is None:
            return "is no member"
        if member["kind"] != self.kind(node):
            return f"is a {member['kind']} and not yet a {self.kind(node)}"
        left = [each for each in status["store"]["damage"] if not each["repaired"]]
        if left:
            return f"has damage that is not repaired: {left[0]}"
        if is_leader:
            return ""
        if not member["connected"]:
            return "is not connected"
        if member["node_id"] != status["node_id"]:
            return "is known under another identity"
        if member["lag_entries"] is None or member["lag_entries"] > _LAG_ENTRIES_MAX:
            return f"is {member['lag_entries']} entries behind"
        return ""

    # The operator ---------------------------------------------------------------------------------

    def change(self, path: str, body: dict[str, Any], seconds: float = 30.0) -> None:
        """
        Ask the leader for a change, again while an earlier one is under way or nobody leads.

        Raises:
            StageError: It was refused for another reason, or for too long.
        """
        deadline = self.clock() + seconds
        while True:
            leader = self.leader()
            try:
                RemoteNode(leader.admin, secret=self.cluster.secret).change("POST", path, body)
            except (LinkLostError, NotLeaderError) as error:
                refusal: HoldfastError = error
            except MembershipError as error:
                refusal = error
                if "already" in str(error):
                    return
            except HoldfastError as error:
                raise StageError(f"{path} {body} was refused: {error}") from error
            else:
                return
            if self.clock() > deadline:
                raise StageError(f"{path} {body} was refused: {refusal}")
            self.sleep(0.2)

    def heal(self) -> None:
        """End every fault that is still there: links, paused and dead processes, disks, clocks."""
        self.links.heal()
        self.asleep.clear()
        for node in self.nodes:
            if node.disk is not None:
                node.disk.slow(0)
                node.disk.lie(False)
                node.disk.pretend_free(None)
                node.disk.true_clock()
            if node.is_running:
                with suppress(ProcessLookupError):
                    node.signal(signal.SIGCONT)
            elif node.name in self.down:
                self.start(node)


Repair = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Strike:
    """What a fault did: to whom, in words, and how it is ended or mended."""

    nodes: tuple[str, ...]
    text: str = ""
    repair: Repair | None = None
    victims: tuple[Node, ...] = ()
    """Those whose disks were spoilt: the next fault waits until they are whole."""


Fault = Callable[[Stage, Step], Strike]
