"""
How two simulated nodes make a link: the frames and the limits of the real one, without its sockets.

The handshake is the real one, byte for byte. The peer port of a node may be crowded by strangers
that say nothing; then a dial takes a round trip, in which more of them come, and whether it gets
through is decided by the real limits.

Invariants:
    Where no port is crowded nothing is drawn and nothing takes time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import AuthenticationError
from holdfast.model.networks import network_of
from holdfast.replication.frame_buffer import FrameBuffer
from holdfast.replication.handshake import NONCE_BYTES, AcceptorHandshake, DialerHandshake
from holdfast.replication.messages import Hello
from holdfast.replication.settings import LinkSettings
from holdfast.replication.strangers import Strangers

if TYPE_CHECKING:
    import random

    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

_SECRET = b"what all simulated nodes know"
_ROUND_TRIP_SECONDS = (0.0005, 0.01)
_CROWD = 200
"""How many strangers keep a connection to a crowded port."""


def shake_hands(
    dialer: SimulatedNode, acceptor: SimulatedNode, number: int
) -> tuple[Hello | None, Hello] | None:
    """
    Let one node dial another; what each then knows of the other, or None if there is no link.

    The dialer is told why the acceptor refuses it, as PeerLink tells it; not the other way round:
    who refuses whom it has dialed closes, and the acceptor, which had its word, took it for a link.
    Then what the dialer knows is None.

    Args:
        number: Of the attempt; makes its random bytes.
    """
    nonce = number.to_bytes(NONCE_BYTES, "big")
    out = DialerHandshake(_SECRET, dialer.driver.hello, nonce)
    into = AcceptorHandshake(_SECRET, acceptor.driver.hello, nonce[::-1])
    into.receive(*_frame(out.receive(*_frame(into.challenge()))))
    assert into.peer is not None
    refusal = acceptor.driver.judge(into.peer)
    if refusal is not None:
        try:
            out.receive(*_frame(into.refuse(refusal)))
        except AuthenticationError:
            assert out.refusal is not None
            dialer.driver.refused(acceptor.name, out.refusal)
        return None
    out.receive(*_frame(into.welcome()))
    assert out.peer is not None
    return out.peer if dialer.driver.judge(out.peer) is None else None, into.peer


def _frame(data: bytes) -> tuple[int, bytes]:
    ((kind, buffer, start, end),) = FrameBuffer(LinkSettings().handshake_bytes_max).feed(data)
    assert isinstance(buffer, bytes), "nothing in a handshake is large"
    return kind, buffer[start:end]


class PeerPorts:
    """The peer ports of all nodes, and the strangers at them."""

    def __init__(self, world: Simulation, chance: random.Random) -> None:
        self._world = world
        self._random = chance
        self._settings = LinkSettings()
        self.crowded: set[str] = set()
        """Names of the nodes whose port strangers crowd."""
        self._ports: dict[tuple[str, int], Strangers[object]] = {}

    def dial(
        self, dialer: SimulatedNode, acceptor: SimulatedNode, then: Callable[[], None]
    ) -> None:
        """Go on once the acceptor has answered, if strangers do not crowd this dial out."""
        if acceptor.name not in self.crowded:
            then()
            return
        port = self._port(acceptor)
        dial = object()
        port.enter(dial, network_of(dialer.name), set(acceptor.links.addresses))
        pause = self._random.uniform(*_ROUND_TRIP_SECONDS)
        dialer.post(pause, self._answered, port, acceptor, dial, then)

    def _answered(
        self,
        port: Strangers[object],
        acceptor: SimulatedNode,
        dial: object,
        then: Callable[[], None],
    ) -> None:
        # In the meantime the crowd came again, as fast as it could.
        self._come(port, acceptor, self._random.randrange(_CROWD))
        if dial not in port:
            self._world.count("dial crowded out by strangers")
            return
        port.leave(dial)
        self._world.count("dial gets through a crowd of strangers")
        then()

    def _port(self, node: SimulatedNode) -> Strangers[object]:
        key = (node.name, node.life)
        if key not in self._ports:
            self._ports[key] = Strangers(self._settings)
            self._come(self._ports[key], node, _CROWD)
        return self._ports[key]

    def _come(self, port: Strangers[object], node: SimulatedNode, count: int) -> None:
        """So many strangers connect, from one place, from many, and from members' machines."""
        members = sorted(node.links.addresses)
        places = ["10.9.9.9", *members]
        for _ in range(count):
            number = self._random.randrange(3 * len(places))
            place = places[number] if number < len(places) else f"10.8.{number}.{len(port)}"
            port.enter(object(), network_of(place), set(members))
