"""
Voters that do not know what their logs held at the end.

Such an end counts as held: its owner votes for nobody who may lack it, and leads only with so many
votes that nothing in it can have been committed. Of two voters, each would wait for the other for
ever. But what two voters have committed, both have stored: what the one cannot read and the other
has not was never confirmed, or both have lost it. So of two, the one whose readable log is longer
leads.

Sure must be that there are only two. The lost end may have made a learner a voter, and with that
one something may have been committed that the other of the two never had. Of more voters, their
votes tell (quorum.py); of two, every learner says whom it takes for the voters by its own log. One
that stored what was committed so, stored that change as well. The two must have stored its
admission, so whoever could be the third is known to both, or the one that has it in its readable
log has the longer one.

Invariants:
    An unknown end is given up for a candidate only by one of two voters, to the other, and only
    where all other members say that these two are the voters.
    One of two voters with an unknown end stands only where all learners say so.
    Nobody votes for a log that ends before its own readable one, or before what it knows to be
    committed.
    An end that was noted as durable once is damage, and never given up.
"""

from __future__ import annotations

import logging
from typing import Final

from holdfast.replication import last_voter
from holdfast.replication.quorum import votes_needed
from holdfast.replication.state import Role, State

logger = logging.getLogger("holdfast.replication")

_PAIR: Final = 2
TOLD_AFTER_TIMEOUTS: Final = 3.0
"""So many of the longest election timeouts without a leader are told of in the log."""


def is_complete(state: State, candidate: str, last_term: int, last_index: int) -> bool:
    """Whether a candidate with this last entry has all that this voter may have to answer for."""
    position = (last_term, last_index)
    log = state.log
    if position >= log.election_position():
        return True
    journal = log.journal
    is_past_ours = position >= (journal.last_term, journal.last_index)
    return (
        is_past_ours and last_index >= state.commit_index and _is_decided_by_two(state, candidate)
    )


def _is_decided_by_two(state: State, candidate: str) -> bool:
    """Whether this node and the candidate are the voters, as far as any other member knows."""
    if not state.log.is_whole or set(state.voter_names) != {state.name, candidate}:
        return False
    return all(_says_the_same(state, peer) for peer in state.peers)


def _says_the_same(state: State, peer: str) -> bool:
    return state.is_counted(peer) and state.connected[peer].voters == state.voter_ids


def may_stand(state: State) -> bool:
    """Whether the lost end of this log can have made nobody a voter with whom it was committed."""
    if not state.log.unknown_index or len(state.voter_names) != _PAIR:
        return True
    learners = [peer for peer in state.peers if peer not in state.voter_names]
    return all(_says_the_same(state, peer) for peer in learners)


def what_is_awaited(state: State) -> str:
    """Say why nobody leads, where that is an unknown end, and which command ends it; or nothing."""
    if last_voter.is_only_voter(state):
        return last_voter.what_is_awaited(state)
    is_ended = state.leader is not None or state.role is Role.LEADER or not state.is_voter
    if is_ended or not state.log.unknown_index or len(state.voter_names) < 2:
        return ""
    count = len(state.voter_names)
    is_pair = count == _PAIR
    asked = state.peers if is_pair else state.other_voters()
    silent = [peer for peer in asked if not state.is_counted(peer)]
    missing = f"not reached: {', '.join(silent)}" if silent else "all are reached"
    remedy = "Bring back who is missing; or, if that one is lost," if silent else "If that lasts,"
    needed = votes_needed(count, has_unknown_tail=True)
    word = ", and with every learner's word that there are no others" if is_pair else ""
    reached = [peer for peer in state.peers if state.is_counted(peer)]
    names = [name for name in reached if "witness" not in _kinds(state, name)]
    # Of equals the first one named goes on, and nobody with damage in its log does.
    names = sorted([*names, state.name]) if state.log.is_whole else [*names, state.name]
    return (
        f"what this log held after entry {state.log.last_index:,} was damaged or interrupted, and"
        f" nobody leads: this node votes only for a log that cannot lack it, and leads only with"
        f" {needed} of {count} votes{word} ({missing}). {remedy} 'holdfast cluster"
        f" promote {' '.join(names)} --force' lets the furthest log of these go on, gives up what"
        f" only lost ends and lost nodes held, and shuts everybody else out"
    )


def _kinds(state: State, name: str) -> tuple[str, str]:
    return state.members[name].kind, state.members[name].promote_to


def tell(state: State) -> None:
    """Log it when nobody has led for a while, or the only voter waits."""
    log = state.log
    said = what_is_awaited(state)
    if not said:
        log.awaited_since = None
        return
    if log.awaited_since is None:
        log.awaited_since = state.now
    is_long = state.now - log.awaited_since > (
        TOLD_AFTER_TIMEOUTS * state.settings.election_seconds_max
    )
    if said != log.awaited_told and (is_long or last_voter.is_only_voter(state)):
        log.awaited_told = said
        logger.error("%s", said)
