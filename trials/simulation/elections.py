"""
Elections of a simulated cluster: whether each term that was spent had to be.

Two things are watched, both from outside. Whoever asks for votes must have been promised them by a
majority of the voters that its log tells (pre-vote), or the leader handed over to it. And of the
terms that nobody led there may be a few only, but for those whose promised majority is no more: a
voter that must keep its vote meets its failing disk in that very moment, and so does a candidate.
No promise can know of that before.

Invariants (each violation is raised with its name):
    F10: no votes are asked for that were not promised; few terms are spent without a leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.replication.messages import (
    Message,
    PreVoteResponse,
    TransferRequest,
    VoteRequest,
)
from holdfast.replication.promotion import TERMS_SKIPPED
from holdfast.replication.quorum import majority
from trials.simulation.history import ViolationError

if TYPE_CHECKING:
    from holdfast.replication.membership import Membership
    from trials.simulation.checkers import Checkers
    from trials.simulation.simulated_node import SimulatedNode

BEREFT = "promised majority ends before it elects"
EXCESS_TERMS_MAX = 8
"""How many terms may go by without a leader in one run: split votes, links that are cut."""


class Elections:
    """Who was promised votes for which term, and what became of it."""

    def __init__(self, checkers: Checkers) -> None:
        self._checkers = checkers
        self._promised: dict[tuple[str, int], set[str]] = {}
        """By candidate and term: who ever said that it would vote so."""
        self._fresh: dict[tuple[str, int], dict[str, float]] = {}
        """The same of processes that still run, and when each said so."""
        self._handed_over: set[tuple[str, int]] = set()
        """Whom a leader of which term asked to stand."""
        self.bereft: set[int] = set()
        """Terms whose promised majority has ended, in part, before it could elect."""
        self.excess = 0
        self.forced_count = 0
        """How often an operator asked for a promotion by force."""

    def on_message(self, node: SimulatedNode, target: str, message: Message) -> None:
        """Look at a message that leaves a node."""
        if type(message) is PreVoteResponse and message.granted:
            key = target, message.term
            self._promised.setdefault(key, set()).add(node.name)
            self._fresh.setdefault(key, {})[node.name] = node.world.timeline.now
        elif type(message) is TransferRequest:
            self._handed_over.add((target, message.term))
        elif type(message) is VoteRequest:
            self._check_wanted(node, message)

    def on_stop(self, node: SimulatedNode) -> None:
        """Note which promises are worth nothing any more, now that this process has ended."""
        membership = self._checkers.log.membership
        if membership is None:
            return
        needed = majority(len(membership.voters))
        oldest = node.world.timeline.now - node.world.replication_settings.election_seconds_max
        for (candidate, term), promises in self._fresh.items():
            recent = {name for name, at in promises.items() if at >= oldest}
            was_promised = len(recent | {candidate}) >= needed
            if candidate == node.name:
                promises.clear()
                recent.clear()
            promises.pop(node.name, None)
            recent.discard(node.name)
            is_bereft = was_promised and len(recent | {candidate}) < needed
            if is_bereft and term not in self._checkers.leaders and term not in self.bereft:
                self.bereft.add(term)
                node.world.count(BEREFT)

    def check_terms(self, node: SimulatedNode) -> None:
        """F10: terms are spent on elections that a majority wants, not by who is cut off."""
        # A forced promotion skips some, and more of them where one before it was cut short.
        term, elections = node.driver.term, self._checkers.elections
        generation, above = node.driver.generation, term - elections
        # Each that was asked for begins one of its own.
        excess = above - self.forced_count
        if generation:
            times = min(round(above / TERMS_SKIPPED), generation * (generation + 1) // 2)
            excess -= times * TERMS_SKIPPED
        if excess > EXCESS_TERMS_MAX:
            leaders = self._checkers.leaders
            excess -= sum(it <= term and it not in leaders for it in self.bereft)
        self.excess = max(self.excess, excess)
        if excess > EXCESS_TERMS_MAX:
            raise ViolationError("F10", f"{node.name} is in term {term} after {elections} leaders")

    def _check_wanted(self, node: SimulatedNode, message: VoteRequest) -> None:
        """F10: a term is spent only where a majority would vote so, or the leader hands over."""
        term = message.term
        if message.is_transfer:
            if (node.name, term - 1) not in self._handed_over:
                raise ViolationError("F10", f"nobody handed term {term} over to {node.name}")
            return
        membership = self._checkers.membership_of(node)
        if membership is None:
            return
        promised = self._promised.get((node.name, term), set()) | {node.name}
        if not _is_majority(promised, membership):
            raise ViolationError(
                "F10", f"{node.name} spends term {term}, which only {sorted(promised)} wanted"
            )


def _is_majority(promised: set[str], membership: Membership) -> bool:
    """Whether these are a majority of the voters, or of those before a change under way."""
    before = [member for member in membership.previous_members if member.is_voter]
    return any(
        sum(voter.name in promised for voter in voters) >= majority(len(voters))
        for voters in (membership.voters, before)
        if voters
    )
