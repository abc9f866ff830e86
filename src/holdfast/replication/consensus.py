"""
Consensus among the members: one event at a time, handed to the present role.

Pure: messages, ticks and "stored" come in; messages to send, write jobs (in `state.log.jobs`), a
ballot to keep and a commit index come out. No disk, no network, no clock, no chance of its own, so
the same events in the same state always give the same result and whole clusters can be simulated.

Invariants:
    What leaves in `state.outbox` claims durability only of what was durable when it was made; a
    message of a term, or a vote, must wait until the ballot that names it is durable (driver).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from holdfast.errors import MembershipError
from holdfast.journal.filling import utc
from holdfast.replication import (
    candidate,
    follower,
    leader,
    lease,
    reconfiguration,
    transfer,
    voting,
)
from holdfast.replication.log import EntryLog
from holdfast.replication.membership import survivor_only
from holdfast.replication.messages import (
    AppendRequest,
    AppendResponse,
    Hello,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    ResetRequest,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)
from holdfast.replication.progress import Progress
from holdfast.replication.state import Role, State

_STEPS: dict[type, Callable[..., None]] = {
    AppendRequest: follower.on_append,
    AppendResponse: leader.on_append_response,
    ResetRequest: follower.on_reset,
    PreVoteRequest: voting.on_pre_vote_request,
    PreVoteResponse: candidate.on_pre_vote_response,
    VoteRequest: voting.on_vote_request,
    VoteResponse: candidate.on_vote_response,
    TransferRequest: candidate.on_transfer_request,
}

TERMS_SKIPPED: Final = 1000
"""Elections that may have been held behind the end of a copy that goes on alone."""


def start(state: State) -> None:
    """Begin to take part: alone, lead at once; with others, wait a moment for a leader."""
    state.await_leader()
    if state.voter_names == [state.name]:
        state.election_deadline = state.now
        return
    settings = state.settings
    pause = state.randomness.uniform(settings.start_seconds_min, settings.start_seconds_max)
    if state.is_witness:
        pause += settings.witness_stagger_seconds
    state.election_deadline = state.now + pause


def receive(state: State, peer: str, message: Message) -> None:
    """Take one message from a peer; an unknown one is our own mistake."""
    if state.fenced_reason:
        return
    if not state.cluster_id and not _adopt_cluster(state, peer, message):
        return
    _STEPS[type(message)](state, peer, message)


def tick(state: State) -> None:
    """Do what is due at `state.now`: stand, step down, hand over, change members."""
    if state.role is Role.LEADER:
        leader.check_quorum(state)
        if state.role is Role.LEADER:
            transfer.advance(state)
            reconfiguration.maintain(state)
    elif state.now >= state.election_deadline:
        candidate.stand(state)


def flush(state: State) -> None:
    """At the end of a turn: send entries and heartbeats, or the reply; commit what is stored."""
    if state.role is Role.LEADER:
        leader.advance_commit(state)
        # A hand-over may have become possible by what arrived in this turn.
        transfer.advance(state)
        leader.replicate(state)
    else:
        follower.reply(state)


def link_up(state: State, peer: str, hello: Hello) -> None:
    """A link to `peer` was made, or the node at its end changed what it says of itself."""
    lease.met(state, peer, hello)
    state.connected[peer] = hello
    progress = state.progress.get(peer)
    if progress is not None:
        # What a process said before it was restarted is asked again: a log that was being begun
        # anew when its node died is empty now.
        fresh = Progress(state.log.last_index + 1)
        fresh.contact_at = progress.contact_at
        state.progress[peer] = fresh
        leader.count_lease(state)


def hello_changed(state: State, peer: str, hello: Hello) -> None:
    """The node at the end of the link belongs to a cluster now, or ends, or the like."""
    lease.met(state, peer, hello)
    state.connected[peer] = hello


def moving(state: State, peer: str) -> None:
    """
    A part of a large message went to `peer` or came from it, and nothing whole for a while.

    So neither takes the other for silent. A lease does not grow by it: only an answer proves what a
    peer has promised.
    """
    progress = state.progress.get(peer)
    if progress is not None and state.role is Role.LEADER:
        progress.moved_at = state.now
    elif peer == state.leader and state.role is Role.FOLLOWER:
        follower.heard(state)


def link_down(state: State, peer: str, *, closed: bool) -> None:
    """
    The link to `peer` is gone.

    `closed`: the other side's system closed or reset it, so its process is probably dead. If it
    led, we stand at once instead of waiting for its silence.
    """
    state.connected.pop(peer, None)
    progress = state.progress.get(peer)
    if progress is not None:
        progress.probe(progress.match_index + 1)
    if state.role is Role.LEADER:
        leader.count_lease(state)
    elif closed and peer == state.leader:
        follower.on_leader_link_closed(state)


def deadline(state: State) -> float:
    """When `tick` and `flush` must be called at the latest."""
    if state.role is not Role.LEADER:
        return state.election_deadline
    period = state.settings.heartbeat_seconds
    due = state.now + period
    for peer, progress in state.progress.items():
        if progress.sent_at + period < due and state.is_counted(peer):
            due = progress.sent_at + period
    return max(due, state.now + 0.001)


def promote_force(state: State, *, is_incomplete_accepted: bool = False) -> None:
    """
    Make this node the only voter of a new generation; every other member is shut out.

    For an operator who knows that the others are lost: what only they had confirmed is lost too.

    Raises:
        MembershipError: This node is no data node, has a damaged log, or leads already; or its log
            was begun anew and is not full, and that is not accepted.
    """
    lack = incompleteness(state.log.journal)
    if lack and not is_incomplete_accepted:
        raise MembershipError(lack)
    if state.membership is None or state.own is None:
        raise MembershipError("this node belongs to no cluster yet; there is nothing to take over")
    if state.is_witness:
        raise MembershipError("a witness keeps no service to take over; promote a data node")
    if state.log.damaged:
        raise MembershipError(
            f"entry {min(state.log.damaged)} of this log is damaged; promote a node that is whole"
        )
    if state.role is Role.LEADER:
        raise MembershipError("this node leads already; remove the lost member instead")
    state.log.forget_unknown()
    state.fenced_reason = ""
    generation = state.generation + 1
    members = survivor_only(state.membership, state.name)
    forced = state.membership.changed(members, state.config_index)
    before = state.membership.generation
    state.forced = replace(forced, generation=generation, previous_generation=before)
    # It rules before it is written: the node needs only its own vote to write it.
    state.adopt(state.forced, state.config_index)
    # Elections were held that this copy knows nothing of: clients take a lower term than one they
    # have seen for a deposed leader's, and ids of non-persistent messages name the term.
    state.enter_term(state.term + TERMS_SKIPPED)
    candidate.start_election(state, is_transfer=False)


def incompleteness(journal: EntryLog) -> str:
    """
    Say what a log that was begun anew lacks and what else there is; empty if it is full.

    Its older messages were written again further on; where the log ends before that, they are lost
    with it although they were confirmed long ago.
    """
    filling = journal.filling
    if filling is None or filling.is_reached(journal.last_index):
        return ""
    missing = filling.missing_records(journal.next_record_number)
    said = (
        f"this log was begun anew at entry {filling.base_index:,} and ends with"
        f" {journal.last_index:,} of {filling.target.index:,}: up to {missing:,} messages and"
        f" acknowledgements of the time before {utc(filling.target.timestamp)} are missing, old"
        f" messages among them"
    )
    kept = filling.kept
    if kept is None:
        return f"{said}; accept that as incomplete, or restore from the archive"
    since = max(filling.target.record - kept.record, 0)
    return (
        f"{said}; the log before it is kept and holds everything to {utc(kept.timestamp)}, and"
        f" lacks {since:,} that came after: stop this node, take it back with 'holdfast store"
        f" take-back', and promote again; or accept the new one as incomplete"
    )


def _adopt_cluster(state: State, peer: str, message: Message) -> bool:
    """A fresh node belongs to the cluster of the first leader that sends it entries."""
    hello = state.connected.get(peer)
    if not isinstance(message, AppendRequest | ResetRequest) or not hello or not hello.cluster_id:
        return False
    state.cluster_id = hello.cluster_id
    state.generation = hello.generation
    return True
