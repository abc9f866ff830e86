"""
Limits that are reached, and outages of hours, in simulated worlds: each happens, and costs nothing.
"""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from tests.simulation.worlds import assert_kept
from trials import troubles
from trials.simulation.faults import Plan, focused
from trials.simulation.generations import LAGGED
from trials.simulation.greedy_clients import CONNECTIONS, QUEUES
from trials.troubles.forced_promotions import fit_copies, fit_followers, fit_learners
from trials.troubles.limits import PROMOTIONS
from trials.troubles.long_outages import BROUGHT_UP, OUTAGE, WITNESS_OUTAGE


@pytest.mark.slow
@pytest.mark.parametrize("kind", [QUEUES, CONNECTIONS])
def test_who_takes_all_there_is_costs_others_nothing(kind: str) -> None:
    """A client is refused what is over the limit, in words or by a closed connection."""
    assert_kept(lambda seed: focused(seed, [kind, "crash"]), first=5, count=3, happened=[kind])


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["one", "two"])
def test_a_forced_promotion_leaves_the_queues_to_whom_they_belong(topology: str) -> None:
    """
    What a copy lacks is declared again, although others took all the queues that were left.
    """

    def greedy(seed: int) -> Plan:
        made = focused(seed, [LAGGED, QUEUES], topology=topology)
        made.kinds = {LAGGED: 2, QUEUES: 8, "crash": 1}
        return made

    assert_kept(greedy, first=17, count=3, happened=[QUEUES, LAGGED])


@pytest.mark.slow
def test_hours_without_a_node_of_a_pair_are_survived() -> None:
    """
    A data node or the witness is down while the log turns over; then the node that led dies.

    The witness's log stays bounded meanwhile, and the one that was down serves or helps to.
    """
    assert_kept(
        lambda seed: focused(seed, [OUTAGE], topology="witness"),
        first=3,
        count=3,
        happened=(OUTAGE, WITNESS_OUTAGE, BROUGHT_UP),
    )


def test_whatever_brings_the_clients_of_a_promotion_is_known_to() -> None:
    """Else others take the places of all queues before those clients have theirs."""
    choose = {fit_copies, fit_followers, fit_learners}
    for info in pkgutil.iter_modules(troubles.__path__):
        module = importlib.import_module(f"{troubles.__name__}.{info.name}")
        if choose.intersection(it for it in vars(module).values() if callable(it)):
            assert {trouble.name for trouble in module.TROUBLES} <= PROMOTIONS, info.name
