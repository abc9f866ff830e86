"""
Voters that do not know what their logs held at the end.

Such an end counts as held: its owner votes for nobody who may lack it, and leads only with so many
votes that nothing in it can have been committed. Of two voters, each would wait for the other for
ever. But what two voters have committed, both have stored: what the one cannot read and the other
has not was never confirmed, or both have lost it. So of two, the one whose readable log is longer
leads. Where the candidate has lost nothing, what it lacks was surely never confirmed, whatever the
other one has noted of it.

Sure must be that there are only two. The lost end may have made a learner a voter, and with that
one something may have been committed that the other of the two never had. Of more voters, their
votes tell (quorum.py); of two, every learner says whom it takes for the voters by its own log. One
that stored what was committed so, stored that change as well. The lost end may also have taken that
learner in. That the two must have stored: where it is not in the one's readable log it is in the
other's, who has the longer one and is the candidate. So those count whom the candidate knows.

Invariants:
    An unknown end is given up for a candidate only by one of two voters, to the other, and only
    where all other members, by either's log, say that these two are the voters.
    One of two voters with an unknown end stands only where all learners say so.
    Nobody votes for a log that ends before what it knows to be committed; nor, unless that one has
    lost nothing, before its own readable one.
    An end that was noted as durable once is damage, and given up only to one who has lost nothing,
    or with that one's vote.
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
    if log.is_whole:
        is_further = position >= (log.journal.last_term, log.journal.last_index)
    else:
        is_further = _has_lost_nothing(state, candidate, last_index)
    is_enough = is_further and last_index >= state.commit_index
    return is_enough and _is_decided_by_two(state, candidate)


def _has_lost_nothing(state: State, candidate: str, last_index: int) -> bool:
    """
    Whether a candidate, if it is the other one of two, surely has all that was ever committed.

    What it has mends damage within our log, and we may lead then. With other damage we never shall.
    """
    hello = state.connected.get(candidate)
    mended = min(last_index, state.log.last_index)
    return hello is not None and hello.end_known and state.log.damaged.first > mended


def _is_decided_by_two(state: State, candidate: str) -> bool:
    """Whether this node and the candidate are the voters, as far as any other member knows."""
    hello = state.connected.get(candidate)
    if set(state.voter_names) != {state.name, candidate} or hello is None or not hello.members:
        return False
    words = {it.node_id: it.voters for it in state.connected.values()}
    met = {state.members[peer].node_id for peer in _met(state)}
    asked = met | _known_to(state, candidate)
    return all(words.get(node_id) == state.voter_ids for node_id in asked - {state.node_id})


def _met(state: State) -> list[str]:
    """The other members but who has yet to be met: it stored nothing, or the two know of it."""
    return [peer for peer in state.peers if state.members[peer].node_id]


def _known_to(state: State, voter: str) -> set[str]:
    """
    Identities of those that our lost end may have taken in, as the other one of two has stored.

    Nobody, where its log names the members no further on than what can be read of ours.
    """
    hello = state.connected.get(voter)
    is_further = hello is not None and hello.config_index > state.config_index
    return set(hello.members) if hello is not None and is_further else set()


def _says_the_same(state: State, peer: str) -> bool:
    return state.is_counted(peer) and state.connected[peer].voters == state.voter_ids


def may_stand(state: State) -> bool:
    """Whether the lost end of this log can have made nobody a voter with whom it was committed."""
    if not state.log.unknown_index or len(state.voter_names) != _PAIR:
        return True
    learners = [peer for peer in _met(state) if peer not in state.voter_names]
    return all(_says_the_same(state, peer) for peer in learners)


def is_fit_without_end(state: State) -> bool:
    """
    Whether this node may stand although its log's end is lost that was noted as durable.

    One of two whose other one has lost nothing: that one's vote proves that it never had more than
    can be read here, so that no more was confirmed.
    """
    others = state.other_voters()
    log = state.log
    return (
        len(state.voter_names) == _PAIR
        and log.unknown_index > 0
        and log.whole_index == log.last_index
        and all(state.is_counted(peer) and state.connected[peer].end_known for peer in others)
    )


def what_is_awaited(state: State) -> str:
    """Say why nobody leads, where that is an unknown end, and which command ends it; or nothing."""
    if last_voter.is_only_voter(state):
        return last_voter.what_is_awaited(state)
    is_ended = state.leader is not None or state.role is Role.LEADER or not state.is_voter
    count = len(state.voter_names)
    is_pair = count == _PAIR
    is_lost = state.log.unknown_index > 0 or (is_pair and not state.log.is_whole)
    if is_ended or not is_lost or count < _PAIR:
        return ""
    silent = _silent(state)
    missing = f"not reached: {', '.join(silent)}" if silent else "all are reached"
    needed = votes_needed(count, has_unknown_tail=True)
    word = ", and with every learner's word that there are no others" if is_pair else ""
    return (
        f"what this log held after entry {state.log.whole_index:,} was damaged or interrupted, and"
        f" nobody leads: this node votes only for a log that cannot lack it, and leads only with"
        f" {needed} of {count} votes{word} ({missing}). {_remedy(state, is_missing=bool(silent))}"
    )


def _silent(state: State) -> list[str]:
    """Who is not reached and might vote, or tell who the voters are."""
    if len(state.voter_names) != _PAIR:
        return [peer for peer in state.other_voters() if not state.is_counted(peer)]
    reached = {hello.node_id for hello in state.connected.values()}
    others = {name for peer in state.other_voters() for name in _unreached_by(state, peer, reached)}
    return sorted(others | {peer for peer in _met(state) if not state.is_counted(peer)})


def _unreached_by(state: State, voter: str, reached: set[str]) -> list[str]:
    """Whom the other one of two voters may know alone, and this node has no link to."""
    unreached = _known_to(state, voter) - reached - {state.node_id}
    return [state.connected[voter].members[node_id] for node_id in unreached]


def _remedy(state: State, *, is_missing: bool) -> str:
    """What an operator can do about it."""
    bring = "Bring back who is missing" if is_missing else ""
    reached = [peer for peer in state.peers if state.is_counted(peer)]
    names = [name for name in reached if "witness" not in _kinds(state, name)]
    # Of equals the first one named goes on; nobody does with damage within its log, nor is one with
    # such a log taken along by a shorter one.
    if state.log.is_whole:
        names = sorted([*names, state.name])
    elif state.log.damaged.first > state.log.last_index:
        names.append(state.name)
    if not names:
        return f"{bring or 'Wait'}; or restore the damaged segment file from a copy"
    remedy = f"{bring}; or, if that one is lost," if bring else "If that lasts,"
    return (
        f"{remedy} 'holdfast cluster promote {' '.join(names)} --force' lets the furthest log of"
        f" these go on, gives up what only lost ends and lost nodes held, and shuts everybody else"
        f" out"
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
