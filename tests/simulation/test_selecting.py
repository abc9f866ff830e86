"""
Each consumer gets what it selects and nothing else, while leaders change and consumers come and go.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, busy
from trials.safeguards.selectors import ABLATIONS
from trials.simulation.selecting_clients import CHOSEN, SELECTED, SELECTED_GROUPS
from trials.simulation.simulator import simulate

COUNT = 3


@pytest.mark.parametrize("trouble", [SELECTED, SELECTED_GROUPS])
def test_each_gets_what_it_selects_and_all_of_it_arrives(trouble: str) -> None:
    """M6 by what was sent; in order, and to the end; and M4, where it is in groups."""
    results = [simulate(seed, busy(seed, trouble, *FAILOVERS)) for seed in range(1, COUNT + 1)]

    assert [""] * COUNT == [result.violation for result in results]
    assert sum(result.faults[CHOSEN] for result in results) > 50 * COUNT


@pytest.mark.parametrize(("number", "name"), [(0, "M6"), (1, "S10"), (2, "M4")])
def test_a_safeguard_that_is_missing_is_found_out(
    monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    """The ablations: nobody is asked, one message overtakes another, a group is in two hands."""
    trouble = ABLATIONS[number].kinds[0]
    for owner, attribute, replacement in ABLATIONS[number].patches():
        monkeypatch.setattr(owner, attribute, replacement)
    found = (simulate(seed, busy(seed, trouble, *FAILOVERS)).violation for seed in range(1, 16))

    assert next(filter(None, found), "").startswith(name)
