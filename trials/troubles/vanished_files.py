"""
Files of the log that are gone: deleted by hand, lost by a file system, left out of a copy.

The oldest files of the victim's log vanish while it is down. What is left looks like a log that was
cleaned; a node that took it for that would serve without what was confirmed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.damage import distrust
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan

VANISHED = "oldest files vanish"


def lose_the_oldest(nemesis: Nemesis) -> bool:
    """Remove the oldest files of a dead victim's log, but not the last one."""
    node = nemesis.victim()
    if node is None or not node.is_alive:
        return False
    first = node.journal.first_index
    paths = [it for it in node.disk.durable_paths() if it.name.endswith(".segment")]
    kept = [it for it in paths if it.parent == node.journal.directory / "journal"]
    if len(kept) < 2 or int(kept[0].stem) != first:
        return False
    node.stop(power=False)
    distrust(nemesis, node)
    node.disk.refuse_rename.clear()
    node.disk.refuse_unlink.clear()  # Whatever takes them asks nobody.
    for path in kept[: nemesis.chance.randrange(1, len(kept))]:
        node.disk.unlink(path)
        node.disk.sync_directory(path.parent)
    nemesis.world.note(node.name, "loses the oldest files of its log")
    return True


def _small_segments(made: Plan) -> None:
    made.segment_bytes = 8 * 1024
    made.chaos_seconds = max(made.chaos_seconds, 4.0)


TROUBLES = (
    RareTrouble(
        name=VANISHED,
        act=lose_the_oldest,
        chance=0.08,
        weight=4,
        needs_victim=True,
        prepare=_small_segments,
    ),
)
