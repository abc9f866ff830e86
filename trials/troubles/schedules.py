"""
Clients who schedule messages; they join at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.model.format_level import SCHEDULES_LEVEL
from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.schedule_clients import QUEUE, SCHEDULED, ScheduleProducer
from trials.simulation.workload import Consumer

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def begin_to_schedule(nemesis: Nemesis) -> bool:
    """Let them come, once all nodes know what that is."""
    world = nemesis.world
    if any(isinstance(client, ScheduleProducer) for client in world.clients):
        return False
    leader = world.leader()
    if leader is None or leader.broker.state.format_level < SCHEDULES_LEVEL:
        return False
    world.clients.append(ScheduleProducer(world, "t0"))
    for number in (1, 2):
        name = f"t{number}"
        consumer = Consumer(world, name, queue=QUEUE, mode="client-individual", prefetch=20)
        world.clients.append(consumer)
    return True


TROUBLES = (RareTrouble(name=SCHEDULED, act=begin_to_schedule, chance=0.0),)
