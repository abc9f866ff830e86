"""
The leader changes the members: one change at a time, each effective when it is appended.

Some changes the leader makes by itself: a known name that comes back under a new node identity is
taken in as a learner, a learner on its way to voter is promoted when it has caught up, and the
members are written again from time to time so that the segment that tells them may be reclaimed.

Invariants:
    No change before an entry of the leader's own term is committed, and none before the last
    change is.
    No change that would leave the voters in contact without a majority.
    Nobody becomes a voter who lacks what this leader cannot read, nor who does not keep up where
        more are needed then.
"""

from __future__ import annotations

from holdfast.errors import MembershipError, NotLeaderError
from holdfast.journal.entry import Entry
from holdfast.replication import membership as changes
from holdfast.replication.leader import append_config
from holdfast.replication.membership import Member, Membership
from holdfast.replication.promotion import is_beginning_of_ours
from holdfast.replication.quorum import majority
from holdfast.replication.state import Role, State


def add_member(state: State, member: Member) -> Entry:
    """Take in a member as a learner; it becomes what its kind says once it has caught up."""
    return _change(state, changes.with_added(_present(state), member))


def remove_member(state: State, name: str) -> Entry:
    """Take a member out; its identity never counts again."""
    return _change(state, changes.with_removed(_present(state), name, state.name))


def promote(state: State, name: str) -> Entry:
    """Make a learner a voter, if it has nearly all of the log."""
    members = changes.with_promoted(_present(state), name)
    missing = missing_entries(state, name)
    if _has_witness(state) and not _has_what_a_witness_lacks(state, name):
        raise MembershipError(f"{name} still lacks what is committed; try again")
    hole = hole_before(state, name)
    if hole:
        raise MembershipError(
            f"{name} cannot get entry {hole:,}, which is damaged here: it is asked from the other"
            f" members; restore the segment's file if none of them has it"
        )
    if lags(state, name):
        raise MembershipError(
            f"{name} still lacks {missing:,} entries; wait until it has caught up"
        )
    return _change(state, members)


def repropose(state: State) -> Entry:
    """
    Write the present members again, near the log's end.

    That changes nobody, so it may be done whoever answers: whether it is due says the log's length.
    """
    present = _changeable(state)
    return append_config(state, present.changed(present.members, state.config_index))


def missing_entries(state: State, name: str) -> int:
    """How many entries a peer is not known to hold durably."""
    progress = state.progress.get(name)
    return state.log.last_index - (progress.match_index if progress else 0)


def lags(state: State, name: str) -> bool:
    """
    Whether a learner lacks so much that commits might wait for it for long, were it a voter.

    An odd number of voters grows by one, and so do those that all commits need: should one more be
    missing, they wait for the learner. Then it must keep up: a few large entries take longer on a
    slow link than thousands of small ones elsewhere. An even number needs no more than before, and
    may need the learner soon.
    """
    missing = missing_entries(state, name)
    progress = state.progress.get(name)
    keeps_up = missing == 0 or (progress is not None and progress.keeps_up)
    is_needed_more = len(state.voter_names) % 2 == 1
    return missing > state.settings.promote_entries_max or (is_needed_more and not keeps_up)


def hole_before(state: State, name: str) -> int:
    """
    The first damaged entry here that a peer lacks, 0 if there is none.

    Nothing behind it can be sent to that peer: as a voter it could keep all from being committed.
    """
    progress = state.progress.get(name)
    match = progress.match_index if progress else 0
    return state.log.damaged.first_after(match)


def may_change(state: State) -> str:
    """Why no change is possible now; empty if one is."""
    if state.commit_index < state.term_start:
        return "the leader has not yet committed an entry of its own term; try again"
    if state.config_index > state.commit_index:
        return "another change of members is not yet committed; try again"
    if state.transfer is not None:
        return "the lead is being transferred; try again"
    return ""


def maintain(state: State) -> None:
    """Make the one change that is due by itself, if any; a leader looks now and then."""
    if state.membership is None or state.is_witness:
        return
    for member in state.membership.members:
        progress = state.progress.get(member.name)
        if member.kind == "learner" and progress is not None:
            progress.look(state.now, state.log.last_index, state.settings.election_seconds_min)
    if may_change(state):
        return
    for member in state.membership.members:
        if _readmit(state, member) or _promote_when_ready(state, member):
            return
    if state.bytes_since_config >= state.settings.config_repeat_bytes:
        repropose(state)


def _readmit(state: State, member: Member) -> bool:
    hello = state.connected.get(member.name)
    if hello is None or hello.node_id == member.node_id or member.name == state.name:
        return False
    if hello.cluster_id not in {"", state.cluster_id} or state.is_retired(hello):
        return False
    if hello.shut_out or state.is_outdated_by(hello) or state.is_apart_from(hello):
        return False  # It takes us in, or shuts us out, once it knows who belongs to it.
    if hello.cluster_id and hello.generation < state.generation:
        # Linked before an operator promoted this side, of members that were never known here: its
        # log is of the former generation, and it is shut out as soon as it hears of this one.
        return False
    is_filled_elsewhere = hello.cluster_id and hello.lineage != state.lineage
    if is_filled_elsewhere and not is_beginning_of_ours(state, hello):
        # It was restarted, and says by number only what it belongs to: maybe to who was promoted
        # apart. What was cleaned away there it would count as holding, whatever stands here.
        return False
    present = _present(state)
    members = changes.with_identity(present, member.name, hello.node_id, hello.address)
    voters_after = [other for other in members if other.is_voter]
    if member.is_voter and len(voters_after) < 2:
        # One of two lost its disk: going on with a single copy is the operator's decision.
        return False
    return _change_if_healthy(state, members)


def _promote_when_ready(state: State, member: Member) -> bool:
    if member.kind != "learner" or not member.promote_to:
        return False
    progress = state.progress.get(member.name)
    if progress is None or not state.is_counted(member.name) or not progress.match_index:
        return False
    is_fresh = state.now - progress.contact_at < state.settings.election_seconds_min
    if not is_fresh or lags(state, member.name):
        return False
    if hole_before(state, member.name):
        return False
    if _has_witness(state) and progress.match_index < state.config_index:
        return False
    return _change_if_healthy(state, changes.with_promoted(_present(state), member.name))


def _has_witness(state: State) -> bool:
    return any(member.kind == "witness" for member in _present(state).members)


def _has_what_a_witness_lacks(state: State, name: str) -> bool:
    """Whether a learner that nobody waited for has all that a witness may have dropped."""
    progress = state.progress.get(name)
    return progress is not None and progress.match_index >= state.commit_index


def _change_if_healthy(state: State, members: tuple[Member, ...]) -> bool:
    try:
        _change(state, members)
    except MembershipError:
        return False
    return True


def _present(state: State) -> Membership:
    if state.role is not Role.LEADER:
        raise NotLeaderError(state.leader)
    assert state.membership is not None
    return state.membership


def _change(state: State, members: tuple[Member, ...]) -> Entry:
    present = _changeable(state)
    _require_healthy(state, members)
    return append_config(state, present.changed(members, state.config_index))


def _changeable(state: State) -> Membership:
    """Give the present members, if another list of them may be written now."""
    present = _present(state)
    if reason := may_change(state):
        raise MembershipError(reason)
    return present


def _require_healthy(state: State, members: tuple[Member, ...]) -> None:
    """Refuse what would stop the cluster: the voters in contact must be a majority afterwards."""
    voters = [member for member in members if member.is_voter]
    oldest = state.now - state.settings.election_seconds_min
    healthy = [
        member
        for member in voters
        if member.name == state.name
        or (member.name in state.progress and state.progress[member.name].contact_at > oldest)
    ]
    if len(healthy) < majority(len(voters)):
        raise MembershipError(
            f"after this change {majority(len(voters))} of {len(voters)} voters would be needed,"
            f" but only {len(healthy)} can be reached"
        )
