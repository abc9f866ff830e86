"""
Files that cannot be removed for a while: made immutable by hand, or held by a file system.

What the node need not have any more stays, through crashes and restarts, while newer files go. It
may cost room and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.testing.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.testing.faults import Nemesis, Plan

REFUSED = "files cannot be removed"


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
    return True


def _may_go(behind: Path | None, commit: int) -> bool:
    """Whether entries of the file before this one may be cut: this is where the next ones begin."""
    return behind is None or int(behind.stem) > commit + 1


def _small_segments(made: Plan) -> None:
    made.segment_bytes = 8 * 1024
    made.chaos_seconds = max(made.chaos_seconds, 4.0)


TROUBLES = (RareTrouble(name=REFUSED, act=refuse, chance=0.06, weight=4, prepare=_small_segments),)
