"""
Ends of a simulated world that are not happy: more is lost than any promise covers.

Then the promise is another one: to stop, to say so, and to go on only when the operator says.
Everything was healed and everybody was level before; the clients' books stand.

Invariants (each violation is raised with its name):
    F21: an entry that is damaged on every disk lets nobody lead, and everybody tells its index.
    F25: two of three empty disks let nobody lead until a promotion is forced; then all that the
    survivor holds is there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.server.status import damage_status
from trials.simulation.damage import spoil_entry
from trials.simulation.history import ViolationError
from trials.simulation.workload import Consumer, Mover

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

_STOPPED_SECONDS = 5.0
_GRACE_SECONDS = 2.0
_LEAD_SECONDS_MAX = 5.0


def damage_everywhere(world: Simulation) -> None:
    """The same entry, which still matters, rots on every disk."""
    for client in world.clients:
        if isinstance(client, Consumer | Mover):
            client.end()  # What is not consumed still matters.
    world.await_level()
    first = max(node.journal.first_index for node in world.nodes)
    last = min(node.journal.stored_index for node in world.nodes)
    chance = random.Random(f"{world.seed}:ending")  # noqa: S311 - to be repeated from a seed
    if last - first < 4:
        return
    index = chance.randrange(first + 1, last - 1)
    world.count("same entry damaged everywhere")
    world.nemesis.spoilt.add(index)
    for node in world.nodes:
        node.stop(power=False)
    for node in world.nodes:
        spoil_entry(world.nemesis, node, index)
    for node in world.nodes:
        node.start()
    _expect_nobody(world, "F21", f"entry {index} is damaged everywhere", 0.0)
    for node in world.nodes:
        if node.is_alive and not any(it.index == index for it in damage_status(node.journal)):
            raise ViolationError("F21", f"{node.name} does not tell that entry {index} is damaged")


def wipe_two(world: Simulation) -> None:
    """Two of three machines come back with empty disks; the operator forces the third to lead."""
    world.await_level()
    chance = random.Random(f"{world.seed}:ending")  # noqa: S311 - to be repeated from a seed
    survivor: SimulatedNode = chance.choice(world.nodes)
    if world.nemesis.spoilt:
        # What is not sealed no passing read has seen; started again, it is read, and mended.
        survivor.stop(power=False)
        survivor.start()
        world.await_level()
    world.count("two of three wiped")
    for node in world.nodes:
        if node is not survivor:
            node.stop(power=True)
            node.replace_disk()
            node.start()
    _expect_nobody(world, "F25", "two of three are empty", _GRACE_SECONDS)
    survivor.driver.promote_force()
    survivor.conductor.schedule()
    world.expect(
        "F25",
        "the survivor does not lead",
        _LEAD_SECONDS_MAX,
        lambda: world.leader() is survivor,
    )
    world.count("forced promotion")
    world.await_drained()
    world.checkers.check_end()


def _expect_nobody(world: Simulation, name: str, why: str, grace: float) -> None:
    """Nobody serves for a while, after a moment in which the old leader may notice."""
    world.timeline.run(grace)
    end = world.timeline.now + _STOPPED_SECONDS
    while world.timeline.now < end:
        leader = world.leader()
        if leader is not None:
            raise ViolationError(name, f"{leader.name} serves although {why}")
        world.timeline.run(0.1)


ENDINGS: dict[str, Callable[[Simulation], None]] = {
    "same entry damaged everywhere": damage_everywhere,
    "two of three wiped": wipe_two,
}
"""By the kind that a plan names; on three nodes only."""
