"""
What keeps two leaders from dispatching at once, switched off one by one.

Their trouble is links of which only one end knows that they are closed: then a new leader is
elected while the one before still dispatches, rightly. Or a leader that is not deposed hears of no
majority: what is in its memory only is confirmed when one has answered.
"""

from __future__ import annotations

from holdfast.broker.outputs import Publisher
from holdfast.broker.serving.publishing import Publishing
from holdfast.replication import lease
from holdfast.replication.messages import VoteResponse
from holdfast.replication.state import NEVER, State
from holdfast.store.replicated_store import ReplicatedStore
from trials.safeguards.ablation import Ablation, Patch
from trials.troubles.narrow_links import HELD_UP


def _dispatch_at_once() -> list[Patch]:
    def begin(state: State) -> None:
        state.dispatch_from = NEVER

    return [(lease, "begin", begin)]


def _forget_promises() -> list[Patch]:
    return [(lease, "start", lambda _state, _started_at: None)]


def _take_a_closed_link_for_an_end() -> list[Patch]:
    def vote(state: State, *, granted: bool) -> VoteResponse:
        if state.is_leader_link_closed:
            state.promise.until = NEVER
        return kept(state, granted=granted)

    kept = lease.vote
    return [(lease, "vote", vote)]


def _confirm_before_it_is_out() -> list[Patch]:
    def confirm(self: Publishing, publisher: Publisher, receipt: bytes) -> None:
        self.receipts.append((0, publisher, receipt))

    return [(Publishing, "confirm", confirm)]


def _confirm_without_the_lease() -> list[Patch]:
    return [(ReplicatedStore, "holds_lease", lambda *_arguments: True)]


ABLATIONS = [
    Ablation(
        "a new leader waits for the lease of the one before",
        _dispatch_at_once,
        ("followers' links reset",),
    ),
    Ablation(
        "a voter that was restarted promises a full lease",
        _forget_promises,
        ("restart beside a reset",),
    ),
    Ablation(
        "a closed link does not prove that its leader has ended",
        _take_a_closed_link_for_an_end,
        ("followers' links reset",),
    ),
    Ablation(
        "what only a leader has is not confirmed without the lease",
        _confirm_without_the_lease,
        (HELD_UP,),
    ),
    Ablation(
        "what is published to a topic is confirmed when it is out",
        _confirm_before_it_is_out,
        ("followers' links reset",),
    ),
]
