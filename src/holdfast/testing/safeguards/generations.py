"""
What keeps a generation apart from the ones before it, switched off.

The trouble is a copy that goes on alone by force and lacks what was confirmed, while everything
that the old generation had comes back.
"""

from __future__ import annotations

from holdfast.model import numbering
from holdfast.replication import driver, formation, promotion
from holdfast.replication.state import State
from holdfast.testing.ablation import Ablation, Patch
from holdfast.testing.generations import LAGGED


def _number_on() -> list[Patch]:
    # What a leader leaves out is enough for any lag that a simulated cluster can have.
    return [(numbering, "sequence_floor", lambda _generation: 0), *_number_on_within()]


def _number_on_within() -> list[Patch]:
    return [(numbering, "LEADERS_STEP", 0)]


def _use_terms_again() -> list[Patch]:
    return [(promotion, "TERMS_SKIPPED", 1)]


def _shut_out_at_once() -> list[Patch]:
    return [(driver.Driver, "_is_generation_kept", property(lambda _self: True))]


def _believe_the_past() -> list[Patch]:
    """Nobody is told or judged by its generation, nor by what a promotion has retired."""

    def nobody(_state: State, _hello: object) -> bool:
        return False

    return [
        (formation, "own_fence", lambda *_arguments: ""),
        (formation, "_judge_older", lambda *_arguments: None),
        (State, "is_retired", nobody),
        (driver.Driver, "_is_stale", lambda self, peer: peer not in self._state.connected),
    ]


ABLATIONS = [
    Ablation("a generation has numbers of its own", _number_on, (LAGGED,)),
    Ablation("a leader has numbers of its own", _number_on_within, (LAGGED,)),
    Ablation("a forced promotion skips terms", _use_terms_again, (LAGGED,)),
    Ablation("nobody is shut out by a promotion that is not durable", _shut_out_at_once, (LAGGED,)),
    Ablation("members of a former generation are let in", _believe_the_past, (LAGGED,)),
]
