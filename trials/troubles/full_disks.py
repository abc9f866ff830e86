"""
A disk that is full before anybody has seen it fill: the writer itself finds no room.

One write finds none, as on file systems that copy on write; or there is a quota of which the free
bytes tell nothing. No node may end over it, and nothing that found no room may be taken for stored.
The first is counted when the write fails, the second when the quota is set.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

NO_ROOM = "write ENOSPC"
QUOTA = "quota that nobody sees"
_ROOMS = (0, 8 * 1024, 24 * 1024)


def refuse_a_write(nemesis: Nemesis) -> bool:
    """Let a node's next write find no room."""
    node = nemesis.leader_or_any()
    if node is None:
        return False
    node.disk.fail_next["write"] = errno.ENOSPC
    return False  # Counted when it happens.


def set_a_quota(nemesis: Nemesis) -> bool:
    """Leave a node hardly any room, and not say so."""
    node = nemesis.leader_or_any()
    if node is None or node.disk.is_limit_hidden:
        return False
    node.disk.is_limit_hidden = True
    node.disk.limit(nemesis.chance.choice(_ROOMS))
    nemesis.world.note(node.name, "has a quota that nobody sees")
    longest = 2 * nemesis.world.replication_settings.disk_hang_seconds
    nemesis.world.timeline.after(nemesis.chance.uniform(0.2, longest), _lift, node)
    return True


def _lift(node: SimulatedNode) -> None:
    node.disk.is_limit_hidden = False
    node.disk.limit(None)


def _small_segments(made: Plan) -> None:
    made.segment_bytes = 8 * 1024
    made.chaos_seconds = max(made.chaos_seconds, 4.0)


TROUBLES = (
    RareTrouble(name=NO_ROOM, act=refuse_a_write, chance=0.06),
    RareTrouble(name=QUOTA, act=set_a_quota, chance=0.06, prepare=_small_segments),
)
