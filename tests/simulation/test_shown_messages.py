"""
Messages that come, go and are shown over a database that loses what it is told: worlds from seeds,
and safeguards left out.
"""

from __future__ import annotations

import pytest

from trials.leased.shown_world import live
from trials.safeguards.ablation import Ablation, without
from trials.safeguards.shown_messages import ABLATIONS


@pytest.mark.parametrize("seed", range(1, 7))
def test_in_the_end_what_is_shown_is_what_there_is(seed: int) -> None:
    """Whatever was lost, taken over or changed by hand: no row too much, and none is missing."""
    assert live(seed) == ""


@pytest.mark.slow
@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_without_a_safeguard_something_else_is_shown(ablation: Ablation) -> None:
    """In one of twenty worlds at least."""
    with without(ablation):
        assert any(live(seed) for seed in range(1, 21))
