"""
A node with an empty disk is taken in by the old leader, and by a copy that is promoted meanwhile.

It was fresh when the copy and it met, and that is all that the copy ever hears of it: its word that
it has become a member, under the old leader, is lost on the way. Then everybody dies, the new
member sleeps, and the copy is forced to go on. It takes the fresh node in, as it may. But that one
wakes with the log of the former generation, and what it was told while the copy was being promoted
was lost with their link. It must be shut out, although the copy names it among its members, and may
not follow with that log. Counted when the copy has taken it in and it knows something to be
committed that the copy does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble
from trials.troubles.forced_promotions import (
    LOOK_SECONDS,
    Story,
    alone_and_long,
    fit_followers,
)
from trials.troubles.joined_behind import identity_known_to

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

TAKEN_IN_TWICE = "fresh node taken in by the old leader and by a promoted copy"
_MEETING_SECONDS = 0.001
"""How often it is looked whether the two have met: the leader takes the fresh one in soon."""
_JOINING_SECONDS = 2.0
"""How long it may take: the link on which nothing comes back is given up later."""
_TAKING_SECONDS = 2.0


def leave_one_behind(nemesis: Nemesis) -> bool:
    """Begin: one copy goes on, and one of the others begins on an empty disk just before."""
    fit = fit_followers(nemesis)
    if fit and len(nemesis.world.nodes) > 3:
        _TakenInTwice(nemesis, nemesis.chance.choice(fit)).begin()
    return False


class _TakenInTwice(Story):
    """A forced promotion of a copy that knows of one of the others only that it was fresh."""

    def __init__(self, nemesis: Nemesis, copy: SimulatedNode) -> None:
        super().__init__(nemesis, copy)
        self.is_early = False
        leader = nemesis.world.leader()
        self.fresh = self.chance.choice([it for it in self.others if it is not leader])
        self.is_met = self.is_looked_at = False

    def begin(self) -> None:
        """Let the copy hear of nobody but of the one that loses its disk."""
        self.nemesis.promoting = self.copy
        names = [node.name for node in self.others if node is not self.fresh]
        self.world.network.cut_between([self.copy.name], names)
        self.world.network.cut_between(names, [self.copy.name])
        self.world.note("chaos", f"leaves {self.copy.name} behind")
        self._after(self.chance.uniform(0.1, 1.0), self._empty)

    def _empty(self) -> None:
        self.lose_disk(self.fresh)
        self._await_joined(self.world.timeline.now + _JOINING_SECONDS)

    def _await_joined(self, until: float) -> None:
        """Cut the way back to the copy once the two have met, and wait for the leader."""
        node, now = self.fresh, self.world.timeline.now
        if not self.is_met and self._is_met_fresh():
            self.is_met = True
            self.world.network.cut_between([node.name], [self.copy.name])
        leader = self.world.leader()
        is_known = leader is not None and identity_known_to(leader, node)
        if not (is_known and self._is_ahead()) and now < until:
            self._after(_MEETING_SECONDS, self._await_joined, until)
            return
        self.kill_the_others()

    def _is_met_fresh(self) -> bool:
        """Whether the copy has a link with it, and neither of them knows of a cluster there."""
        fresh = self.fresh
        if not (fresh.is_running and self.copy.is_running) or fresh.driver.hello.cluster_id:
            return False
        return self.world.network.is_linked(fresh.name, self.copy.name)

    def _is_ahead(self) -> bool:
        return self.fresh.is_running and self.is_further(self.fresh)

    def kill_the_others(self) -> None:
        """All others die, and the fresh one sleeps: its link stays, and all that it brings."""
        nemesis, sleeper = self.nemesis, self.fresh
        nemesis.kept_down.update(node.name for node in self.others)
        is_asleep = self._is_ahead()
        for node in self.others:
            if node is not sleeper or not is_asleep:
                node.stop(power=self.chance.random() < 0.5)
        if is_asleep:
            sleeper.pause()
            self.asleep = sleeper
        self.world.network.heal()
        nemesis.kept_down.discard(self.copy.name)
        self._after(self.chance.uniform(0.05, 0.3), self.promote)

    def bring_back(self, left: list[SimulatedNode]) -> None:
        """First wait for the copy to take the sleeper in; then their link breaks."""
        if self.is_looked_at:
            super().bring_back(left)
            return
        self.is_looked_at = True
        self._await_taken_in(left, self.world.timeline.now + _TAKING_SECONDS)

    def _await_taken_in(self, left: list[SimulatedNode], until: float) -> None:
        copy, sleeper = self.copy, self.asleep
        is_taken_in = sleeper is not None and identity_known_to(copy, sleeper)
        if sleeper is not None and not is_taken_in and self.world.timeline.now < until:
            self._after(LOOK_SECONDS, self._await_taken_in, left, until)
            return
        if sleeper is not None and is_taken_in:
            self.world.count(TAKEN_IN_TWICE)
            self.world.network.unlink(copy.name, sleeper.name, closed=False)
        self.bring_back(left)


def _prepare(plan: Plan) -> None:
    alone_and_long(plan, TAKEN_IN_TWICE)


TROUBLES = (
    RareTrouble(
        name=TAKEN_IN_TWICE,
        act=leave_one_behind,
        chance=0.02,
        topologies=("learner", "five"),
        prepare=_prepare,
    ),
)
