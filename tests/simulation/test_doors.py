"""The door in small worlds: what is let through is what a plain table says (S2, S6)."""

from __future__ import annotations

import pytest

from trials.safeguards.ablation import catch
from trials.safeguards.doors import ABLATIONS
from trials.simulation.doors import live


def test_what_is_let_through_is_what_was_granted_then() -> None:
    """Whatever was let through before, by the same words or by others."""
    for seed in range(20):
        assert live(seed) == "", f"seed {seed}"


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_noticed(ablation) -> None:
    """By one of a few seeds: else the table would prove nothing."""
    assert catch(ablation, range(5)) is not None
