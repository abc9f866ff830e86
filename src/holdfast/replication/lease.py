"""
From when a new leader may dispatch: when the lease of every leader before it must be over.

A leader dispatches while a quorum has answered it lately: that is its lease. Each answer is a
promise of the voter that no other leader dispatches on its vote for one shortest election timeout,
which is longer than the lease by what clocks may differ. A voter that elects another leader tells
it with its vote how much of that is left. So the new leader confirms at once, and dispatches when
one quorum's promises have run out: any quorum shares a voter with the one the lease rests on.

It need not wait for a leader of which it is known that it dispatches no more in its term: it has
answered in ours, its process was restarted (the data directory has one owner), or it said that it
ends. That a link was closed proves nothing: whoever stands between two nodes can reset it for one.

Invariants:
    A promise is counted from when the answered request came, later than the lease it is for.
    A process that has just started promises a full timeout to whoever led before: it has forgotten.
    An end that is worked out is only ever brought forward by what is learned later.
    The quorum whose promises have run out is one of the voters that there were at the election:
        those that are left when others were removed since need not share one with the lease.

Pure: the time is the state's.
"""

from __future__ import annotations

from holdfast.replication.lease_promise import Answer
from holdfast.replication.messages import Hello, VoteResponse
from holdfast.replication.quorum import majority
from holdfast.replication.state import State

_NEVER = float("-inf")
_ALWAYS = float("inf")


def promise(state: State, leader: str) -> None:
    """A request of this term's leader is going to be answered."""
    given = state.promise
    if given.term != state.term:
        given.older_until = max(given.older_until, given.until)
        given.term = state.term
        given.holder = state.connected.get(leader)
    given.until = state.now + state.settings.election_seconds_min


def start(state: State, started_at: float) -> None:
    """This process has run since then, and knows of no promise that the one before it gave."""
    if state.cluster_id and state.voter_names != [state.name]:
        state.promise.older_until = started_at + state.settings.election_seconds_min


def vote(state: State, *, granted: bool) -> VoteResponse:
    """Our answer to a candidate, with what is left of our promises."""
    given = state.promise
    return VoteResponse(
        state.term,
        granted,
        given.term,
        max(given.until - state.now, 0.0),
        max(given.older_until - state.now, 0.0),
    )


def note_vote(state: State, voter: str, message: VoteResponse) -> None:
    """A voter answered in our term; its vote may come after enough others have made us leader."""
    now = state.now
    state.lease_answers[voter] = Answer(
        message.lease_term, now + message.lease_left, now + message.older_left
    )
    if state.dispatch_from < _ALWAYS:
        bring_forward(state)


def begin(state: State) -> None:
    """We lead: work out from when we may dispatch."""
    given = state.promise
    state.lease_voters = tuple(state.voter_names)
    state.lease_answers[state.name] = Answer(given.term, given.until, given.older_until)
    # Where no quorum was asked (forced by an operator) nothing is known of the others.
    state.dispatch_from = state.now + state.settings.election_seconds_min
    bring_forward(state)


def bring_forward(state: State) -> None:
    """Work out again from when we may dispatch, by what was learned."""
    over = state.lease_over_term
    ends = sorted(
        answer.older_until if answer.term == over else max(answer.until, answer.older_until)
        for voter, answer in state.lease_answers.items()
        if voter in state.lease_voters
    )
    needed = majority(len(state.lease_voters))
    if len(ends) >= needed:
        state.dispatch_from = min(state.dispatch_from, ends[needed - 1])


def stepped_down(state: State, peer: str) -> None:
    """A peer has answered in our term: if it led before, it does so no more."""
    holder, hello = state.promise.holder, state.connected.get(peer)
    if holder is None or hello is None:
        return
    # Another identity of that name may stand on another machine.
    if (holder.name, holder.node_id) == (peer, hello.node_id):
        _is_over(state)


def met(state: State, peer: str, hello: Hello) -> None:
    """A peer says who it is: if it led before, perhaps it has ended since, or was restarted."""
    holder = state.promise.holder
    if holder is None or holder.name != peer or holder.node_id != hello.node_id:
        return
    if hello.has_ended or hello.instance != holder.instance:
        _is_over(state)


def _is_over(state: State) -> None:
    """Whoever we promised to last dispatches no more in that term."""
    state.promise.until = _NEVER
    state.lease_over_term = state.promise.term
    if state.dispatch_from < _ALWAYS:
        bring_forward(state)
