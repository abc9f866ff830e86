"""
Handing over the lead: wait until the target has everything, then ask it to stand at once.

Invariants:
    Nothing is proposed while a hand-over is under way, so the target needs to catch up only once.
    Only a data node is handed over to, never a witness, nor one whose disk hangs.
    A hand-over that is not done in time is given up, and the leader goes on.
"""

from __future__ import annotations

from holdfast.errors import MembershipError, NotLeaderError
from holdfast.replication.messages import TransferRequest
from holdfast.replication.state import Role, State, Transfer


def transfer(state: State, target: str | None) -> str:
    """
    Begin to hand over to `target`, or to the data node that is furthest; returns its name.

    Raises:
        NotLeaderError: This node has nothing to hand over.
        MembershipError: The target is no data voter, or nobody can take over.
    """
    if state.role is not Role.LEADER:
        raise NotLeaderError(state.leader)
    candidates = _candidates(state)
    if target is None:
        if not candidates:
            raise MembershipError("no other data node can be reached to take over the lead")
        target = max(candidates, key=lambda name: (state.progress[name].match_index, name))
    elif target not in candidates:
        raise MembershipError(f"{target} cannot take over: it is no data voter in contact")
    state.transfer = Transfer(target, state.now + state.settings.transfer_seconds_max)
    return target


def advance(state: State) -> None:
    """Once per turn of a leader: begin, complete or give up a hand-over."""
    under_way = state.transfer
    if under_way is None:
        if not state.is_witness or not _candidates(state):
            return
        transfer(state, None)
        under_way = state.transfer
        assert under_way is not None
    progress = state.progress.get(under_way.target)
    if state.now >= under_way.deadline or progress is None:
        state.transfer = None
    elif not under_way.is_sent and progress.match_index == state.log.last_index:
        under_way.is_sent = True
        state.send(under_way.target, TransferRequest(state.term))


def _candidates(state: State) -> list[str]:
    assert state.membership is not None
    return [
        member.name
        for member in state.membership.data_members
        if member.name != state.name
        and state.is_counted(member.name)
        and not state.connected[member.name].disk_hangs
    ]
