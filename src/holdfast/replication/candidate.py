"""
The candidate: ask whether one could win, then ask for votes, and count them.

Invariants:
    A term is only spent when a majority said it would vote (pre-vote), or the leader hands over.
    A candidate's own vote counts when it is durable, like everybody's. Until then it does not stand
    again: on a disk slower than its patience nobody would ever be elected.
    Who has a hole in its log does not stand, but for the only voter. Who may have lost its last
    entries stands with what is left and needs so many votes that the lost entries are proven
    uncommitted: a voter that held them refuses, and one that votes will never take them from an
    older leader any more. Where no other member is left, it stands as a single node does; with
    learners only it asks them.
"""

from __future__ import annotations

from holdfast.replication import last_voter, lease, unknown_ends
from holdfast.replication.editions import is_doubted
from holdfast.replication.follower import become_follower
from holdfast.replication.last_voter import electors
from holdfast.replication.leader import become_leader
from holdfast.replication.messages import (
    PreVoteRequest,
    PreVoteResponse,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)
from holdfast.replication.quorum import is_lost, is_won, votes_needed
from holdfast.replication.state import Role, State


def may_stand(state: State) -> bool:
    """
    Whether this node can become leader: a voter with a whole log that was not shut out.

    Nor while its disk hangs: it could not even keep its own vote. With a hole it lets others lead
    until one of them has mended it. Alone, or with learners only, there is nobody to wait for: it
    stands and withholds what is damaged. Nor while it does not know the members of the generation
    it was taken along into, nor while the lost end of its log may have made another
    one a voter.
    """
    is_called = state.is_voter and state.knows_its_generation and not state.awaited
    if not is_called or state.fenced_reason or state.is_disk_hanging:
        return False
    is_fit = (
        state.log.is_whole
        or not state.peers
        or last_voter.stands_with_damage(state)
        or unknown_ends.is_fit_without_end(state)
    )
    return is_fit and unknown_ends.may_stand(state)


def stand(state: State) -> None:
    """The leader is silent or gone: ask the voters whether they would elect this node."""
    state.leader = None
    last_voter.look(state)
    unknown_ends.tell(state)
    if not may_stand(state):
        state.role = Role.FOLLOWER
        state.await_leader()
        return
    if state.role is Role.CANDIDATE and state.name not in state.votes:
        # Its own vote is still on its way to a slow disk: another term would begin that anew.
        state.await_leader()
        return
    if _votes_needed(state) == 1:
        start_election(state, is_transfer=False)
        return
    state.role = Role.PRE_CANDIDATE
    state.votes = {state.name: True}
    state.await_leader()
    if state.quick_rounds > 0:
        state.quick_rounds -= 1
        state.await_retry()
    term, index = state.log.journal.last_term, state.log.journal.last_index
    last_voter.ask(state)
    for peer in electors(state):
        if peer != state.name:
            state.send(peer, PreVoteRequest(state.term + 1, index, term))


def start_election(state: State, *, is_transfer: bool) -> None:
    """Begin a new term, vote for ourselves, ask for the other votes."""
    state.enter_term(state.term + 1)
    state.role = Role.CANDIDATE
    state.voted_for = state.name
    state.votes = {}
    state.lease_answers.clear()
    state.await_leader()
    term, index = state.log.journal.last_term, state.log.journal.last_index
    for peer in electors(state):
        if peer != state.name:
            state.send(peer, VoteRequest(state.term, index, term, is_transfer))


def on_pre_vote_response(state: State, peer: str, message: PreVoteResponse) -> None:
    """Count a pre-vote; a majority starts the election."""
    if not message.granted and message.term > state.term:
        become_follower(state, message.term, None)
        return
    is_answer = message.term == state.term + 1 or not message.granted
    if state.role is not Role.PRE_CANDIDATE or not is_answer or not state.is_counted(peer):
        return
    state.votes[peer] = message.granted
    counted = _votes(state)
    if is_won(counted, _votes_needed(state)):
        start_election(state, is_transfer=False)
    elif is_lost(counted, len(electors(state)), _votes_needed(state)):
        state.role = Role.FOLLOWER


def on_vote_response(state: State, peer: str, message: VoteResponse) -> None:
    """Count a vote; a majority makes a leader, too many refusals end the candidacy."""
    if message.term > state.term:
        become_follower(state, message.term, None)
        return
    is_answer = message.term == state.term and state.role in {Role.CANDIDATE, Role.LEADER}
    if not is_answer or not state.is_counted(peer):
        return
    lease.note_vote(state, peer, message)
    lease.stepped_down(state, peer)
    if state.role is Role.LEADER:
        return
    state.votes[peer] = message.granted
    _judge(state)


def on_ballot_stored(state: State, term: int, voted_for: str | None) -> None:
    """Our own vote is durable: from now on it counts."""
    if state.role is Role.CANDIDATE and term == state.term and voted_for == state.name:
        state.votes[state.name] = True
        _judge(state)


def on_transfer_request(state: State, peer: str, message: TransferRequest) -> None:
    """The leader hands over: stand at once, without asking whether that is welcome."""
    is_own_leader = message.term == state.term and state.leader == peer
    if is_own_leader and state.role is Role.FOLLOWER and may_stand(state):
        start_election(state, is_transfer=True)


def _votes(state: State) -> list[bool]:
    return [
        state.votes[name]
        for name in electors(state)
        if name in state.votes and not is_doubted(state, name)
    ]


def _votes_needed(state: State) -> int:
    # Who is alone can ask nobody: an end that was never known to be durable is given up, as by a
    # single node. One that was known is damage, and stays in the way.
    if last_voter.asks_learners(state):
        return len(electors(state))  # Each of them may hold what is lost here.
    is_alone = not state.peers and state.log.is_whole
    has_unknown_tail = state.log.unknown_index > 0 and not is_alone
    return votes_needed(len(state.voter_names), has_unknown_tail=has_unknown_tail)


def _judge(state: State) -> None:
    counted = _votes(state)
    if is_won(counted, _votes_needed(state)):
        become_leader(state)
    elif is_lost(counted, len(electors(state)), _votes_needed(state)):
        become_follower(state, state.term, None)
        state.await_retry()
