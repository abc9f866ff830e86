"""The rules of mirror sets under every accident; and each of them is needed."""

from __future__ import annotations

import os

import pytest

from trials.mirrors.ablations import ABLATIONS, SetAblation, caught_by
from trials.mirrors.sets import World, broken_by

COUNT = int(os.environ.get("HOLDFAST_MIRROR_SEEDS", "1500"))


@pytest.mark.slow
def test_no_seed_loses_what_was_confirmed_or_starts_halves_apart() -> None:
    """Failures, returns, partial starts and ends between any two writes: what is served is all."""
    assert [found for seed in range(1, COUNT + 1) if (found := broken_by(seed))] == []


def test_the_accidents_happen() -> None:
    """A world in which nothing happens would prove nothing."""
    happened = World(1).happened
    for seed in range(1, 60):
        world = World(seed)
        world.run()
        happened += world.happened
    for kind in ("confirmed", "started", "shrunk", "taken in", "pulled", "MirrorsMissingError"):
        assert happened[kind] > 20, kind


@pytest.mark.slow
@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_each_rule_is_needed(ablation: SetAblation) -> None:
    """Without it some seed breaks that is fine with it."""
    assert caught_by(ablation) is not None
