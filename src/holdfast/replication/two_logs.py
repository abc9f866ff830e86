"""
What becomes of a log that was kept, while the one that replaces it is being filled.

Full and committed, the new one makes it superfluous. Where there is no room for both, it depends on
whose it is: a voter gives the older one up, since a majority has all of it, and without room it
would never be one of that again. A learner's may be the last whole one: it waits, and tells.
"""

from __future__ import annotations

import logging

from holdfast.replication.promotion import incompleteness
from holdfast.replication.state import State

logger = logging.getLogger("holdfast.replication")


def settle(state: State) -> None:
    """Once per turn, while there is a kept log or a target to reach."""
    log = state.log
    log.settle_filling(state.commit_index)
    filling = log.journal.filling
    if filling is None:
        return
    # The new log does not name the members until it has come as far as their entry.
    if state.is_voter if state.own else filling.is_of_voter:
        log.make_room(state.now)
    elif log.journal.is_out_of_room and not log.is_room_asked_for:
        log.is_room_asked_for = True
        logger.error("%s", incompleteness(log.journal))
