"""
The network of a simulated world: links between nodes, and clients' connections to them.

Every directed link has its own trouble: delay, loss, doubling, reordering, messages that come
very late, and cuts in one direction. Messages travel as bytes, so that no two nodes share one
object. A client's connection is a pair of byte streams in memory: in order, cut as a whole.

Invariants:
    Nothing reaches a process, or comes over a link, that was made after it was sent.
    All chance comes from one stream of numbers, drawn in the order of events.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from holdfast.replication.message_codec import FRAME_HEADER, decode_message, encode_message
from holdfast.replication.messages import AppendRequest, Message
from trials.simulation.pieces import Pieces
from trials.simulation.simulated_handshake import PeerPorts, shake_hands

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

_DIAL_SECONDS = 0.08
_DELAYED_SECONDS = 0.005
"""A message that takes longer was delayed; so much is normal at most."""
VERY_LATE_SECONDS = 20.0
_CLOSED_SECONDS = 0.0005
"""After which an acceptor learns that who dialed it wants no link."""
_SILENCE_SECONDS = 2.5
"""A link that is cut for so long is given up by both ends."""


@dataclass(slots=True, kw_only=True)
class Trouble:
    """How bad one directed link is; times in seconds, the rest shares of the messages."""

    delay_min: float = 0.0003
    delay_max: float = 0.001
    loss: float = 0.0
    doubled: float = 0.0
    reordered: float = 0.0
    """These may be overtaken by later ones."""
    late: float = 0.0
    late_seconds: float = 1.0
    """How late `late` messages are at most."""


class PipeClient(Protocol):
    """A client as its connection sees it."""

    name: str

    def received(self, pipe: ClientPipe, data: bytes, sent_at: float) -> None:
        """Take bytes that the server sent at `sent_at`."""
        ...

    def lost(self, pipe: ClientPipe) -> None:
        """The connection is gone."""
        ...


class NodeLinks:
    """One node's side of the network; what its driver sends through."""

    __slots__ = ("_network", "_node", "addresses")

    def __init__(self, network: PeerNetwork, node: SimulatedNode) -> None:
        self._network = network
        self._node = node
        self.addresses: dict[str, str] = {}

    def send(self, peer: str, messages: list[Message]) -> None:
        """Give the messages to the network."""
        for message in messages:
            self._network.carry(self._node, peer, message)

    def set_peers(self, addresses: dict[str, str]) -> None:
        """Note who is to be linked."""
        self.addresses = dict(addresses)
        self._network.dial_soon(self._node)

    def drop(self, peer: str) -> None:
        """Close the link to this peer."""
        self._network.unlink(self._node.name, peer, closed=False)


class PeerNetwork:
    """The links between nodes."""

    def __init__(self, world: Simulation, chance: random.Random) -> None:
        self._world = world
        self._timeline = world.timeline
        self._random = chance
        self._checkers = world.checkers
        self.nodes: dict[str, SimulatedNode] = {}
        self.trouble: dict[tuple[str, str], Trouble] = {}
        """By sender and receiver; a pair that is not here has a good link."""
        self.cut: set[tuple[str, str]] = set()
        """Pairs of sender and receiver between which nothing passes."""
        self.lost_count = self.doubled_count = self.late_count = self.reordered_count = 0
        self.delayed_count = self.very_late_count = 0
        self.pieces = Pieces(world, self)
        self._good = Trouble()
        self._linked: dict[tuple[str, str], int] = {}
        """By the two names in order: the number of the link between them."""
        self._link_count = 0
        self._dial_count = 0
        stream = random.Random(f"{world.seed}:strangers")  # noqa: S311 - to be repeated
        self.ports = PeerPorts(world, stream)
        self._arrivals: dict[tuple[str, str], float] = {}
        self._dialing: set[tuple[str, int]] = set()
        self._half_open: dict[tuple[str, str], float] = {}
        """By node and peer: until when the node takes a link that is gone for one that is there."""
        self.late_ends_until = 0.0
        """Until then the two ends of a link hear of its end late, each in its own time."""

    # Messages -------------------------------------------------------------------------------------

    def carry(self, source: SimulatedNode, target: str, message: Message) -> None:
        """Take a message to its target, as well as the link does."""
        pair = (source.name, target)
        self._checkers.on_message(source, target, message)
        link = self._link(*pair)
        if not link:
            return
        trouble = self.trouble.get(pair, self._good)
        chance = self._random.random
        if trouble.loss and chance() < trouble.loss:
            self.lost_count += 1
            return
        now = self._timeline.now
        is_in_order = False
        pause = trouble.delay_min + chance() * (trouble.delay_max - trouble.delay_min)
        if pause > _DELAYED_SECONDS:
            self.delayed_count += 1
        if trouble.late and chance() < trouble.late:
            share = chance()
            if trouble.late_seconds >= VERY_LATE_SECONDS:
                share = 0.7 + 0.3 * share
            pause += share * trouble.late_seconds
            self.late_count += 1
        elif trouble.reordered and chance() < trouble.reordered:
            pause += chance() * 4 * trouble.delay_max
            self.reordered_count += 1
        else:
            is_in_order = True
            pause = max(now + pause, self._arrivals.get(pair, 0.0)) - now
        data = b"".join(encode_message(message))
        self._world.saw(*pair, data)
        node = self.nodes[target]
        has_entries = isinstance(message, AppendRequest)
        pause = self.pieces.travel(source, node, link, len(data), pause, has_entries=has_entries)
        if is_in_order:
            self._arrivals[pair] = now + pause
        node.post(pause, self._arrive, source.name, node, link, data, now)
        if trouble.doubled and chance() < trouble.doubled:
            self.doubled_count += 1
            late = pause + chance() * trouble.delay_max * 20
            node.post(late, self._arrive, source.name, node, link, data, now)

    def under_way_seconds(self) -> float:
        """How long until all has arrived that was sent on the links that keep an order."""
        last = max(self._arrivals.values(), default=0.0)
        return max(last - self._world.timeline.now, 0.0)

    def _arrive(
        self, source: str, node: SimulatedNode, link: int, data: bytes, sent_at: float
    ) -> None:
        if (source, node.name) in self.cut or self._link(source, node.name) != link:
            return
        if self._timeline.now - sent_at > VERY_LATE_SECONDS:
            self.very_late_count += 1
            self._world.note("network", f"brings {node.name} what {source} sent {sent_at:.4f}")
        _, kind = FRAME_HEADER.unpack_from(data)
        node.driver.receive(source, decode_message(kind, data, FRAME_HEADER.size, len(data)))
        node.conductor.schedule()

    # Links ----------------------------------------------------------------------------------------

    def passes(self, one: str, other: str, link: int) -> bool:
        """Whether this link between two nodes is still there, and not cut."""
        pairs = ((one, other), (other, one))
        return self._link(one, other) == link and not self.cut.intersection(pairs)

    def is_linked(self, one: str, other: str) -> bool:
        """Whether there is a link between two nodes, cut or not."""
        return self._link(one, other) != 0

    def _link(self, one: str, other: str) -> int:
        """The number of the link between two nodes; 0 if there is none."""
        return self._linked.get((one, other) if one < other else (other, one), 0)

    def cut_between(self, sources: list[str], targets: list[str]) -> None:
        """Let nothing pass from any of these to any of those."""
        for source in sources:
            for target in targets:
                if source != target:
                    self.cut.add((source, target))
                    self._timeline.after(_SILENCE_SECONDS, self._give_up, source, target)

    def heal(self) -> None:
        """Let everything pass again, and well."""
        self.cut.clear()
        self.trouble.clear()
        self._half_open.clear()
        for node in self.nodes.values():
            self.dial_soon(node)

    def _give_up(self, source: str, target: str) -> None:
        if (source, target) in self.cut:
            self.unlink(source, target, closed=False)

    def dial_soon(self, node: SimulatedNode) -> None:
        """Dial whoever is to be linked and is not, until all are."""
        key = (node.name, node.life)
        if key not in self._dialing:
            self._dialing.add(key)
            node.post(0.001 + self._random.random() * _DIAL_SECONDS, self._dial, node, key)

    def _dial(self, node: SimulatedNode, key: tuple[str, int]) -> None:
        self._dialing.discard(key)
        missing = 0
        for name, peer in self.nodes.items():
            if peer is node:
                continue
            is_wanted = name in node.links.addresses
            if self._link(node.name, name):
                if not is_wanted and node.name not in peer.links.addresses:
                    self.unlink(node.name, name, closed=False)
            elif is_wanted:
                missing += 1
                self._introduce(node, peer)
        if missing and node.is_alive:
            self.dial_soon(node)

    def _introduce(self, one: SimulatedNode, other: SimulatedNode) -> None:
        pairs = ((one.name, other.name), (other.name, one.name))
        if not other.is_running or pairs[0] in self.cut or pairs[1] in self.cut:
            return
        if self._is_half_open(*pairs[0]):
            return
        lives = one.life, other.life
        self.ports.dial(one, other, lambda: self._connect(one, other, lives))

    def _connect(self, one: SimulatedNode, other: SimulatedNode, lives: tuple[int, int]) -> None:
        """Make a link if both ends want it, and nothing came between since the one dialed."""
        pairs = ((one.name, other.name), (other.name, one.name))
        # Who dials may have ended itself over what another one told it a moment before.
        is_gone = not (one.is_alive and other.is_running) or (one.life, other.life) != lives
        if is_gone or pairs[0] in self.cut or pairs[1] in self.cut or self._link(*pairs[0]):
            return
        if self._is_half_open(*pairs[0]):
            return
        self._dial_count += 1
        hellos = shake_hands(one, other, self._dial_count)
        if hellos is None:
            return
        acceptor, dialer = hellos
        if acceptor is not None:
            self._link_count += 1
            self._linked[min(pairs)] = self._link_count
            one.driver.link_up(other.name, acceptor)
            one.conductor.schedule()
        else:
            other.post(_CLOSED_SECONDS, self._told, other, one.name, True)
        other.driver.link_up(one.name, dialer)
        other.conductor.schedule()

    def unlink_all(self, node: SimulatedNode, *, closed: bool) -> None:
        """Drop a node's links; `closed` if its system tells the others so."""
        for name in self.nodes:
            if name != node.name:
                self.unlink(node.name, name, closed=closed)

    def unlink(self, one: str, other: str, *, closed: bool) -> None:
        """Drop a link; both ends are told, soon or each in its own time."""
        pair = (one, other) if one < other else (other, one)
        if pair not in self._linked:
            return
        del self._linked[pair]
        for here, there in (pair, pair[::-1]):
            node = self.nodes[here]
            pause = 0.0001 + self._random.random() * 0.002
            if self._timeline.now < self.late_ends_until and node.is_alive:
                pause += self._random.random() * _SILENCE_SECONDS
                self._leave_half_open(node, there, pause)
                self._world.count("end of a link told late")
            node.post(pause, self._told, node, there, closed)

    def reset_one_side(self, one: str, other: str, seconds: float) -> bool:
        """Let `one` hear at once that the link was closed, and `other` only so much later."""
        pair = (one, other) if one < other else (other, one)
        if pair not in self._linked:
            return False
        del self._linked[pair]
        here, there = self.nodes[one], self.nodes[other]
        here.post(0.0, self._told, here, other, True)
        self._leave_half_open(there, one, seconds)
        there.post(seconds, self._told, there, one, False)
        return True

    def _leave_half_open(self, node: SimulatedNode, peer: str, seconds: float) -> None:
        self._half_open[node.name, peer] = self._timeline.now + seconds

    def forget_half_open(self, node: SimulatedNode) -> None:
        """A process has just started: it believes in no link of the one before."""
        self._half_open = {pair: it for pair, it in self._half_open.items() if pair[0] != node.name}

    def _is_half_open(self, one: str, other: str) -> bool:
        """Whether one of them refuses a new link, because it believes in the old one."""
        half_open = self._half_open
        if not half_open:
            return False
        now = self._timeline.now
        return any(
            now < half_open.get((here, there), 0.0) and self.nodes[here].is_alive
            for here, there in ((one, other), (other, one))
        )

    def _told(self, node: SimulatedNode, peer: str, closed: bool) -> None:
        if self._link(node.name, peer):
            return
        self._half_open.pop((node.name, peer), None)
        node.driver.link_down(peer, closed=closed)
        node.conductor.schedule()
        self.dial_soon(node)


class ClientPipe:
    """
    One client's connection: the transport that the server writes to, and the client's end.

    Bytes arrive in order. Once anything is lost on the way nothing arrives any more.
    """

    __slots__ = (
        "_arrival_in",
        "_arrival_out",
        "_buffer_high",
        "_held",
        "_is_full",
        "_is_reading",
        "_is_server_told",
        "_unsent",
        "client",
        "connection",
        "is_open",
        "life",
        "node",
        "serial",
        "world",
    )

    def __init__(self, world: Simulation, node: SimulatedNode, client: PipeClient) -> None:
        world.pipe_count += 1
        self.serial = world.pipe_count
        self.world = world
        self.node = node
        self.life = node.life
        self.client = client
        self.is_open = True
        self._is_server_told = False
        self._arrival_in = self._arrival_out = 0.0
        self._is_reading = True
        self._held: list[bytes] = []
        self._buffer_high = 1 << 16
        self._unsent = 0
        self._is_full = False
        node.pipes[self.serial] = self
        self.connection = node.connection(self.serial)
        self.connection.connection_made(cast("Any", self))

    def _pause(self, last: float) -> float:
        chance = self.world.client_chance.random
        return max(0.0002 + chance() * self.world.client_delay, last - self.world.timeline.now)

    @property
    def _is_cut(self) -> bool:
        return self.world.is_client_cut(self.client.name, self.node)

    # The client's end -----------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send bytes to the server."""
        if not self.is_open:
            return
        if self._is_cut:
            self._break()
            return
        pause = self._pause(self._arrival_in)
        self._arrival_in = self.world.timeline.now + pause
        self.node.post(pause, self._to_server, data)

    def drop(self) -> None:
        """Go away without a word, as a process that is killed does."""
        if self.is_open:
            is_cut = self._is_cut
            self._break()
            if not is_cut and self.life == self.node.life:
                self._tell_server(self._pause(self._arrival_in))

    def _tell_server(self, pause: float) -> None:
        if not self._is_server_told:
            self._is_server_told = True
            self.node.post(pause, self.connection.connection_lost, None)

    def _to_server(self, data: bytes) -> None:
        if not self.is_open or self._is_server_told:
            return  # Who closes reads no more, although the client may not know yet.
        if self._is_reading:
            self.connection.data_received(data)
        else:
            self._held.append(data)

    def _break(self) -> None:
        self.is_open = False
        self.node.pipes.pop(self.serial, None)

    def node_died(self, *, is_told: bool) -> None:
        """The server's process is gone; its system says so, or not."""
        self.is_open = False
        if is_told and not self._is_cut:
            self.world.timeline.after(0.001, self.client.lost, self)

    # What asyncio's transport does for the server -------------------------------------------------

    def set_write_buffer_limits(self, high: int) -> None:
        """Note above how many bytes the connection is told that the buffer is full."""
        self._buffer_high = high

    @staticmethod
    def get_extra_info(name: str) -> object:
        """Tell nothing of the socket: all simulated clients come from one place."""
        del name
        return None

    def get_write_buffer_size(self) -> int:
        """Return what the client has not taken yet."""
        return self._unsent

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        if not self.is_open:
            return
        if self._is_cut:
            self._break()
            return
        world = self.world
        pause = self._pause(self._arrival_out)
        now = world.timeline.now
        self._arrival_out = now + pause
        self._unsent += len(data)
        if self._unsent > self._buffer_high and not self._is_full:
            self._is_full = True
            self.connection.pause_writing()
        world.checkers.on_written(self.node, data)
        world.saw(self.node.name, self.client.name, data)
        world.timeline.after(pause, self._to_client, data, now)

    def _to_client(self, data: bytes, sent_at: float) -> None:
        self._unsent -= len(data)
        if not self.is_open:
            return
        if self._is_full and self._unsent < self._buffer_high // 4:
            self._is_full = False
            self.node.post(0.0, self._drained)
        self.client.received(self, data, sent_at)

    def _drained(self) -> None:
        if self.is_open:
            self.connection.resume_writing()

    def pause_reading(self) -> None:
        """Keep what comes from the client back."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Give out what was kept back, and go on."""
        self._is_reading = True
        held, self._held = self._held, []
        for data in held:
            self.node.post(0.0, self._to_server, data)

    def close(self) -> None:
        """Close once everything written has arrived."""
        if self.is_open:
            pause = self._pause(self._arrival_out)
            self.node.pipes.pop(self.serial, None)
            self._tell_server(0.0)
            self.world.timeline.after(pause, self._closed)

    def abort(self) -> None:
        """Close at once; what is on its way to the client is lost."""
        self._tell_server(0.0)
        if self.is_open:
            self._break()
            if not self._is_cut:
                self.world.timeline.after(0.001, self.client.lost, self)

    def _closed(self) -> None:
        if self.is_open:
            self.is_open = False
            self.client.lost(self)
