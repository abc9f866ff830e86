"""
Limits that are reached: as many queues, or as many client connections, as a node may have.

Counted each time somebody is refused a queue, and each time a full port closes a connection. The
crowd of connections stays to the end: silent ones must keep out nobody who speaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.testing.committed_log import DEAD_LETTERS
from holdfast.testing.greedy_clients import CONNECTIONS, QUEUES, Crowd, QueueTaker
from holdfast.testing.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from holdfast.testing.faults import Nemesis, Plan

_NEEDED = frozenset({"q1", "q2", "q3", "q4", "q5", DEAD_LETTERS})
_QUEUE_COUNT_MAX = 12
_CONNECTION_COUNT_MAX = 24
"""More than all clients of a world together."""


def take_queues(nemesis: Nemesis) -> bool:
    """Let a client take all queues that are left, once the world has its own."""
    world = nemesis.world
    leader = world.leader()
    if leader is None or not leader.broker.state.by_name.keys() >= _NEEDED:
        return False
    takers = [client for client in world.clients if isinstance(client, QueueTaker)]
    if not takers:
        takers = [QueueTaker(world, "z")]
        world.clients += takers
    takers[0].take()
    return False


def crowd(nemesis: Nemesis) -> bool:
    """Let silent connections come from now on, and now and then some that speak."""
    world = nemesis.world
    if world.crowd is None:
        world.crowd = Crowd(world)
    else:
        world.crowd.speak()
    return False


def _few_queues(plan: Plan) -> None:
    plan.queue_count_max = _QUEUE_COUNT_MAX
    plan.chaos_seconds = max(plan.chaos_seconds, 5.0)


def _few_connections(plan: Plan) -> None:
    plan.connection_count_max = _CONNECTION_COUNT_MAX


TROUBLES = (
    RareTrouble(name=QUEUES, act=take_queues, chance=0.06, weight=8, prepare=_few_queues),
    RareTrouble(name=CONNECTIONS, act=crowd, chance=0.05, weight=4, prepare=_few_connections),
)
