"""
The leader: append, replicate, count copies, commit, and prove that it still leads.

Invariants:
    Only entries of the leader's own term are committed by counting; older ones follow with them.
    The leader counts itself only for what is durable on its own disk.
    The lease is counted from when the answered requests were sent, and ends before any voter that
    answered would help to elect another.
    A witness that leads takes no proposals and hands over as soon as a data node has the whole log.
"""

from __future__ import annotations

import logging

from holdfast.errors import CorruptEntryError, NotLeaderError
from holdfast.journal.entry import KIND_CONFIG, KIND_NOOP, KIND_RECORDS, Entry
from holdfast.journal.entry_body import EntryBody, seal_body
from holdfast.replication import last_voter, lease, unknown_ends
from holdfast.replication.beginning import Beginning
from holdfast.replication.follower import become_follower
from holdfast.replication.membership import Membership, encode_membership
from holdfast.replication.messages import (
    NO_CHAIN,
    AppendRequest,
    AppendResponse,
    ResetRequest,
)
from holdfast.replication.progress import Pace, Progress
from holdfast.replication.quorum import committable_index, majority, reached_by
from holdfast.replication.state import ALWAYS, NEVER, Role, State

logger = logging.getLogger("holdfast.replication")


def become_leader(state: State) -> None:
    """Lead the present term; its first entry, a NOOP, settles what earlier terms left open."""
    assert state.role is Role.CANDIDATE, state.role
    state.role = Role.LEADER
    state.leader = state.name
    state.leader_since = state.look_at = state.now
    state.hole_since = ALWAYS
    state.beginning = Beginning()
    state.leader_contact_at = state.heard_at = state.now
    state.is_leader_link_closed = False
    state.quick_rounds = 0
    state.election_deadline = ALWAYS
    state.progress.clear()
    sync_progress(state)
    state.log.give_up_end()
    state.term_start = append(state, KIND_NOOP, [], 0, 0).index
    if state.sure_index < 0:
        state.sure_index = state.term_start  # Whoever is elected has all that is committed.
    if state.forced is not None:
        append_config(state, state.forced)
        state.forced = state.unforced = None
    count_lease(state)
    lease.begin(state)


def sync_progress(state: State) -> None:
    """Watch exactly the present peers; called when the members change."""
    last = state.log.last_index
    state.progress = {peer: state.progress.get(peer) or Progress(last + 1) for peer in state.peers}


def propose(
    state: State, parts: list[bytes] | EntryBody, record_count: int, wall_microseconds: int
) -> Entry:
    """
    Append a batch of records; it is committed when `commit_index` has reached its index.

    Raises:
        NotLeaderError: This node does not lead, only leads to hand over, or is handing over now.
    """
    if state.role is not Role.LEADER:
        raise NotLeaderError(state.leader)
    if state.transfer is not None or state.is_witness:
        raise NotLeaderError(state.transfer.target if state.transfer else None)
    return append(state, KIND_RECORDS, parts, record_count, wall_microseconds)


def append(
    state: State,
    kind: int,
    parts: list[bytes] | EntryBody,
    record_count: int,
    wall_microseconds: int,
) -> Entry:
    """Put one entry of the present term at the end of the log."""
    log = state.log
    journal = log.journal
    entry = seal_body(
        parts,
        index=journal.last_index + 1,
        term=state.term,
        kind=kind,
        timestamp=max(journal.last_timestamp + 1, wall_microseconds),
        first_record=journal.next_record_number,
        record_count=record_count,
        previous_chain=journal.last_chain,
    )
    log.append([entry])
    size = len(entry.raw)
    state.uncommitted.append((entry.index, size))
    state.uncommitted_bytes += size
    state.bytes_since_config += size
    return entry


def append_config(state: State, membership: Membership) -> Entry:
    """Write the members; they rule from now on, committed or not."""
    entry = append(state, KIND_CONFIG, [encode_membership(membership)], 0, 0)
    state.adopt(membership, entry.index)
    sync_progress(state)
    count_lease(state)
    return entry


def on_append_response(state: State, peer: str, message: AppendResponse) -> None:
    """A peer tells how far it is; commit what is now held widely enough."""
    if message.term > state.term:
        become_follower(state, message.term, None)
        return
    progress = state.progress.get(peer)
    is_ours = state.role is Role.LEADER and message.term == state.term
    if progress is None or not is_ours or not state.is_counted(peer):
        return
    if state.now < state.dispatch_from:
        lease.stepped_down(state, peer)
    # What was sent in the future is by another machine's clock: it proves no contact.
    if state.now >= message.sent_at > progress.contact_at:
        progress.contact_at = message.sent_at
        count_lease(state)
    if message.rejected:
        _on_rejection(state, progress, message)
        return
    match = message.match_index
    if match > state.log.last_index:
        return  # Nobody holds what was never written: it proves nothing of what was.
    if progress.pace is Pace.RESETTING and match < progress.next_index - 1:
        return
    if not _is_same_log(state, match, message.match_chain):
        progress.probe(match + 1)
        return
    if progress.matched(match):
        advance_commit(state)


def _on_rejection(state: State, progress: Progress, message: AppendResponse) -> None:
    if progress.pace is Pace.REPLICATING and message.hint_index < progress.match_index:
        # An old answer: what it says was overtaken by a match.
        return
    if progress.is_waiting and message.sent_at < progress.probed_at:
        # An answer to what was sent before the question that is under way.
        return
    log = state.log
    hint = log.last_index_through_term(message.hint_index, message.hint_term)
    if progress.pace is Pace.PROBING and hint + 1 >= progress.next_index > 1:
        hint = max(progress.next_index - 2, 0)
    progress.probe(hint + 1)


def _is_same_log(state: State, index: int, chain: bytes) -> bool:
    if chain == NO_CHAIN or state.log.term_at(index) < 0:
        return True
    return state.log.chain_at(index) in {chain, NO_CHAIN}


def advance_commit(state: State) -> None:
    """Commit as far as a majority, enough copies and enough sites hold durably."""
    if state.commit_index >= state.log.journal.last_index:
        return
    index = committable(state)
    if index <= state.commit_index or index < state.term_start:
        return  # What an earlier term left open is not committed by counting.
    membership = state.membership
    begins_anew = membership is not None and membership.previous_generation is not None
    if begins_anew and index < state.config_index:
        # Who goes on by force alone commits nothing before that itself is durable: the members of
        # before, whom a crash would give back, might commit something else there.
        return
    state.commit_index = index
    uncommitted = state.uncommitted
    while uncommitted and uncommitted[0][0] <= index:
        state.uncommitted_bytes -= uncommitted.popleft()[1]


def committable(state: State) -> int:
    """The index that the commit rule allows, whatever its term."""
    members = state.members
    progress = state.progress
    own = state.name
    if state.voter_names == [own]:
        return state.log.journal.stored_index
    matches = [
        (
            members[name].site,
            state.log.journal.stored_index if name == own else progress[name].match_index,
            members[name].kind == "voter",
        )
        for name in state.voter_names
    ]
    return committable_index(matches, state.copies, state.settings.sites)


def data_match(state: State) -> int:
    """
    Through where a witness need not keep the log.

    What all data voters hold, and who is to become one; and what this leader has cleaned away:
    nothing lives there, so whoever lacks it begins its log anew, from a witness if need be, whose
    log tells that it was cleaned (beginning.py).
    """
    assert state.membership is not None
    cleaned = 0 if state.is_witness else state.log.journal.first_index
    names = [
        member.name
        for member in state.membership.members
        if "voter" in {member.kind, member.promote_to} and member.kind != "fenced"
    ]
    if len(state.membership.data_members) < 2:
        return cleaned
    stored = state.log.acknowledgeable_index
    held = min(stored if name == state.name else state.progress[name].match_index for name in names)
    return max(held, cleaned)


def cramped_witness(state: State) -> str:
    """
    The witness whose disk is almost full and without which nothing could be committed; or empty.

    Where it is not needed it is its operator's business; where it is, its log must not grow.
    """
    if not any(hello.space_low for hello in state.connected.values()):
        return ""
    oldest = state.now - state.settings.election_seconds_min
    others = 0
    cramped = ""
    for name in state.voter_names:
        hello = state.connected.get(name)
        if hello is not None and hello.space_low and state.members[name].kind == "witness":
            cramped = name
        elif name == state.name or state.progress[name].contact_at > oldest:
            others += 1
    return cramped if others < majority(len(state.voter_names)) else ""


def learner_matches(state: State) -> dict[str, int]:
    """Through which entry each learner is known to hold the log."""
    return {
        peer: progress.match_index
        for peer, progress in state.progress.items()
        if state.members[peer].kind == "learner"
    }


def quorum_contact(state: State, *, linked_only: bool) -> float:
    """
    When the requests were sent that a majority has answered since; infinity if alone.

    With `linked_only` that is a proof, by which a lease is counted. Without it slowness is told
    from silence: a large message that is still moving counts as an answer, and for what is under
    way beyond the window, a large entry, a peer has the time that it may need.
    """
    names = state.voter_names
    if not names:
        return NEVER
    contacts = []
    for name in names:
        if name == state.name:
            contacts.append(ALWAYS)
        elif linked_only and name not in state.connected:
            contacts.append(NEVER)
        elif linked_only:
            contacts.append(state.progress[name].contact_at)
        else:
            progress = state.progress[name]
            excess = max(0, progress.under_way_bytes - state.settings.window_bytes)
            needed = excess / state.settings.peer_bytes_per_second_min
            contacts.append(max(progress.contact_at, progress.moved_at) + needed)
    return reached_by(contacts, majority(len(names)))


def count_lease(state: State) -> None:
    """Set how long this leader may dispatch without hearing more."""
    contact = quorum_contact(state, linked_only=True)
    state.lease_until = contact + state.lease_seconds


def check_quorum(state: State) -> None:
    """Step down when no majority has answered for the shortest election timeout."""
    contact = max(quorum_contact(state, linked_only=False), state.leader_since)
    if state.now - contact >= state.settings.election_seconds_min:
        logger.warning(
            "term %d: %s leads no more: no majority has answered for %.1f s",
            state.term,
            state.name,
            state.now - contact,
        )
        become_follower(state, state.term, None)


def check_whole(state: State) -> None:
    """
    Step down over a damaged entry that is not committed and that nobody has mended in time.

    Perhaps nobody else has it, and nothing behind it can be sent to anybody. Others can lead.
    """
    log = state.log
    is_alone = last_voter.is_only_voter(state)
    if is_alone and log.damaged:
        unknown_ends.tell(state)
    if not (log.damaged and not is_alone and log.damaged.last > state.commit_index):
        state.hole_since = ALWAYS
        return
    state.hole_since = min(state.hole_since, state.now)
    if state.now - state.hole_since >= state.settings.election_seconds_max:
        become_follower(state, state.term, None)


def replicate(state: State) -> None:
    """Send every peer what it lacks within its window, or a heartbeat when one is due."""
    state.requests.clear()
    for peer, progress in state.progress.items():
        if peer in state.connected and state.is_counted(peer):
            _replicate_to(state, peer, progress)


def _replicate_to(state: State, peer: str, progress: Progress) -> None:
    is_due = state.now >= progress.sent_at + state.settings.heartbeat_seconds
    if progress.is_waiting and not is_due:
        return
    first = state.log.journal.first_index
    if progress.next_index <= first and state.log.base is None:
        if is_due:
            # Our oldest segment's header is lost: nothing can be said of what stood before it.
            state.log.tell_lost_base(peer)
            _send(state, peer, progress, _request(state, first + 1, has_entries=False))
    elif progress.next_index < first:
        if may_begin_here(state, peer):
            send_reset(state, peer, progress)
        elif is_due:
            # It waits for a data node that has what it lacks, and for us to hand over to that one.
            _send(state, peer, progress, _request(state, first, has_entries=False))
    elif progress.pace is Pace.REPLICATING:
        if not _stream(state, peer, progress) and is_due:
            _send(state, peer, progress, _request(state, progress.next_index, has_entries=False))
    else:
        _probe(state, peer, progress)


def _probe(state: State, peer: str, progress: Progress) -> None:
    # Entries go once: on a link that is slow they would be sent faster than it takes them away. If
    # they are lost, the answer to a heartbeat tells.
    is_first = not progress.is_waiting
    if is_first:
        progress.is_waiting = True
        progress.probed_at = state.now
    request = _request(state, progress.next_index, has_entries=is_first)
    size = sum([len(entry.raw) for entry in request.entries])
    if size > state.settings.append_bytes_max:
        # A large entry goes once it is known that it fits, and not again with each heartbeat.
        request = _request(state, progress.next_index, has_entries=False)
    _send(state, peer, progress, request)


def _stream(state: State, peer: str, progress: Progress) -> bool:
    """Send entries until the window or this turn's share is used up; tell whether any went."""
    settings = state.settings
    last = state.log.last_index
    budget = settings.catch_up_bytes_max
    is_sent = False
    while (
        progress.next_index <= last
        and budget > 0
        and progress.under_way_bytes < settings.window_bytes
        and len(progress.under_way) < settings.window_requests
    ):
        request = _request(state, progress.next_index, has_entries=True)
        if not request.entries:
            break
        _send(state, peer, progress, request)
        overhead = settings.entry_overhead_bytes * len(request.entries)
        size = sum([len(entry.raw) for entry in request.entries]) + overhead
        progress.sent(request.entries[-1].index, size)
        budget -= size
        is_sent = True
    return is_sent


def _send(state: State, peer: str, progress: Progress, request: AppendRequest) -> None:
    progress.sent_at = state.now
    state.outbox.append((peer, request))


def _request(state: State, next_index: int, *, has_entries: bool) -> AppendRequest:
    """The append request from `next_index` on, shared by all peers that are there this turn."""
    key = next_index if has_entries else -next_index
    request = state.requests.get(key)
    if request is None:
        log = state.log
        before = next_index - 1
        request = state.requests[key] = AppendRequest(
            state.term,
            before,
            log.term_at(before),
            log.chain_at(before),
            state.commit_index,
            data_match(state),
            state.now,
            _entries(state, next_index) if has_entries else [],
        )
    return request


def _entries(state: State, next_index: int) -> list[Entry]:
    log = state.log
    if next_index > log.last_index:
        return []
    try:
        settings = state.settings
        return log.journal.entries(
            next_index, settings.append_bytes_max, settings.entry_overhead_bytes
        )
    except CorruptEntryError as error:
        # Ours is damaged: a follower's copy will mend it, then this peer gets it too.
        log.damaged.add(error.index or next_index)
        return []


def may_begin_here(state: State, peer: str) -> bool:
    """Whether a peer that lacks what stood before our first kept entry may do without it."""
    if not state.is_witness:
        return True  # A node with data drops only what was cleaned: nothing lives there.
    # A learner is left to the data node that follows.
    journal = state.log.journal
    return state.members[peer].kind == "voter" and state.beginning.is_whole(
        journal, state.commit_index
    )


def send_reset(state: State, peer: str, progress: Progress) -> None:
    """
    Tell a peer that may, to begin its log at our first kept entry.

    Not where the header that says what stood before it is lost: another leader can, or this one
    once that segment is cleaned.
    """
    journal = state.log.journal
    base = journal.first_index
    known = state.log.base
    if known is None:
        return
    term, chain, record = known
    progress.reset(base)
    progress.sent_at = state.now
    end = (journal.last_index, journal.next_record_number, journal.last_timestamp)
    state.send(peer, ResetRequest(state.term, base, term, chain, record, state.now, *end))
