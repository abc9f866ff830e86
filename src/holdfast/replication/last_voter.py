"""
The only voter, with learners beside it, whose log may have lost its end.

What it stored was committed, so nobody else could vote for it or against it; but a learner may hold
what is lost here, and may know that it was committed. So the learners are asked: what they hold
beyond this log is taken over, and once each of them has voted, and thereby shown that it holds no
more, the rest is given up, as a single node gives it up.

Invariants:
    Only entries whose chain continues this log are taken, and only while nobody leads.
    Nothing is given up while a learner has not answered: then an operator must say so.
"""

from __future__ import annotations

import logging

from holdfast.journal.entry import verify_chain
from holdfast.replication.messages import RepairRequest, RepairResponse
from holdfast.replication.state import Role, State

logger = logging.getLogger("holdfast.replication")


def asks_learners(state: State) -> bool:
    """Whether this node is the only voter, has learners, and does not know its log's end."""
    is_only = state.voter_names == [state.name] and bool(state.peers)
    return is_only and state.log.unknown_index > 0


def stands_with_damage(state: State) -> bool:
    """
    Whether this node is the only voter and leads although entries of its log are damaged.

    Nobody else could lead meanwhile, and a learner that is behind gets no entry to mend them with.
    Not where a newer change of members may be among them: others may be voters by it.
    """
    is_only = state.voter_names == [state.name]
    return is_only and max(state.log.damaged, default=0) <= state.config_index


def electors(state: State) -> list[str]:
    """Whose votes count: the voters', and where one must ask its learners, theirs too."""
    if asks_learners(state):
        return [state.name, *state.peers]
    return state.voter_names


def ask(state: State) -> None:
    """Ask the learners for the entry that would come next."""
    if not asks_learners(state):
        return
    following = state.log.last_index + 1
    for peer in state.peers:
        if state.is_counted(peer):
            state.send(peer, RepairRequest(following))
    said = what_is_awaited(state)
    if said != state.log.awaited_told:
        state.log.awaited_told = said
        logger.error("%s", said)


def take(state: State, message: RepairResponse) -> None:
    """A learner has sent an entry: take it over if it continues this log, and ask for the next."""
    entry, log = message.entry, state.log
    if entry is None or not asks_learners(state) or state.role is Role.LEADER:
        return
    if entry.index != log.last_index + 1:
        return
    journal = log.journal
    is_next = (
        verify_chain(entry, log.chain_at(log.last_index))
        and journal.last_term <= entry.term <= state.term
        and entry.first_record == journal.next_record_number
    )
    if not is_next:
        logger.warning("a learner's entry %d does not continue this log", entry.index)
        return
    log.damaged.discard(entry.index)
    log.append([entry])
    state.adopt_from([entry])
    logger.warning("entry %d, lost at the end of this log, was taken from a learner", entry.index)
    ask(state)


def what_is_awaited(state: State) -> str:
    """Say what keeps this node from leading, and which command ends it; empty if nothing does."""
    if not asks_learners(state) or state.role is Role.LEADER:
        return ""
    silent = [peer for peer in state.peers if not state.is_counted(peer)]
    asked = f"not reached: {', '.join(silent)}" if silent else "they are being asked"
    return (
        f"what this log held after entry {state.log.last_index:,} was damaged or interrupted, and"
        f" this is the only voter: it leads once every learner has shown what it holds ({asked})."
        f" If a learner is lost, 'holdfast cluster promote {state.name} --force' here gives that"
        f" end up and shuts the learners out"
    )
