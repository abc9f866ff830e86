"""
A log's end rots while its node is down, and the power fails again as others' entries replace it.

Nothing tells whether what is lost there was stored: the node counts it as held when it votes. What
a leader sends comes in its place, and that takes several writes. Wherever the power fails between
them, the node must come back with as much as it had said it stores, or with the knowledge that it
may have had that: the checkers look at each start (S17). Counted when such a node starts with its
power about to fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.damage import distrust
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

LOST_END = "power fails while a lost end is replaced"
_DOWN_SECONDS = 0.1
_STEPS_MAX = 24


def lose_end(nemesis: Nemesis) -> bool:
    """Kill the victim, spoil the last entry that it stored, and start it soon."""
    node = nemesis.victim()
    if node is None or not node.is_running:
        return False
    journal = node.journal
    ballot = journal.ballot_file.current
    index = journal.stored_index
    if ballot is None or index <= max(ballot.durable_floor, journal.first_index):
        return False
    place = journal.place_of(index)
    distrust(nemesis, node)
    node.stop(power=False)
    # Anywhere in the entry: where its header is lost, not even its term is known.
    byte = place.byte + nemesis.chance.randrange(place.size)
    node.disk.flip_bit(place.path, byte * 8 + nemesis.chance.randrange(8))
    nemesis.kept_down.add(node.name)
    nemesis.world.timeline.after(_DOWN_SECONDS, _start, nemesis, node)
    return False


def _start(nemesis: Nemesis, node: SimulatedNode) -> None:
    nemesis.kept_down.discard(node.name)
    if not nemesis.is_active or node.is_alive:
        return
    nemesis.revive(node)
    if node.is_alive and node.journal.unknown_through:
        nemesis.world.note(node.name, f"may have had entry {node.journal.unknown_through}")
        node.disk.cut_at = node.disk.operations + nemesis.chance.randrange(1, _STEPS_MAX)
        nemesis.world.count(LOST_END)


def _prepare(plan: Plan) -> None:
    plan.kinds.setdefault("power cut", 1)


TROUBLES = (
    RareTrouble(
        name=LOST_END,
        act=lose_end,
        chance=0.1,
        weight=6,
        needs_victim=True,
        prepare=_prepare,
    ),
)
