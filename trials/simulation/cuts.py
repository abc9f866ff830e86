"""
S5, of who only follows: what is committed and still good on a disk is not cut off there.

A leader's entries cut off what conflicts with them. Where headers are lost the follower judges by
what is around them; judged wrongly, it throws away what it has told that it holds. Nothing is
missing then as long as the others keep it, so that only a look at the cut itself shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import CorruptEntryError
from trials.simulation.history import ViolationError

if TYPE_CHECKING:
    from holdfast.journal.jobs import Claim, Cut
    from trials.simulation.simulated_node import SimulatedNode


def watch_cuts(node: SimulatedNode) -> None:
    """Look at every cut of this node's journal before it is made."""
    journal = node.journal
    stage = journal.stage_truncate

    def watched(after_index: int, claim: Claim | None = None) -> Cut:
        _check(node, after_index)
        return stage(after_index, claim)

    journal.stage_truncate = watched  # type: ignore[method-assign]


def _check(node: SimulatedNode, after_index: int) -> None:
    checkers, journal = node.world.checkers, node.journal
    if not node.is_built or node.driver.generation != checkers.generations.ruling:
        return
    for index in range(after_index + 1, min(journal.last_index, checkers.commit_index) + 1):
        try:
            chain = journal.chain_at(index)
        except CorruptEntryError:
            continue
        if chain == checkers.commit_chains.get(index):
            raise ViolationError(
                "S5",
                f"{node.name} cuts off entry {index}, which is committed, behind {after_index}",
            )
