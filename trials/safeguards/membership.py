"""
Ablations of who counts, who is let in, and who is helped to power.

Links and quorums are judged by committed members and their identities; whoever still hears a leader
helps nobody to depose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.replication import formation, leader, quorum
from holdfast.replication.membership import Membership
from holdfast.replication.state import State
from holdfast.replication.strangers import Strangers
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.troubles.membership import CROWD, HARMLESS_CUT, MISTAKEN_LEAD, REMOVAL
from trials.troubles.wrong_lists import WRONG_LIST


def _keep_the_retired() -> list[Patch]:
    before = Membership.before

    def before_but_retired(self: Membership) -> Membership:
        return replace(before(self), retired=self.retired)

    return [(Membership, "before", before_but_retired)]


def _judge_by_the_newest() -> list[Patch]:
    return [(State, "settled_membership", lambda self: self.membership)]


def _count_by_name() -> list[Patch]:
    def is_counted(self: State, peer: str) -> bool:
        return peer in self.connected and peer in self.members

    return [(State, "is_counted", is_counted)]


def _help_anybody() -> list[Patch]:
    return [(State, "has_live_leader", lambda _self: False)]


def _count_the_witness_as_a_copy() -> list[Patch]:
    committable_index = quorum.committable_index

    def of_any(matches: Sequence[tuple[str, int, bool]], copies: int, sites: int) -> int:
        return committable_index([(site, match, True) for site, match, _ in matches], copies, sites)

    return [(leader, "committable_index", of_any)]


def _two_of_a_pair_with_witness(made: Plan) -> None:
    made.topology, made.copies = "witness", 2


def _first_come() -> list[Patch]:
    def enter(self: Strangers[object], connection: object, source: str, _members: object) -> object:
        if len(self) >= self._settings.strangers_max:
            return connection
        self._sources[connection] = source
        return None

    return [(Strangers, "enter", enter)]


def _link_whatever_the_settings() -> list[Patch]:
    return [(formation, "refused_difference", lambda *_arguments: "")]


def _compare_no_lists() -> list[Patch]:
    return [(formation, "difference", lambda *_hellos: "")]


def _long(made: Plan) -> None:
    made.chaos_seconds = 10.0


ABLATIONS = [
    Ablation(
        "a change that was cut keeps out whom it retired", _keep_the_retired, (REMOVAL,), _long
    ),
    Ablation(
        "links are judged by a change that may be cut", _judge_by_the_newest, (REMOVAL,), _long
    ),
    Ablation(
        "count a member whatever its identity",
        _count_by_name,
        ("wiped disk", "crash", "partition", "heal network"),
        _long,
    ),
    Ablation(
        "help to depose a leader that lives",
        _help_anybody,
        (HARMLESS_CUT,),
        _long,
    ),
    Ablation(
        "settings that must be alike are not compared",
        _link_whatever_the_settings,
        (MISTAKEN_LEAD,),
        _long,
    ),
    Ablation("founders do not compare their lists", _compare_no_lists, (WRONG_LIST,)),
    Ablation("who connects first keeps its place", _first_come, (CROWD, "crash"), _long),
    Ablation(
        "a witness counts as a copy",
        _count_the_witness_as_a_copy,
        ("crash",),
        _two_of_a_pair_with_witness,
    ),
]
