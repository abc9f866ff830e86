"""
Being shut out: when a node learns that it has no part in its cluster any more, and ends.

It ends by itself, and an init system starts it again. If a later generation shut it out, that is
on disk before: several that had forgotten, all of them started again while that generation is
down, would elect a leader among themselves and confirm what nobody will ever have. So it is where
its disk is an older copy: who told it may be down, and with its vote what it has forgotten is lost.
What stands on disk is a generation's number, later than its own; it knows no more of that one, and
so takes part in none until an operator promotes it.

Owned by the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from holdfast.errors import FencedError
from holdfast.journal.ballot import Ballot
from holdfast.replication import follower
from holdfast.replication.state import State

logger = logging.getLogger("holdfast.replication")


class Fence:
    """What shuts one node out."""

    __slots__ = ("_on_fenced", "_state")

    def __init__(self, state: State, on_fenced: Callable[[FencedError], None] | None) -> None:
        """Call `on_fenced` once the process is to end."""
        self._state = state
        self._on_fenced = on_fenced

    def shut_out(self, reason: str, generation: int = 0) -> None:
        """
        Take part no more, for this reason, if there is one.

        `generation`: the one that rules instead, or the next one, to be out of the present one. If
        it is later than this node's, the process ends when the ballot that names it is stored, and
        else at once.
        """
        state = self._state
        if not reason or state.fenced_reason:
            return
        logger.error("this node is shut out: %s", reason)
        state.fenced_reason = reason
        follower.become_follower(state, state.term, None)
        if generation > state.generation and state.cluster_id:
            state.fenced_by = generation
            state.is_shut_out = True
        else:
            self._end()

    def ballot_is_stored(self, ballot: Ballot) -> None:
        """Look whether the generation that shut this node out is on disk now."""
        if 0 < self._state.fenced_by <= ballot.generation:
            self._end()

    def _end(self) -> None:
        if self._on_fenced is not None:
            self._on_fenced(FencedError(self._state.fenced_reason))
