"""
The follower: take the leader's entries, say how far they are durable, wait for its silence.

A reply is not made where a request is read but once per turn, from what is durable then: so no
reply can claim more than the disk holds, and many requests are answered at once.

Invariants:
    A reply's match index is at most what is durable here AND known to equal the leader's log.
    Nothing at or below the commit index is ever cut.
    An old or doubled append request never shortens a log that matches.
    Two entries of the same index and term are the same, or this node halts.
    A reply carries back only what this very leader's clock said: another machine's clock may be
    days ahead, and a leader that believed it would think itself answered for ever.
"""

from __future__ import annotations

from holdfast.errors import CorruptEntryError, LogDivergedError
from holdfast.journal.entry import Entry, verify_chain
from holdfast.journal.filling import Target
from holdfast.replication import lease
from holdfast.replication.messages import (
    NO_CHAIN,
    AppendRequest,
    AppendResponse,
    ResetRequest,
)
from holdfast.replication.state import ALWAYS, NEVER, Role, State


def become_follower(state: State, term: int, leader: str | None) -> None:
    """Follow `leader` in `term`, or nobody yet; whatever this node was before is over."""
    if state.role is Role.LEADER:
        state.lease_over_term = state.term
    if term > state.term:
        state.enter_term(term)
    state.role = Role.FOLLOWER
    state.leader = leader
    state.leader_sent_at = NEVER
    state.leader_offset = ALWAYS
    state.votes.clear()
    state.progress.clear()
    state.requests.clear()
    state.transfer = None
    state.lease_until = NEVER
    state.dispatch_from = ALWAYS
    state.uncommitted.clear()
    state.uncommitted_bytes = 0
    if leader is None:
        state.leader_contact_at = NEVER
    state.await_leader()


def on_append(state: State, peer: str, message: AppendRequest) -> None:
    """Take entries or a heartbeat from this term's leader; refuse those of an older term."""
    if not _heed_leader(state, peer, message):
        return
    state.data_match = message.data_match
    state.told_commit_index = max(state.told_commit_index, message.commit_index)
    if not _agrees(state, peer, message):
        return
    entries = message.entries
    if entries:
        try:
            _take_entries(state, message)
        except CorruptEntryError as error:
            # The log cannot be cut behind an entry whose header is lost. That one is mended first;
            # the leader learns how far we are and sends these again.
            state.log.damaged.add(error.index or message.previous_index)
            state.is_reply_due = True
            return
    else:
        state.is_reply_due = True
    through = _certain_through(state, message)
    if through > state.matched_index:
        state.matched_index = through
    commit = min(message.commit_index, through)
    if commit > state.commit_index:
        state.commit_index = commit
    if state.sure_index < 0:
        _note_sure(state, message)


def _note_sure(state: State, message: AppendRequest) -> None:
    """
    Note how far the log was committed when this process heard of it first.

    A leader knows that once an entry of its own term is committed: before, it may know of less than
    an earlier one has confirmed. So one of its term must stand where it says that it is.
    """
    index = message.commit_index
    if index <= state.matched_index and state.log.term_at(index) == message.term:
        state.sure_index = index


def _certain_through(state: State, message: AppendRequest) -> int:
    """Through which entry this message proves that our log is the leader's; 0 if it proves none."""
    log = state.log
    through = message.previous_index + len(message.entries)
    if not log.damaged:
        return through
    while through >= message.previous_index and through > state.commit_index:
        if not log.is_guessed(through):
            return through
        through -= 1
    return through if through >= message.previous_index else 0


def on_reset(state: State, peer: str, message: ResetRequest) -> None:
    """Begin the log anew at the leader's first kept entry, unless ours reaches it already."""
    if not _heed_leader(state, peer, message):
        return
    before = message.base_index - 1
    log = state.log
    state.is_reply_due = True
    if log.may_have(before, message.previous_term, message.previous_chain):
        _require_chain(state, before, message.previous_chain)
        if log.damaged and log.damaged.first <= before:
            log.give_up_before(message.base_index)
        state.matched_index = max(state.matched_index, before)
        return
    if state.commit_index >= before:
        # We are not behind: the leader guessed from a stale answer. What is committed agrees.
        _reject(state, peer, message.sent_at, state.commit_index, log.term_at(state.commit_index))
        return
    # A change that was thrown away with the log may never have been committed: the one before it
    # counts until the leader's own comes, which stands behind the base.
    state.forget_unsettled_change()
    target = Target(
        index=message.target_index,
        record=message.target_record,
        timestamp=message.target_timestamp,
    )
    log.begin_anew(
        message.base_index,
        message.previous_term,
        message.previous_chain,
        message.base_record,
        target,
        is_of_voter=state.is_voter,
    )
    state.commit_index = state.matched_index = before
    state.sure_index = -1
    state.match_sent = 0


def reply(state: State) -> None:
    """Tell the leader how far the log is durable, if that is news or it asked; once per turn."""
    leader = state.leader
    if leader is None or state.role is not Role.FOLLOWER:
        return
    if not state.is_reply_due and durable_match(state) <= state.match_sent:
        return
    match, chain = _claim(state)
    state.send(leader, AppendResponse(state.term, match, chain, state.leader_sent_at))
    state.match_sent = match
    state.is_reply_due = False


def _claim(state: State) -> tuple[int, bytes]:
    """How far this node claims the log, and the chain there; what proves to be rot is left out."""
    log = state.log
    while True:
        match = durable_match(state)
        chain = log.chain_at(match) if log.term_at(match) >= 0 else NO_CHAIN
        if match == durable_match(state):  # Reading it may have shown that it is damaged.
            return match, chain


def durable_match(state: State) -> int:
    """How far the log both equals the leader's and is durable without a hole."""
    return min(state.matched_index, state.log.acknowledgeable_index)


def on_leader_link_closed(state: State) -> None:
    """The leader's process ended, or looks like it: stand soon, without waiting for silence."""
    state.is_leader_link_closed = True
    state.quick_rounds = QUICK_ROUNDS_MAX
    settings = state.settings
    stagger = state.randomness.uniform(0.0, settings.stagger_seconds_max)
    if state.is_witness:
        stagger += settings.witness_stagger_seconds
    state.election_deadline = min(state.election_deadline, state.now + stagger)


_DRIFT_MAX = 0.001
"""The clocks of two machines go apart by less than this share of the time."""
QUICK_ROUNDS_MAX = 20
"""Quick elections after a closed link; then the ordinary timeout rules again."""


def _heed_leader(state: State, peer: str, message: AppendRequest | ResetRequest) -> bool:
    """Tell whether the message is from a leader of our term or a newer one; note the contact."""
    if message.term < state.term:
        # A deposed leader learns the term from this and steps down.
        _reject(state, peer, message.sent_at, 0, 0)
        return False
    if message.term > state.term or state.role is not Role.FOLLOWER:
        if state.role is Role.LEADER and message.term == state.term:
            raise LogDivergedError(
                f"{peer} claims to lead term {state.term}, which {state.name} leads;"
                f" the ballot of one of them was lost or copied"
            )
        become_follower(state, message.term, peer)
    if state.leader != peer:
        state.leader = peer
        state.leader_sent_at = NEVER
        state.leader_offset = ALWAYS
    _note_sent(state, message.sent_at)
    heard(state)
    lease.promise(state, peer)
    state.leader_sent_at = max(state.leader_sent_at, message.sent_at)
    return True


def heard(state: State) -> None:
    """The leader lives: wait for it."""
    state.leader_contact_at = state.now
    state.is_leader_link_closed = False
    state.election_deadline = state.now + state.election_timeout


def _note_sent(state: State, sent_at: float) -> None:
    """
    Note when this was said, by our clock: what waited while this node slept is no news.

    The message that was on its way for the shortest time tells how far the two clocks are apart.
    """
    drift = max(state.now - state.leader_contact_at, 0.0) * _DRIFT_MAX
    offset = min(state.leader_offset + drift, state.now - sent_at)
    state.leader_offset = offset
    state.heard_at = max(state.heard_at, sent_at + offset)


def _reject(state: State, peer: str, sent_at: float, index: int, term: int) -> None:
    state.send(
        peer,
        AppendResponse(
            state.term,
            0,
            NO_CHAIN,
            sent_at,
            rejected=True,
            hint_index=index,
            hint_term=max(term, 0),
        ),
    )


def _agrees(state: State, peer: str, message: AppendRequest) -> bool:
    """Tell whether our log has what the entries follow; if not, say where to look next."""
    log = state.log
    index = message.previous_index
    if log.may_have(index, message.previous_term, message.previous_chain):
        _require_chain(state, index, message.previous_chain)
        return True
    if index <= state.commit_index:
        if log.term_at(index) < 0 or log.is_guessed(index):
            return True  # Committed and reclaimed, or unreadable, here: it can only have agreed.
        raise _diverged(state, index, message.previous_term)
    hint = log.last_index_through_term(index - 1, message.previous_term)
    _reject(state, peer, message.sent_at, hint, log.term_at(hint))
    return False


def _take_entries(state: State, message: AppendRequest) -> None:
    entries = message.entries
    log = state.log
    if message.previous_index != log.last_index:
        entries = _not_held(state, entries)
        if not entries:
            state.is_reply_due = True
            return
    before = entries[0].index - 1
    chain = log.chain_at(before)
    is_known = chain != NO_CHAIN or before == 0
    for entry in entries:
        if is_known and not verify_chain(entry, chain):
            raise LogDivergedError(
                f"entry {entry.index} from {state.leader} does not continue the chain of our log;"
                f" one of the two logs is not what was written"
            )
        chain = entry.chain
        is_known = True
        state.bytes_since_config += len(entry.raw)
    log.append(entries)
    state.adopt_from(entries)


def _not_held(state: State, entries: list[Entry]) -> list[Entry]:
    """The entries from the first that is not in our log; what conflicts with it is cut."""
    log = state.log
    last = log.last_index
    for position, entry in enumerate(entries):
        index = entry.index
        if index > last:
            return entries[position:]
        if log.may_have(index, entry.term, entry.chain):
            _require_chain(state, index, entry.chain)
        elif index <= state.commit_index:
            if log.term_at(index) >= 0 and not log.is_guessed(index):
                raise _diverged(state, index, entry.term)
        else:
            state.cut_log_after(index - 1)
            return entries[position:]
    return []


def _require_chain(state: State, index: int, chain: bytes) -> None:
    if chain == NO_CHAIN:
        return  # Nothing to compare: the log's beginning, or a damaged header at the leader.
    held = state.log.chain_at(index)
    if held not in {chain, NO_CHAIN}:
        raise LogDivergedError(
            f"entry {index} of term {state.log.term_at(index)} is not the same here and on"
            f" {state.leader}: the chains differ; compare the two stores, keep the right one and"
            f" start the other with an empty directory"
        )


def _diverged(state: State, index: int, term: int) -> LogDivergedError:
    return LogDivergedError(
        f"entry {index} is committed here with term {state.log.term_at(index)},"
        f" but {state.leader} has it with term {term}"
    )
