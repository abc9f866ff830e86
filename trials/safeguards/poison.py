"""
Ablations of what tells poison from what was lost together with it.

What was lost with its consumers too often is sent alone, and only what was alone is to blame.
"""

from __future__ import annotations

from holdfast.broker.returning import Returning
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.router.grouping import Grouping
from holdfast.broker.serving.router.sifting import Sifting
from holdfast.broker.serving.subscription import Subscription
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.poison_clients import POISONED, POISONED_CHOICE, POISONED_GROUPS

_TROUBLE = (POISONED, "crash", "transfer")
_TROUBLE_OF_GROUPS = (POISONED_GROUPS, "crash", "transfer")
_TROUBLE_OF_CHOICE = (POISONED_CHOICE, "crash", "transfer")


def _send_nothing_alone() -> list[Patch]:
    return [(Plain, "_suspect", lambda _plain, _key: False)]


def _send_nothing_of_groups_alone() -> list[Patch]:
    is_suspect = Plain._is_suspect  # noqa: SLF001 - it is taken away

    def only_without_groups(plain: Plain, key: int) -> bool:
        return not isinstance(plain, Grouping) and is_suspect(plain, key)

    return [(Plain, "_is_suspect", only_without_groups)]


def _send_nothing_alone_to_who_selects() -> list[Patch]:
    return [(Sifting, "_is_to_go_alone", lambda _sifting, _key: False)]


def _blame_the_first_that_is_lost() -> list[Patch]:
    """Count what is lost, alone or not, and send nothing alone."""

    def dies_with(self: Returning, subscription: Subscription) -> int | None:
        rule, queue = self.rule_of(subscription), subscription.queue
        key = next(iter(subscription.unacknowledged), 0)
        if rule is None or queue is None or not key:
            return None
        return key if rule.is_exhausted(queue.returned_so_far(key).attempts + 1) else None

    return [*_send_nothing_alone(), (Returning, "dies_with", dies_with)]


def _often(plan: Plan) -> None:
    _often_of(plan, POISONED)


def _often_in_groups(plan: Plan) -> None:
    _often_of(plan, POISONED_GROUPS)


def _often_where_some_select(plan: Plan) -> None:
    _often_of(plan, POISONED_CHOICE)


def _often_of(plan: Plan, trouble: str) -> None:
    plan.kinds[trouble] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("send nothing alone that is lost too often", _send_nothing_alone, _TROUBLE, _often),
    Ablation(
        "send nothing of a group alone that is lost too often",
        _send_nothing_of_groups_alone,
        _TROUBLE_OF_GROUPS,
        _often_in_groups,
    ),
    Ablation(
        "send nothing alone to who selects that is lost too often",
        _send_nothing_alone_to_who_selects,
        _TROUBLE_OF_CHOICE,
        _often_where_some_select,
    ),
    Ablation("blame what is lost, alone or not", _blame_the_first_that_is_lost, _TROUBLE, _often),
]
