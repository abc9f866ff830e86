"""
Judging candidates: every role answers requests for votes by the same rules.

Invariants:
    At most one vote per term, and only for a log at least as complete as ours; an end of our log
    that recovery could not judge counts as held (but see unknown_ends.py for two voters).
    While a leader lives, nobody is helped to depose it (stickiness), unless the leader itself asks
    for it or our own link to it was closed too.
    A node whose identity is no longer a member's does not vote. Whether it is one already is for
    the candidate to know: the voter's log may end before the entry that says so.
    Nobody is voted for whose disk may be an older copy (editions.py).
"""

from __future__ import annotations

from holdfast.replication import lease, unknown_ends
from holdfast.replication.editions import is_doubted
from holdfast.replication.follower import become_follower
from holdfast.replication.messages import (
    PreVoteRequest,
    PreVoteResponse,
    VoteRequest,
)
from holdfast.replication.state import Role, State


def on_pre_vote_request(state: State, peer: str, message: PreVoteRequest) -> None:
    """Say whether we would vote for this candidate; changes no term and gives no vote."""
    granted = (
        message.term > state.term
        and _may_vote(state)
        and not is_doubted(state, peer)
        and not state.has_live_leader()
        and not state.is_disk_hanging
        and _is_complete(state, peer, message)
    )
    if not granted:
        state.send(peer, PreVoteResponse(state.term, granted=False))
        _stand_instead(state, peer, message)
        return
    if state.role is Role.PRE_CANDIDATE and _ranks_before(state, peer, message):
        # Two stand at once and would split the votes: one of them, always the same, gives way.
        state.role = Role.FOLLOWER
        state.await_retry()
    state.send(peer, PreVoteResponse(message.term, granted=True))


def on_vote_request(state: State, peer: str, message: VoteRequest) -> None:
    """Give our vote for the term, or refuse; a vote leaves only when the ballot is durable."""
    if message.term > state.term and (message.is_transfer or not state.has_live_leader()):
        become_follower(state, message.term, None)
    granted = (
        message.term == state.term
        and state.voted_for in {None, peer}
        and state.leader is None
        and _may_vote(state)
        and not is_doubted(state, peer)
        and _is_complete(state, peer, message)
    )
    if granted:
        state.voted_for = peer
        state.await_leader()
    state.send(peer, lease.vote(state, granted=granted))
    if not granted:
        _stand_instead(state, peer, message)


def _may_vote(state: State) -> bool:
    if state.fenced_reason:
        return False
    if state.membership is None:
        # Its log was being begun anew when it died, and the members stood there. It may vote: what
        # it had lacked the entry that made its leader drop what came before, and so could not have
        # kept a candidate back that a majority, which has that entry, does not keep back. Whether
        # it is a voter the candidate knows, by this node's identity.
        return bool(state.cluster_id)
    member = state.members.get(state.name)
    if member is not None and member.node_id == state.node_id:
        return member.kind != "fenced"
    # Our log may name the node that had our name before us, and we may lack the entry that made us
    # a voter: whoever can send it may need our vote first. Who has it knows that we are one.
    return member is None or state.node_id not in state.membership.retired


def _is_complete(state: State, peer: str, message: PreVoteRequest | VoteRequest) -> bool:
    return unknown_ends.is_complete(state, peer, message.last_term, message.last_index)


def _ranks_before(state: State, peer: str, message: PreVoteRequest) -> bool:
    journal = state.log.journal
    theirs = (message.last_term, message.last_index, peer)
    return theirs > (journal.last_term, journal.last_index, state.name)


def _stand_instead(state: State, peer: str, message: PreVoteRequest | VoteRequest) -> None:
    """Stand soon: we refused for the sake of what only our log has, and nobody leads."""
    is_idle = state.leader is None and state.role is Role.FOLLOWER
    if is_idle and not _is_complete(state, peer, message):
        state.await_retry()
