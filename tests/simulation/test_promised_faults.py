"""
Every simulated scenario of the promise table, over a few seeds; what it shows becomes evidence.

`make promises` runs the same over many more.
"""

from __future__ import annotations

import os

import pytest

from trials.promises.evidence import save_simulations
from trials.promises.simulations import SCENARIOS, run

SEEDS = int(os.environ.get("HOLDFAST_SEEDS", "1"))
SEEDS_MAX = max(12, SEEDS)
"""Where the trouble did not happen in the first ones."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_promise_is_kept_in_simulation(name: str) -> None:
    """The trouble happens, and no checker finds anything."""
    runs = run(SCENARIOS[name], SEEDS, SEEDS_MAX)
    save_simulations([runs])

    assert runs.broken == ()
    assert runs.missing == ()
