"""
Rot in what a witness has trimmed, on the only data node that is left with it.

A witness drops what all data nodes hold. One of them then finds that an entry of it has rotted,
while the others are down: the witness is elected, for the other one must not stand with a hole in
its log, and it leads until a whole one is back. Meanwhile it is asked for the entry. It has it no
more, and may not tell the other one to do without: what was written in it lives. Counted when the
witness leads, and something lives in an entry that has rotted; and again when the others are back
and have mended it.

For so long no message is taken off its queue: what is taken at once the leader cleans before the
witness trims it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.damage import spoil_entry
from trials.simulation.history import ViolationError
from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.workload import Consumer, Mover, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

TRIMMED_ROT = "rot in what a leading witness has trimmed"
MENDED = "rot in what a witness has trimmed is mended"
_LOOK_SECONDS = 0.05
_LOOKS_MAX = 120
"""How often the nemesis looks whether the witness has trimmed what lives, until it gives up."""
_LED_SECONDS_MAX = 4.0
"""So long it may take the two to elect the witness."""
_ALONE_SECONDS = (0.3, 1.0)
"""For so long the witness leads with nobody to hand over to."""
_MENDED_SECONDS_MAX = 8.0


def spoil_what_was_trimmed(nemesis: Nemesis) -> bool:
    """Begin: let messages stay on their queues, so that the witness trims some that live."""
    world = nemesis.world
    if world.client_cut or nemesis.kept_down or _fit(nemesis) is None:
        return False
    for client in world.clients:
        if isinstance(client, Consumer | Mover):
            world.client_cut |= {(client.name, node.name) for node in world.nodes}
        elif isinstance(client, Producer):
            client.hurry()
    world.note("chaos", "lets messages stay")
    _await_trimmed(nemesis, _LOOKS_MAX)
    return False


def _fit(nemesis: Nemesis) -> tuple[SimulatedNode, list[SimulatedNode]] | None:
    """The witness and the data nodes, the leader first, if everybody is there and whole."""
    world = nemesis.world
    leader = world.leader()
    if leader is None or any(not it.is_running or it.journal.damage for it in world.nodes):
        return None
    witnesses = [it for it in world.nodes if it.driver.is_witness]
    if len(witnesses) != 1 or leader is witnesses[0]:
        return None
    return witnesses[0], [leader, *(it for it in world.nodes if it not in {leader, *witnesses})]


def _await_trimmed(nemesis: Nemesis, left: int) -> None:
    """Let the entry of a message rot that the witness has no more, on a node that does not lead."""
    world, found = nemesis.world, _fit(nemesis)
    if not nemesis.is_active:
        return
    living = _living(nemesis, *found) if found is not None else []
    if found is None or not living:
        if left:
            world.timeline.after(_LOOK_SECONDS, _await_trimmed, nemesis, left - 1)
        else:
            world.client_cut.clear()
        return
    witness, (_, *others) = found
    hurt, index = nemesis.chance.choice(others), nemesis.chance.choice(living)
    _Spoilt(nemesis, witness, hurt, index).begin()


def _living(nemesis: Nemesis, witness: SimulatedNode, data: list[SimulatedNode]) -> list[int]:
    """Entries that the witness has dropped, in which something lives, and that all others have."""
    first = max(node.journal.first_index for node in data)
    last = min(min(node.journal.stored_index, node.driver.commit_index) for node in data)
    last = min(last, witness.journal.first_index - 1)
    living = set(nemesis.world.checkers.log.live.values())
    return sorted(it for it in living if first <= it <= last and it not in nemesis.spoilt)


class _Spoilt:
    """One entry that has rotted, from the crash of its node until it is mended."""

    def __init__(
        self, nemesis: Nemesis, witness: SimulatedNode, hurt: SimulatedNode, index: int
    ) -> None:
        self.nemesis, self.world = nemesis, nemesis.world
        self.witness, self.hurt, self.index = witness, hurt, index
        self.whole = [node for node in self.world.nodes if node not in {hurt, witness}]

    def begin(self) -> None:
        """Leave the node with the rot alone with the witness."""
        nemesis, hurt = self.nemesis, self.hurt
        nemesis.kept_down.update(node.name for node in self.whole)
        hurt.stop(power=False)
        spoil_entry(nemesis, hurt, self.index)
        nemesis.spoilt.add(self.index)
        self.world.history.is_order_known = False
        for node in self.whole:
            node.stop(power=nemesis.chance.random() < 0.5)
        nemesis.revive(hurt)
        self._await_led(self.world.timeline.now + _LED_SECONDS_MAX)

    def _after(self, seconds: float, step: Callable[..., None], *arguments: object) -> None:
        self.world.timeline.after(seconds, self._step, step, arguments)

    def _step(self, step: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if self.nemesis.is_active:
            step(*arguments)

    def _await_led(self, end: float) -> None:
        if self.witness.is_running and self.witness.driver.is_leader:
            if self.index in self.world.checkers.log.live.values():
                self.world.count(TRIMMED_ROT)
            self._after(self.nemesis.chance.uniform(*_ALONE_SECONDS), self._bring_back)
        elif self.world.timeline.now < end:
            self._after(_LOOK_SECONDS, self._await_led, end)
        else:
            self._bring_back()

    def _bring_back(self) -> None:
        self.nemesis.kept_down.clear()
        self.world.client_cut.clear()
        for node in self.whole:
            if not node.is_alive:
                self.nemesis.revive(node)
        self._await_mended(self.world.timeline.now + _MENDED_SECONDS_MAX)

    def _await_mended(self, end: float) -> None:
        hurt = self.hurt
        if hurt.is_running and self.world.leader() is not None and not hurt.journal.damage:
            self.world.count(MENDED)
        elif self.world.timeline.now < end:
            self._after(_LOOK_SECONDS, self._await_mended, end)
        else:
            raise ViolationError("L4", f"nobody mends entry {self.index} of {hurt.name}")


def _prepare(plan: Plan) -> None:
    plan.kinds = {TRIMMED_ROT: 1}
    plan.victim = plan.ending = ""
    plan.segment_bytes = 16 * 1024
    plan.operations = max(plan.operations, 1_500)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)
    plan.is_one_left_dead = plan.is_disk_left_hanging = False
    plan.scrub_bytes_per_second = 64 * 1024


TROUBLES = (
    RareTrouble(
        name=TRIMMED_ROT,
        act=spoil_what_was_trimmed,
        chance=0.15,
        topologies=("witness",),
        prepare=_prepare,
    ),
)
