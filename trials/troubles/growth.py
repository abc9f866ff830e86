"""
More producers than a broker keeps: clients that live for one message, each with an id of its own.

They come in crowds that sent hours ago, as the cleaner would carry them on, so the world's own
clients are never the ones to forget. Told of when somebody was forgotten; that all nodes forgot the
same ones, the digests show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.model.records import ProducerRecord
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulator import Simulation

_COUNT_MAX = 64
_CROWD = 60
_AGO_MICROSECONDS = 36_000_000_000
"""Longer than the world's wall clocks jump, less than an idle producer is kept."""
_LOOK_SECONDS = 0.2
FORGOTTEN = "producers forgotten"


def crowd(nemesis: Nemesis) -> bool:
    """Let the leader carry on a crowd of producers that nobody will hear of again."""
    world = nemesis.world
    leader = world.leader()
    if leader is None or not leader.is_listening:
        return False
    short_lived = world.history.short_lived
    used_at = leader.broker.state.timestamp - _AGO_MICROSECONDS
    if used_at < 0:
        return False  # Its log has no time yet.
    names = [f"once.{len(short_lived) + number}" for number in range(_CROWD)]
    short_lived.update(names)
    leader.broker.receipts.add_records(
        [ProducerRecord(name, 1, used_at + number) for number, name in enumerate(names)]
    )
    world.timeline.after(_LOOK_SECONDS, _look, world)
    return False


def _look(world: Simulation) -> None:
    if any(
        node.is_alive and node.is_built and node.broker.state.producers.forgotten_count
        for node in world.nodes
    ):
        world.count(FORGOTTEN)


def _few(plan: Plan) -> None:
    plan.producer_count_max = _COUNT_MAX


TROUBLES = (RareTrouble(name=FORGOTTEN, act=crowd, chance=0.08, weight=8, prepare=_few),)
