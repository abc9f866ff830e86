"""
Files that cannot be removed for a while: made immutable by hand, or held by a file system.

What the node need not have any more stays, through crashes and restarts, while newer files go. It
may cost room and nothing else.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from pathlib import Path

    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

REFUSED = "files cannot be removed"
UNMOVABLE = "nor renamed"
_RENAMES_REFUSED = 0.5


def refuse(nemesis: Nemesis) -> bool:
    """Let some of a node's files stay whatever is done."""
    node = nemesis.leader_or_any()
    if node is None or node.disk.refuse_unlink:
        return False
    disk = node.disk
    files = [it for it in disk.durable_paths() if it.suffix == ".segment"]
    log = [it for it in files if it.parent == node.journal.directory / "journal"]
    # What is not committed the writer itself may have to cut, which nobody can do without.
    commit = node.driver.commit_index
    ends = [*log[1:], None]
    cut = [it for it, behind in zip(log, ends, strict=False) if _may_go(behind, commit)]
    old = [it for it in files if it not in cut]
    if not old:
        return False
    # Whichever they are, newer ones and older ones go.
    disk.refuse_unlink = set(nemesis.chance.sample(old, nemesis.chance.randrange(1, len(old) + 1)))
    nemesis.world.note(node.name, "has files that cannot be removed")
    seconds = nemesis.chance.uniform(0.3, 2.5)
    nemesis.world.timeline.after(seconds, disk.refuse_unlink.clear)
    _refuse_renames(nemesis, node, seconds)
    return True


def _refuse_renames(nemesis: Nemesis, node: SimulatedNode, seconds: float) -> None:
    """Let them stay where they are too, now and then."""
    world = nemesis.world
    chance = random.Random(f"{world.seed}:{node.name}:{world.timeline.now}:renames")  # noqa: S311 - to be repeated from a seed
    if chance.random() < _RENAMES_REFUSED:
        node.disk.refuse_rename = set(node.disk.refuse_unlink)
        world.count(UNMOVABLE)
        world.timeline.after(seconds, node.disk.refuse_rename.clear)


def _may_go(behind: Path | None, commit: int) -> bool:
    """Whether entries of the file before this one may be cut: this is where the next ones begin."""
    return behind is None or int(behind.stem) > commit + 1


def _small_segments(made: Plan) -> None:
    made.segment_bytes = 8 * 1024
    made.chaos_seconds = max(made.chaos_seconds, 4.0)


TROUBLES = (RareTrouble(name=REFUSED, act=refuse, chance=0.06, weight=4, prepare=_small_segments),)
