"""
One of those that are to go on together hears more after it was asked how far its log goes.

The far site is cut off from the main one, and the operator asks its learners how far they are.
While he thinks it over the way is open again for one of them, for a moment, and it is sent what was
confirmed meanwhile. Then the main site dies. The act that follows names the one that was furthest,
and takes the other along, which knows things to be committed that the first one does not have.
Nobody may go on without them: the act waits, and the next one finds the right one. Counted when
that is so as the operator acts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from trials.simulation.rare_trouble import RareTrouble
from trials.troubles.forced_promotions import LOOK_SECONDS, alone_and_long, fit_learners
from trials.troubles.promoted_together import Together

if TYPE_CHECKING:
    from holdfast.replication.promotion import LogEnd
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

HEARD_SINCE = "learner hears more after it was asked how far its log goes"
_OPEN_SECONDS = (0.2, 0.8)
"""For so long the way is open once more."""
_ALONE_SECONDS_MAX = 6.0


def ask_and_let_hear(nemesis: Nemesis) -> bool:
    """Begin, once: all learners are to go on."""
    if nemesis.finish_promotion is not None:
        return False
    far = fit_learners(nemesis)
    if len(far) > 1:
        _HeardSince(nemesis, far).begin()
    return False


class _HeardSince(Together):
    """A promotion of several that goes by what was true when they were asked."""

    def __init__(self, nemesis: Nemesis, far: list[SimulatedNode]) -> None:
        super().__init__(nemesis, far)
        self.ends: dict[str, LogEnd] = {}
        """How far they said that they are, until the first act."""

    def begin(self) -> None:
        """Cut all of them off from the main site, and wait until none knows of a leader."""
        self.nemesis.promoting = self.copy
        for node in self.far:
            self._cut_off(node)
        self._await_alone(self.world.timeline.now + _ALONE_SECONDS_MAX)

    def _await_alone(self, until: float) -> None:
        is_whole = all(node.is_running for node in self.far)
        if is_whole and all(node.driver.leader is None for node in self.far):
            self.ends = {node.name: node.driver.status().log_end for node in self.far}
            self._open(self.chance.choice([it for it in self.far if it is not self._chief()]))
        elif self.world.timeline.now < until:
            self._after(LOOK_SECONDS, self._await_alone, until)
        else:
            self.kill_the_others()

    def _chief(self) -> SimulatedNode:
        """Whoever was furthest as they were asked."""
        return max(self.far, key=lambda node: self.ends[node.name].position)

    def _open(self, node: SimulatedNode) -> None:
        names = {other.name for other in self.others}
        network = self.world.network
        network.cut -= {pair for pair in network.cut if node.name in pair and names & set(pair)}
        network.dial_soon(node)
        self._after(self.chance.uniform(*_OPEN_SECONDS), self.kill_the_others)

    def _ask_furthest(self) -> None:
        if not self.ends:
            super()._ask_furthest()
            return
        chief, ends = self._chief(), self.ends
        self.ends = {}
        if not all(node.is_running for node in self.far):
            return
        others = [node for node in self.far if node is not chief]
        has_heard = any(it.driver.commit_index > chief.journal.last_index for it in others)
        self.asked_at = self.world.timeline.now
        try:
            chief.driver.promote_force(ends[node.name] for node in others)
        except HoldfastError as error:
            self.world.note("operator", f"is refused: {error}")
            return
        self.note_asked(self.far, chief)
        if has_heard:
            self.world.count(HEARD_SINCE)


def _with_a_far_site(plan: Plan) -> None:
    plan.topology = "far"
    alone_and_long(plan, HEARD_SINCE)


TROUBLES = (
    RareTrouble(
        name=HEARD_SINCE,
        act=ask_and_let_hear,
        chance=0.05,
        topologies=("learner", "far"),
        prepare=_with_a_far_site,
    ),
)
