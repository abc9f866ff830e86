"""
A member joins anew behind the end of the copy that goes on, and sleeps while that is promoted.

Its disk was lost. The copy that an operator forces to go on has never heard of that identity: its
members name the one before. The link of the sleeper was made before the promotion, so it was
judged by nothing that the promotion says, and what it said of itself then is all that the copy
knows. Its log is of the former generation: it must be shut out and emptied when it wakes, and may
not be taken in as one that is new. Counted when it sleeps and knows something to be committed that
the copy does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.history import ViolationError
from trials.simulation.rare_trouble import RareTrouble
from trials.troubles.forced_promotions import (
    LOOK_SECONDS,
    Story,
    alone_and_long,
    fit_followers,
)

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

JOINED_BEHIND = "member that joined behind a copy's end sleeps while the copy is promoted"
_JOINING_SECONDS = 4.0
"""How long the operator waits at most for the new identity to be a member."""


def leave_one_behind(nemesis: Nemesis) -> bool:
    """Begin: one copy goes on, and one of the others joins anew without its knowledge."""
    fit = fit_followers(nemesis)
    if fit and len(nemesis.world.nodes) > 3:
        _JoinedBehind(nemesis, nemesis.chance.choice(fit)).begin()
    return False


class _JoinedBehind(Story):
    """A forced promotion before which one of the others was given an empty disk."""

    def __init__(self, nemesis: Nemesis, copy: SimulatedNode) -> None:
        super().__init__(nemesis, copy)
        self.is_early = False
        leader = nemesis.world.leader()
        self.joining = self.chance.choice([it for it in self.others if it is not leader])

    def kill_the_others(self) -> None:
        """Lose a disk first, and wait until its node is a member again."""
        self.lose_disk(self.joining)
        self._await_joined(self.world.timeline.now + _JOINING_SECONDS)

    def _await_joined(self, until: float) -> None:
        node, now = self.joining, self.world.timeline.now
        leader = self.world.leader()
        is_known = bool(leader and leader is not self.copy and identity_known_to(leader, node))
        is_joined = is_known and node.is_running and self.is_further(node)
        if not is_joined and now < until:
            self._after(LOOK_SECONDS, self._await_joined, until)
            return
        if is_joined and self.chance.random() < 0.5:
            # It may be a voter by then, or even lead.
            self._after(self.chance.uniform(0.1, 1.0), self._fall_asleep)
        else:
            self._fall_asleep()

    def _fall_asleep(self) -> None:
        """All others die, and the one that joined sleeps: its links stay."""
        nemesis, sleeper = self.nemesis, self.joining
        nemesis.kept_down.update(node.name for node in self.others)
        is_asleep = sleeper.is_running and self.is_further(sleeper)
        for node in self.others:
            if node is not sleeper or not is_asleep:
                node.stop(power=self.chance.random() < 0.5)
        self.world.network.heal()
        nemesis.kept_down.discard(self.copy.name)
        if is_asleep:
            self.asleep = sleeper
            # Awake for as long as a handshake takes, once the way is open.
            self._after(self.chance.uniform(0.0, 0.2), self._sleep, sleeper.life)
        self._after(self.chance.uniform(0.6, 1.5), self.promote)

    def _sleep(self, life: int) -> None:
        node = self.joining
        if node.life == life and node.is_running:
            node.pause()
            self.world.count(JOINED_BEHIND)

    def _let_in(self, node: SimulatedNode) -> None:
        super()._let_in(node)
        if node is self.joining and node.is_alive and self.chance.random() < 0.5:
            node.stop(power=True)  # What it has heard since it woke is not on its disk.
            node.start()

    def _await_fenced(self, left: list[SimulatedNode]) -> None:
        node = left[0]
        if node.disk_number == self.disks[node.name] and identity_known_to(self.copy, node):
            raise ViolationError(
                "A14", f"{self.copy.name} has taken {node.name} in with a log of before"
            )
        super()._await_fenced(left)


def identity_known_to(asked: SimulatedNode, node: SimulatedNode) -> bool:
    """Whether this node's present identity is a member, as far as the one that is asked knows."""
    if not asked.is_alive or not node.is_alive:
        return False
    own = node.driver.hello.node_id
    views = asked.driver.status().members
    return any(view.node_id == own and view.kind != "fenced" for view in views)


def _prepare(plan: Plan) -> None:
    alone_and_long(plan, JOINED_BEHIND)


TROUBLES = (
    RareTrouble(
        name=JOINED_BEHIND,
        act=leave_one_behind,
        chance=0.02,
        topologies=("learner", "five"),
        prepare=_prepare,
    ),
)
