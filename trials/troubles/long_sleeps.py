"""
A node is stopped so long that the log turns over, and finds all that was sent to it when it wakes.

In one turn it is told to begin its log anew, gets entries, and is told so again, before its writer
has done anything. Counted when it wakes behind what the leader keeps, and again by the checkers
when a log was begun anew twice between two turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble, let_the_log_turn_over

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

SLEEP = "asleep while the log turns over"
_LOOK_SECONDS = 0.1
_PASSES_MAX = 3.0
"""How often the log turns over at most while the node sleeps."""


def sleep(nemesis: Nemesis) -> bool:
    """Stop the leader or a follower until the log has turned over."""
    world = nemesis.world
    node = nemesis.leader_or_any()
    if node is None or any(not it.is_running for it in world.nodes):
        return False
    node.pause()
    world.note(node.name, "falls asleep")
    passes = nemesis.chance.uniform(1.0, _PASSES_MAX)
    world.timeline.after(_LOOK_SECONDS, _look, nemesis, node, node.life, passes)
    return False


def _look(nemesis: Nemesis, node: SimulatedNode, life: int, passes: float) -> None:
    if node.life != life or not node.is_paused:
        return
    world = nemesis.world
    leader = world.leader()
    last = node.journal.last_index
    is_past = leader is not None and leader.journal.first_index > last * passes + 1
    if nemesis.is_active and not is_past:
        world.timeline.after(_LOOK_SECONDS, _look, nemesis, node, life, passes)
        return
    if is_past:
        world.count(SLEEP)
    world.note(node.name, "wakes")
    node.resume()


def with_a_small_log(plan: Plan) -> None:
    """Let the log turn over several times within the chaos."""
    let_the_log_turn_over(plan, SLEEP)


TROUBLES = (
    RareTrouble(
        name=SLEEP,
        act=sleep,
        chance=0.05,
        topologies=("three", "five"),
        prepare=with_a_small_log,
    ),
)
