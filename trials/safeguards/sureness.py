"""
Ablations of what keeps a node from calling its state sure that lacks what was confirmed before.

A node that does may say that there are no users where there are some.
"""

from __future__ import annotations

from holdfast.replication import follower
from holdfast.replication.messages import AppendRequest
from holdfast.replication.state import State
from trials.safeguards.ablation import Ablation, Patch


def _believe_any_leader() -> list[Patch]:
    def note(state: State, message: AppendRequest) -> None:
        if message.commit_index <= state.matched_index:
            state.sure_index = message.commit_index

    return [(follower, "_note_sure", note)]


def _be_sure_of_what_is_there() -> list[Patch]:
    def note(state: State, message: AppendRequest) -> None:
        state.sure_index = min(message.commit_index, state.matched_index)

    return [(follower, "_note_sure", note)]


ABLATIONS = [
    Ablation(
        "be sure by the word of a leader that has committed nothing of its own term",
        _believe_any_leader,
        ("crash", "power cut"),
    ),
    Ablation(
        "be sure of what is there, whatever more is committed",
        _be_sure_of_what_is_there,
        ("crash", "power cut"),
    ),
]
