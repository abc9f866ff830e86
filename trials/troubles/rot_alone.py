"""
Rot on a single node: no peer has a copy, and an operator restores the file some time later.

One bit of an entry flips, whether anything in it lives or not. Meanwhile the cleaner may pass it
only if nothing does. Counted when the bit flips, and again when the log went on without the entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.journal.damage import Damage
from holdfast.journal.entry import HEADER_BYTES
from trials.simulation.rare_trouble import RareTrouble, let_the_log_turn_over

if TYPE_CHECKING:
    from pathlib import Path

    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

ROT = "rot on a single node"
PASSED = "damaged entry passed"
_LOOK_SECONDS = 0.1


def rot(nemesis: Nemesis) -> bool:
    """Flip a bit in the body of an entry that the cleaner will come to."""
    world = nemesis.world
    node = world.nodes[0]
    if not node.is_running or node.journal.damage:
        return False
    journal = node.journal
    oldest = journal.segments()[0]
    if not oldest.sealed or oldest.last_index > node.store.applied_index:
        return False
    index = nemesis.chance.randrange(oldest.base_index, oldest.last_index + 1)
    entry = journal.entry(index)
    if not entry.record_count:
        return False
    place = journal.place_of(index)
    bit = (place.byte + HEADER_BYTES) * 8 + nemesis.chance.randrange(8 * entry.body_length)
    node.disk.flip_bit(place.path, bit)
    nemesis.spoilt.add(index)
    # As the scrubber tells it, should the entry still be in memory.
    node.tell_damage([Damage(place.path.name, place.byte, index, "a bit flipped")])
    world.note(node.name, f"has a flipped bit in entry {index}")
    seconds = nemesis.chance.uniform(0.5, 1.5)
    world.timeline.after(seconds, _restore, nemesis, node, index, place.path, bit)
    return True


def _restore(nemesis: Nemesis, node: SimulatedNode, index: int, path: Path, bit: int) -> None:
    """Stop the node, put the file back as it was, and start again."""
    if node.journal.first_index > index:
        nemesis.world.count(PASSED)
    node.stop(power=False)
    if node.disk.exists(path):
        node.disk.flip_bit(path, bit)
    nemesis.world.note("operator", f"restores {path.name} from a copy")
    node.start()


def _alone(plan: Plan) -> None:
    let_the_log_turn_over(plan, ROT)
    plan.tail_cache_bytes = 0


TROUBLES = (RareTrouble(name=ROT, act=rot, chance=0.3, topologies=("one",), prepare=_alone),)
