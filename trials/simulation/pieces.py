"""
What a narrow link of a simulated network does with a large message: it comes in pieces.

Both ends are told of each piece; a link that ends in the middle brings nothing of the rest. What
follows on the link comes after it. A node may be held up for a while: what it sends then moves, and
nothing of it is there before that while is over.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trials.simulation.simulated_network import PeerNetwork
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

IN_PIECES = "message larger than a link's buffer"
STALLED = "link stalls in the middle of a message"
_PIECE_SECONDS = 0.002
_CRAWL_SECONDS = 0.05
"""Between two pieces of a message that is held up."""


class Pieces:
    """How large messages travel in one world."""

    __slots__ = (
        "_chance",
        "_crawling",
        "_held_up",
        "_network",
        "_world",
        "piece_bytes",
        "stall_seconds",
    )

    def __init__(self, world: Simulation, network: PeerNetwork) -> None:
        self._world = world
        self._network = network
        self._chance = random.Random(f"{world.seed}:pieces")  # noqa: S311 - to be repeated
        self.piece_bytes = world.plan.piece_bytes
        """Larger messages travel in pieces of this size; 0: none do."""
        self.stall_seconds = 0.0
        """How long the next one stops in its middle; 0: it does not."""
        self._held_up: dict[str, float] = {}
        """Nodes of which nothing arrives until then, though it moves."""
        self._crawling: set[tuple[str, str, int]] = set()
        """Links on which that is so, by source, target and number."""

    def was_held_up(self, source: SimulatedNode, seconds: float) -> bool:
        """Whether it is held up, or was until so long ago."""
        until = self._held_up.get(source.name, -seconds)
        return self._world.timeline.now < until + seconds

    def hold_up(self, source: SimulatedNode, seconds: float) -> None:
        """Let nothing that this node sends arrive for so long, and all of it move."""
        self._held_up[source.name] = self._world.timeline.now + seconds

    def travel(
        self,
        source: SimulatedNode,
        target: SimulatedNode,
        link: int,
        size: int,
        pause: float,
        *,
        has_entries: bool,
    ) -> float:
        """Plan the pieces that begin to arrive after `pause`; give when the last one does."""
        until = self._held_up.get(source.name, 0.0)
        if self._world.timeline.now < until:
            pause = max(pause, until - self._world.timeline.now)
            if (source.name, target.name, link) not in self._crawling:
                self._crawling.add((source.name, target.name, link))
                self._crawl(source, target, link)
            return pause
        if not self.piece_bytes or size <= self.piece_bytes:
            return pause
        count = -(-size // self.piece_bytes)
        self._world.faults[IN_PIECES] += 1
        stalls_at = 0
        if self.stall_seconds:
            stalls_at = self._chance.randrange(1, count)
            self._world.count(STALLED)
        for number in range(1, count):
            source.post(pause, self._moved, source, target.name, link, False)
            target.post(pause, self._moved, target, source.name, link, has_entries)
            pause += _PIECE_SECONDS * self._chance.random()
            if number == stalls_at:
                pause += self.stall_seconds
                self.stall_seconds = 0.0
        return pause

    def _crawl(self, source: SimulatedNode, target: SimulatedNode, link: int) -> None:
        """Tell both ends of one more piece, while the source is held up."""
        is_there = self._network.passes(source.name, target.name, link)
        if not is_there or self._world.timeline.now >= self._held_up[source.name]:
            self._crawling.discard((source.name, target.name, link))
            return
        self._moved(source, target.name, link, False)
        self._moved(target, source.name, link, True)
        self._world.timeline.after(_CRAWL_SECONDS, self._crawl, source, target, link)

    def _moved(self, node: SimulatedNode, peer: str, link: int, has_entries: bool) -> None:
        if self._network.passes(node.name, peer, link):
            node.driver.moving(peer, has_entries=has_entries)
            node.conductor.schedule()
