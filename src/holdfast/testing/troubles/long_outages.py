"""
A data node of a pair is down so long that the log turns over, and then the other one dies.

The witness is for this outage: its log may not grow without bound meanwhile, and when the node that
was down comes back alone, the witness must bring it all that was confirmed. Counted when the
witness has trimmed past what that node holds, and again when that node serves with its help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.testing.rare_trouble import RareTrouble, let_the_log_turn_over

if TYPE_CHECKING:
    from holdfast.testing.faults import Nemesis, Plan
    from holdfast.testing.simulated_node import SimulatedNode

OUTAGE = "data node down while the log turns over"
BROUGHT_UP = "witness brings a node up"
_LOOK_SECONDS = 0.2


def keep_one_down(nemesis: Nemesis) -> bool:
    """Stop the data node that does not lead, and keep it down."""
    world = nemesis.world
    leader = world.leader()
    if leader is None or nemesis.kept_down:
        return False
    witness = next((node for node in world.nodes if node.driver.is_witness), None)
    others = [node for node in world.nodes if node is not leader and node is not witness]
    if witness is None or len(others) != 1 or not others[0].is_alive:
        return False
    nemesis.kept_down.add(others[0].name)
    others[0].stop(power=False)
    world.note("operator", f"leaves {others[0].name} down")
    world.timeline.after(_LOOK_SECONDS, _look, nemesis, others[0], witness)
    return False


def _look(nemesis: Nemesis, down: SimulatedNode, witness: SimulatedNode) -> None:
    """Wait until the witness has nothing that follows the other's log; then change over."""
    world = nemesis.world
    leader = world.leader()
    if not nemesis.is_active or down.name not in nemesis.kept_down:
        return
    is_past = witness.is_alive and witness.journal.first_index > down.journal.last_index + 1
    if not is_past or leader is None or leader is witness:
        world.timeline.after(_LOOK_SECONDS, _look, nemesis, down, witness)
        return
    world.count(OUTAGE)
    nemesis.kept_down = {leader.name}
    leader.stop(power=True)
    if not down.is_alive:
        nemesis.revive(down)
    world.timeline.after(_LOOK_SECONDS, _await, nemesis, down, leader)


def _await(nemesis: Nemesis, back: SimulatedNode, dead: SimulatedNode) -> None:
    """Let the other one come again only after the first one serves."""
    if not nemesis.is_active or dead.name not in nemesis.kept_down:
        return
    if back.is_listening:
        nemesis.world.count(BROUGHT_UP)
        nemesis.kept_down.discard(dead.name)
        return
    nemesis.world.timeline.after(_LOOK_SECONDS, _await, nemesis, back, dead)


def with_a_small_log(plan: Plan) -> None:
    """Let the log turn over within the chaos, with one copy enough."""
    let_the_log_turn_over(plan, OUTAGE)
    plan.copies = 1


TROUBLES = (
    RareTrouble(
        name=OUTAGE,
        act=keep_one_down,
        chance=0.2,
        topologies=("witness",),
        prepare=with_a_small_log,
    ),
)
