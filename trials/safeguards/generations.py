"""
What keeps a generation apart from the ones before it, switched off.

The trouble is a copy that goes on alone by force and lacks what was confirmed, while everything
that the old generation had comes back.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.model import numbering
from holdfast.replication import (
    ballot_keeping,
    fencing,
    formation,
    incoming,
    promotion,
    reconfiguration,
)
from holdfast.replication.membership import Member
from holdfast.replication.messages import Hello
from holdfast.replication.state import State
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.generations import LAGGED
from trials.troubles.heard_since_asked import HEARD_SINCE
from trials.troubles.joined_behind import JOINED_BEHIND
from trials.troubles.lost_promotions import LOST_PROMOTION
from trials.troubles.promoted_together import TOGETHER
from trials.troubles.shut_out_together import OUT_TOGETHER
from trials.troubles.taken_in_twice import TAKEN_IN_TWICE


def _number_on() -> list[Patch]:
    # What a leader leaves out is enough for any lag that a simulated cluster can have.
    return [(numbering, "sequence_floor", lambda _generation: 0), *_number_on_within()]


def _number_on_within() -> list[Patch]:
    return [(numbering, "LEADERS_STEP", 0)]


def _use_terms_again() -> list[Patch]:
    return [(promotion, "TERMS_SKIPPED", 1)]


def _shut_out_at_once() -> list[Patch]:
    return [(ballot_keeping.BallotKeeper, "is_generation_kept", property(lambda _self: True))]


def _shut_out_who_is_not_known() -> list[Patch]:
    own_fence, judge_older = formation.own_fence, formation.__dict__["_judge_older"]

    def fence(state: State, hello: Hello) -> str:
        return own_fence(state, replace(hello, kept=hello.kept or ("nobody",)))

    def shut_out(state: State, hello: Hello) -> formation.Refusal | None:
        refusal: formation.Refusal | None = judge_older(state, hello)
        return refusal and replace(refusal, is_fenced=True)

    return [(formation, "own_fence", fence), (formation, "_judge_older", shut_out)]


def _forget_being_shut_out() -> list[Patch]:
    """Whoever is told ends at once, and its disk knows nothing of it."""
    shut_out = fencing.Fence.shut_out

    def end(fence: fencing.Fence, reason: str, _generation: int = 0) -> None:
        shut_out(fence, reason)

    return [(fencing.Fence, "shut_out", end)]


def _believe_the_past() -> list[Patch]:
    """Nobody is told or judged by its generation, nor by what a promotion has retired."""

    def nobody(_state: State, _hello: object) -> bool:
        return False

    return [
        (formation, "own_fence", lambda *_arguments: ""),
        (formation, "_judge_older", lambda *_arguments: None),
        (State, "is_retired", nobody),
        (incoming.Incoming, "_is_stale", lambda self, peer: peer not in self._state.connected),
    ]


def _take_in_who_is_linked() -> list[Patch]:
    """
    What a peer said of itself before the promotion is taken for what it is since.

    It would shut itself out when it is named: that is off, too.
    """
    readmit = reconfiguration.__dict__["_readmit"]

    def trust(state: State, member: Member) -> bool:
        hello = state.connected.get(member.name)
        if hello is None or not hello.cluster_id or hello.generation >= state.generation:
            return bool(readmit(state, member))
        state.connected[member.name] = replace(
            hello, generation=state.generation, lineage=state.lineage
        )
        try:
            return bool(readmit(state, member))
        finally:
            state.connected[member.name] = hello

    return [(reconfiguration, "_readmit", trust), *_follow_with_any_log()]


def _follow_with_any_log() -> list[Patch]:
    """A member that is of a former generation by its own word follows the one that names it."""
    own_fence, is_taken_along = formation.own_fence, formation.is_taken_along

    def fence(state: State, hello: Hello) -> str:
        return own_fence(state, replace(hello, begun=False))

    def follow(state: State, hello: Hello) -> bool:
        return is_taken_along(state, replace(hello, begun=False))

    return [(formation, "own_fence", fence), (formation, "is_taken_along", follow)]


def _go_by_what_was_said() -> list[Patch]:
    """Whoever is taken along counts as no further than it said when it was asked."""

    def believe(_state: State, _name: str, _hello: Hello) -> bool:
        return True

    return [(promotion, "_still_follows", believe)]


def _slow_disks(plan: Plan) -> None:
    """It dies after its own ballot is durable and before the others' are, again and again."""
    plan.kinds["slow disk"] = 4


ABLATIONS = [
    Ablation("a generation has numbers of its own", _number_on, (LAGGED,)),
    Ablation("a leader has numbers of its own", _number_on_within, (LAGGED,)),
    Ablation("a forced promotion skips terms", _use_terms_again, (LAGGED,)),
    Ablation(
        "nobody is shut out by a promotion that is not durable",
        _shut_out_at_once,
        (LOST_PROMOTION,),
    ),
    Ablation(
        "who does not know whom it takes along shuts out nobody",
        _shut_out_who_is_not_known,
        (TOGETHER, "crash"),
        _slow_disks,
        topology="learner",
    ),
    Ablation("who was shut out forgets it", _forget_being_shut_out, (OUT_TOGETHER,)),
    Ablation(
        "who joined behind a promoted copy's end is not taken in as new",
        _take_in_who_is_linked,
        (JOINED_BEHIND,),
        topology="five",
    ),
    Ablation(
        "nobody comes into a generation that has been led with the log of another",
        _follow_with_any_log,
        (TAKEN_IN_TWICE,),
        topology="five",
    ),
    Ablation(
        "how far a log goes is said again by who comes with it",
        _go_by_what_was_said,
        (HEARD_SINCE,),
        topology="far",
    ),
    Ablation("members of a former generation are let in", _believe_the_past, (LAGGED,)),
]
