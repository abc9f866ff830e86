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

from holdfast.replication import (
    candidate,
    follower,
    leader,
    lease,
    promotion,
    reconfiguration,
    transfer,
    voting,
)
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
from holdfast.replication.state import NEVER, Role, State

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
        if state.now >= state.look_at and not _is_to_lead_on(state):
            return
        if state.transfer is not None or state.is_witness:
            transfer.advance(state)
        return
    if state.awaited:
        promotion.advance(state)
    if state.now >= state.election_deadline:
        candidate.stand(state)


def _is_to_lead_on(state: State) -> bool:
    """Look whether a quorum answers and the members must change; false if this is no leader now."""
    # By time and not by turn: a busy leader turns thousands of times a second.
    state.look_at = state.now + state.settings.look_seconds
    for look in (leader.check_quorum, leader.check_whole):
        look(state)
        if state.role is not Role.LEADER:
            return False
    reconfiguration.maintain(state)
    return True


def flush(state: State) -> None:
    """At the end of a turn: send entries and heartbeats, or the reply; commit what is stored."""
    if state.role is Role.LEADER:
        leader.advance_commit(state)
        # A hand-over may have become possible by what arrived in this turn.
        if state.transfer is not None or state.is_witness:
            transfer.advance(state)
        if state.progress or state.requests:
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


def moving(state: State, peer: str, *, has_entries: bool) -> None:
    """
    A part of a large message went to `peer` or came from it, and nothing whole for a while.

    So neither takes the other for silent. A lease does not grow by it: only an answer proves what a
    peer has promised. And only entries that come prove that it still leads: who led before, and was
    restarted or stepped down, may ask for copies of what its disk has lost.
    """
    progress = state.progress.get(peer)
    if progress is not None and state.role is Role.LEADER:
        progress.moved_at = state.now
    elif has_entries and peer == state.leader and state.role is Role.FOLLOWER:
        follower.heard(state)


def link_down(state: State, peer: str, *, closed: bool) -> None:
    """
    The link to `peer` is gone.

    `closed`: the other side's system closed or reset it, so its process is probably dead. If it
    led, we stand at once instead of waiting for its silence.
    """
    state.connected.pop(peer, None)
    progress = state.progress.get(peer)
    # A link that was given up had been silent for a while: a leader knows since when.
    is_silent = not closed and progress is not None and progress.contact_at > NEVER
    state.last_seen[peer] = progress.contact_at if progress and is_silent else state.now
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


def _adopt_cluster(state: State, peer: str, message: Message) -> bool:
    """
    A fresh node belongs to the cluster of the first leader that sends it entries.

    But not to a generation of which it has heard that a later one rules: what was said to it while
    it had no cluster is judged now.
    """
    hello = state.connected.get(peer)
    if not isinstance(message, AppendRequest | ResetRequest) or not hello or not hello.cluster_id:
        return False
    if any(_is_before(hello, other) for other in state.connected.values()):
        return False
    state.cluster_id = hello.cluster_id
    state.generation = hello.generation
    state.told_lineage = hello.lineage
    return True


def _is_before(hello: Hello, other: Hello) -> bool:
    """Whether the one is of a generation in whose place that of the other has come."""
    rank, later = (hello.generation, hello.lineage), (other.generation, other.lineage)
    return other.begun and other.cluster_id == hello.cluster_id and rank < later
