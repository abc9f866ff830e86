"""
A data node of a pair is down so long that the log turns over, and then the other one dies.

The witness is for this outage: its log may not grow without bound meanwhile, and when the node that
was down comes back alone, the witness must bring it all that was confirmed. Counted when the
witness has trimmed past what that node holds, and again when that node serves with its help.

Or the witness is down as long, while the data nodes go on cleaning; then it comes back, is filled
anew, and one of them dies. Hours go by on all wall clocks in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.history import ViolationError
from trials.simulation.rare_trouble import RareTrouble, let_the_log_turn_over

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

OUTAGE = "data node down while the log turns over"
BROUGHT_UP = "witness brings a node up"
WITNESS_OUTAGE = "witness down for hours while the log turns over"
_LOOK_SECONDS = 0.2
_STEP_SECONDS = 900.0
"""So much later it is by all wall clocks at each look."""
_HOURS_MIN = 2.0
_WITNESS_SHARE = 0.4
_SPARE_SEGMENTS = 2
_EXCESS_LOOKS_MAX = 5
"""A witness drops what it may only now and then, and hears late of what was cleaned."""


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
    if nemesis.chance.random() < _WITNESS_SHARE:
        _keep_down(nemesis, witness)
        world.timeline.after(_LOOK_SECONDS, _look_at_the_witness, nemesis, witness, 0.0)
        return False
    _keep_down(nemesis, others[0])
    world.timeline.after(_LOOK_SECONDS, _look, nemesis, others[0], witness)
    return False


def _keep_down(nemesis: Nemesis, node: SimulatedNode) -> None:
    nemesis.kept_down.add(node.name)
    node.stop(power=False)
    nemesis.world.note("operator", f"leaves {node.name} down")


def _let_time_pass(nemesis: Nemesis) -> None:
    for node in nemesis.world.nodes:
        node.clock.wall_offset_seconds += _STEP_SECONDS


def _look_at_the_witness(nemesis: Nemesis, witness: SimulatedNode, hours: float) -> None:
    """Wait until the log has turned over and hours have gone by; then start the witness."""
    world = nemesis.world
    if not nemesis.is_active or witness.name not in nemesis.kept_down:
        return
    _let_time_pass(nemesis)
    hours += _STEP_SECONDS / 3600
    leader = world.leader()
    is_past = leader is not None and leader.journal.first_index > witness.journal.last_index + 1
    if not is_past or hours < _HOURS_MIN:
        world.timeline.after(_LOOK_SECONDS, _look_at_the_witness, nemesis, witness, hours)
        return
    nemesis.kept_down.discard(witness.name)
    if not witness.is_alive:
        nemesis.revive(witness)
    world.timeline.after(_LOOK_SECONDS, _let_one_die, nemesis, witness)


def _let_one_die(nemesis: Nemesis, witness: SimulatedNode) -> None:
    """Once the witness has what the data nodes have, let the one that leads die."""
    world = nemesis.world
    leader = world.leader()
    if not nemesis.is_active:
        return
    others = [it for it in world.nodes if it is not witness and it is not leader]
    is_back = witness.is_alive and leader is not None and all(it.is_running for it in others)
    if not is_back or witness.driver.commit_index < world.checkers.commit_index - 2:
        world.timeline.after(_LOOK_SECONDS, _let_one_die, nemesis, witness)
        return
    assert leader is not None
    world.count(WITNESS_OUTAGE)
    nemesis.kept_down = {leader.name}
    leader.stop(power=True)
    world.timeline.after(_LOOK_SECONDS, _await, nemesis, others[0], leader)


def _look(
    nemesis: Nemesis, down: SimulatedNode, witness: SimulatedNode, excess_count: int = 0
) -> None:
    """Wait until the witness has nothing that follows the other's log; then change over."""
    world = nemesis.world
    leader = world.leader()
    if not nemesis.is_active or down.name not in nemesis.kept_down:
        return
    _let_time_pass(nemesis)
    excess_count = excess_count + 1 if _is_over_bound(nemesis, witness) else 0
    if excess_count > _EXCESS_LOOKS_MAX:
        raise ViolationError("A11", f"the log of {witness.name} grows while a data node is down")
    is_past = witness.is_alive and witness.journal.first_index > down.journal.last_index + 1
    if not is_past or leader is None or leader is witness:
        world.timeline.after(_LOOK_SECONDS, _look, nemesis, down, witness, excess_count)
        return
    world.count(OUTAGE)
    nemesis.kept_down = {leader.name}
    leader.stop(power=True)
    if not down.is_alive:
        nemesis.revive(down)
    world.timeline.after(_LOOK_SECONDS, _await, nemesis, down, leader)


def _is_over_bound(nemesis: Nemesis, witness: SimulatedNode) -> bool:
    """Whether a witness keeps more than the leader does, and some segments beside."""
    leader = nemesis.world.leader()
    if leader is None or leader is witness or not witness.is_alive:
        return False
    spare = _SPARE_SEGMENTS * nemesis.plan.segment_bytes
    return witness.journal.bytes_on_disk > leader.journal.bytes_on_disk + spare


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
