"""
Ablations of the door.

A verdict must not outlive its grant, a composite is not one wish, and no login may tell by the work
that it takes who is known.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.broker.serving.patterns import Patterns
from holdfast.model.destination import Destination
from holdfast.security import checking, verdicts
from holdfast.security.checking import Answer, Checking, Shown
from holdfast.security.grants import Access, Right
from holdfast.security.principal import Principal
from holdfast.sessions import permissions
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.doors import live


def _keep_verdicts() -> list[Patch]:
    return [(Patterns, "unsettle", lambda _self: None)]


def _allow_all_for_one() -> list[Patch]:
    def require(
        principal: Principal, access: Access, right: Right, written: Iterable[Destination]
    ) -> None:
        if not any(verdicts.judge(access, right, each).is_allowed for each in written):
            verdicts.require(principal, access, right, written)

    return [(permissions, "require", require)]


def _look_at_known_ones_only() -> list[Patch]:
    password = Checking._password  # noqa: SLF001 - it is what is left out

    def quick(self: Checking, shown: Shown, now: float) -> Answer:
        if self._record_of(shown.name) is None:
            return checking.Refusal(checking.WRONG, now)
        return password(self, shown, now)

    return [(Checking, "_password", quick)]


ABLATIONS = [
    Ablation("a verdict is worked out anew when grants change", _keep_verdicts, lived=live),
    Ablation("each part of a composite is judged by itself", _allow_all_for_one, lived=live),
    Ablation("who is not known costs the same work", _look_at_known_ones_only, lived=live),
]
