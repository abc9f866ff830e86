"""
Limits that are reached: as many queues or client connections as a node may have, or as much of one
client that is not served yet as may wait.

Counted each time somebody is refused a queue, each time a full port closes a connection, and each
time a client is not read on from. The crowd of connections stays to the end: silent ones must keep
out nobody who speaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.committed_log import DEAD_LETTERS
from trials.simulation.generations import LAGGED
from trials.simulation.greedy_clients import (
    AHEAD,
    CONNECTIONS,
    QUEUES,
    Crowd,
    Hasty,
    QueueTaker,
)
from trials.simulation.late_consumer import LATE_QUEUE
from trials.simulation.rare_trouble import RareTrouble, joined
from trials.troubles.forced_promotions import HALF_FILLED
from trials.troubles.heard_since_asked import HEARD_SINCE
from trials.troubles.joined_behind import JOINED_BEHIND
from trials.troubles.lost_promotions import LOST_PROMOTION
from trials.troubles.promoted_together import SITE_BACK, TOGETHER
from trials.troubles.shut_out_together import OUT_TOGETHER
from trials.troubles.taken_in_twice import TAKEN_IN_TWICE

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan

PROMOTIONS = frozenset(
    {
        HALF_FILLED,
        HEARD_SINCE,
        JOINED_BEHIND,
        LAGGED,
        LOST_PROMOTION,
        OUT_TOGETHER,
        SITE_BACK,
        TAKEN_IN_TWICE,
        TOGETHER,
    }
)
"""Trouble in which a copy is forced to go on: it brings clients with a queue of their own."""
_NEEDED = frozenset({"q1", "q2", "q3", "q4", "q5", DEAD_LETTERS})
_QUEUE_COUNT_MAX = 12
_CONNECTION_COUNT_MAX = 24
"""More than all clients of a world together."""


def take_queues(nemesis: Nemesis) -> bool:
    """Let a client take all queues that are left, once the world has its own."""
    world = nemesis.world
    leader = world.leader()
    if leader is None or not needed(nemesis.plan) <= set(leader.broker.destinations.queue_names()):
        return False
    joined(world, QueueTaker, "z").take()
    return False


def needed(plan: Plan) -> frozenset[str]:
    """The queues without which the clients of such a world could not do what they are to do."""
    return _NEEDED | {LATE_QUEUE} if PROMOTIONS & plan.kinds.keys() else _NEEDED


def crowd(nemesis: Nemesis) -> bool:
    """Let silent connections come from now on, and now and then some that speak."""
    world = nemesis.world
    if world.crowd is None:
        world.crowd = Crowd(world)
    else:
        world.crowd.speak()
    return False


def send_ahead(nemesis: Nemesis) -> bool:
    """Let a client send more than may wait."""
    joined(nemesis.world, Hasty, "h").hurry_on()
    return False


def _few_queues(plan: Plan) -> None:
    plan.queue_count_max = _QUEUE_COUNT_MAX
    plan.chaos_seconds = max(plan.chaos_seconds, 5.0)


def _few_connections(plan: Plan) -> None:
    plan.connection_count_max = _CONNECTION_COUNT_MAX


TROUBLES = (
    RareTrouble(name=QUEUES, act=take_queues, chance=0.06, weight=8, prepare=_few_queues),
    RareTrouble(name=CONNECTIONS, act=crowd, chance=0.05, weight=4, prepare=_few_connections),
    RareTrouble(name=AHEAD, act=send_ahead, chance=0.05, weight=4),
)
