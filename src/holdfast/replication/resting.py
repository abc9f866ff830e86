"""
How long a member may rest if nothing comes: what is due for it by the clock alone.

Whatever comes, a message or the disk's word, gives it a turn at once; this is about silence only.

Pure: the time is the state's.
"""

from __future__ import annotations

from holdfast.replication.leader import quorum_contact
from holdfast.replication.state import ALWAYS, NEVER, Role, State


def rests_until(state: State) -> float:
    """
    When something is due at the soonest; long past if what is under way is to be looked at often.

    For who leads: to send heart-beats, to dispatch as the first of its leases begins, to step down
    as nobody answers. For the others: to stand.
    """
    is_busy = state.transfer is not None or state.awaited or state.is_disk_hanging
    if is_busy or state.log.damaged or not state.cluster_id:
        return NEVER
    if state.role is not Role.LEADER:
        return state.election_deadline
    settings = state.settings
    contact = max(quorum_contact(state, linked_only=False), state.leader_since)
    due = contact + settings.election_seconds_min
    if state.now < state.dispatch_from < ALWAYS:
        due = min(due, state.dispatch_from)
    for peer, progress in state.progress.items():
        if state.is_counted(peer):
            due = min(due, progress.sent_at + settings.heartbeat_seconds)
    return due
