"""
The only voter, with learners beside it, whose log may have lost its end, or is damaged.

What it stored was committed, so nobody else could vote for it or against it; but a learner may hold
what is lost here, and may know that it was committed. So the learners are asked: what they hold
beyond this log is taken over, and once each of them has voted, and thereby shown that it holds no
more, the rest is given up, as a single node gives it up.

Damage within its log does not keep it from leading, unless a newer change of members may be what is
damaged. Damage in what it has yet to apply keeps it from serving. Both are told with the command
that ends the waiting where nobody has a copy.

Invariants:
    Only entries whose chain continues this log are taken, and only while nobody leads.
    Nothing is given up while a learner has not answered: then an operator must say so.
"""

from __future__ import annotations

import logging

from holdfast.journal.entry import KIND_CONFIG, verify_chain
from holdfast.replication.messages import RepairRequest, RepairResponse
from holdfast.replication.state import Role, State

_LOOKED_AT_MAX = 1000
"""Damaged entries whose headers are read at once; there being more, one of them may be anything."""
logger = logging.getLogger("holdfast.replication")


def is_only_voter(state: State) -> bool:
    """Whether nobody else votes, as far as this node's log tells."""
    return state.voter_names == [state.name]


def asks_learners(state: State) -> bool:
    """Whether this node is the only voter, has learners, and does not know its log's end."""
    return is_only_voter(state) and bool(state.peers) and state.log.unknown_index > 0


def stands_with_damage(state: State) -> bool:
    """
    Whether this node is the only voter and leads although entries of its log are damaged.

    Nobody else could lead meanwhile, and a learner that is behind gets no entry to mend them with.
    Not where a newer change of members may be among them: others may be voters by it.
    """
    return is_only_voter(state) and not _hidden_change(state)


def _hidden_change(state: State) -> int:
    """The oldest damaged entry that may be a newer change of members; 0 if there is none."""
    damaged = state.log.damaged
    index = damaged.first_after(state.config_index)
    for _ in range(_LOOKED_AT_MAX):
        if not index or state.log.may_be(index, KIND_CONFIG):
            break
        index = damaged.first_after(index)
    return index


def look(state: State) -> None:
    """Look whether damage keeps this node from standing; `what_is_awaited` reads no disk."""
    if state.is_disk_hanging:
        return  # To look would be to hang with it.
    state.log.hidden_change = _hidden_change(state) if is_only_voter(state) and state.peers else 0


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
    """Say what keeps this node from leading or serving, and which command ends it; or nothing."""
    if not is_only_voter(state):
        return ""
    log = state.log
    following = state.taken_index + 1
    if state.role is Role.LEADER:
        is_stuck = following <= state.commit_index and following in log.damaged
        return _what_mends(state, following, "it serves") if is_stuck else ""
    if log.hidden_change in log.damaged:
        return _what_mends(state, log.hidden_change, "it may be a change of members: it leads")
    if log.unknown_index and not may_go_on_without(state):
        return _what_mends(state, log.damaged.first_after(state.taken_index), "it leads")
    if asks_learners(state):
        return (
            f"what this log held after entry {log.last_index:,} was damaged or interrupted, and"
            f" this is the only voter: it leads once every learner has shown what it holds"
            f" ({_asked(state)}). If a learner is lost, 'holdfast cluster promote {state.name}"
            f" --force' here gives that end up and shuts the learners out"
        )
    if log.unknown_index and not log.is_whole:
        return _what_mends(state, log.damaged.last, "it leads")
    return ""


def _what_mends(state: State, index: int, wanted: str) -> str:
    """Say who may have a copy of a damaged entry, and which command goes on without it."""
    said = (
        f"entry {index:,} of this log is damaged, and this is the only voter; {wanted} once a"
        f" learner has sent its copy ({_asked(state)})."
    )
    if may_go_on_without(state):
        return (
            f"{said} If none has one, 'holdfast cluster promote {state.name} --force' here goes on"
            f" without it and shuts the learners out"
        )
    if not state.peers:
        return f"{said} Restore its segment file from a copy"
    learner = next((it for it in state.peers if state.is_counted(it)), state.peers[0])
    return (
        f"{said} If none has one, restore its segment file from a copy; without one, 'holdfast"
        f" cluster promote {learner} --force' at {learner} goes on with what that one holds"
    )


def may_go_on_without(state: State) -> bool:
    """
    Whether the only voter can do without all that is damaged here.

    It was applied, or is lost at the log's end, and that is given up.
    """
    log = state.log
    following = log.damaged.first_after(min(state.taken_index, log.last_index))
    return is_only_voter(state) and (not following or following > log.last_index)


def _asked(state: State) -> str:
    silent = [peer for peer in state.peers if not state.is_counted(peer)]
    if silent:
        return f"not reached: {', '.join(silent)}"
    return "they are being asked" if state.peers else "there is none"
