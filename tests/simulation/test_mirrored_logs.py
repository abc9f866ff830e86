"""A journal on several simulated disks under faults: nothing that was stored is missing."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.environment.bounded_disk import BoundedDisk
from holdfast.environment.held_directory import HeldDirectory
from holdfast.mirrors.disk import MirroredDisk
from holdfast.mirrors.set_keeper import SetKeeper
from trials.mirrors.logs import World, lost_by
from trials.safeguards.ablation import Ablation, Patch, without

SEEDS = range(1, 121)
HANGS_FIRST = 270
"""Few seeds before it fill a mirror in the midst of what still hangs there."""


@pytest.mark.slow
def test_no_seed_loses_what_was_stored() -> None:
    """Failures, full disks, power cuts, rot, returns and replacements, on two disks or three."""
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        world = World(seed)
        world.run()
        happened += world.happened
    for kind in (
        "copy in place",
        "started",
        "power cut",
        "rot",
        "refused",
        "brought back",
        "power cut at start",
        "started though one hangs",
        "refused while it hangs",
    ):
        assert happened[kind] > 10, kind


def _leave_behind_without_a_word() -> list[Patch]:
    """A failed mirror is not written any more, and no set says so."""

    def fail(self: SetKeeper, failed: object) -> None:
        for mirror in failed:  # type: ignore[attr-defined]
            mirror.state = "failed"
        self.targets = tuple(it for it in self.targets if it.state != "failed")

    return [(SetKeeper, "fail", fail)]


def _mend_nothing() -> list[Patch]:
    return [(MirroredDisk, "mend", lambda *_arguments: None)]


def _write_wherever_the_path_leads() -> list[Patch]:
    """A copy of a directory in its place is taken for it."""
    looks = ("why_away", "why_not_ours")
    return [
        *((HeldDirectory, look, lambda _self: "") for look in looks),
        (HeldDirectory, "stands", lambda _self: True),
    ]


def _fill_what_still_hangs() -> list[Patch]:
    """What was given up at a start is forgotten, though it may yet be done."""
    return [(BoundedDisk, "is_hanging", property(lambda _self: False))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "patches", "first"),
    [
        (
            "who is left behind is told of before anything more is stored",
            _leave_behind_without_a_word,
            1,
        ),
        ("a bad copy is mended by a good one", _mend_nothing, 1),
        ("nothing counts in a directory that is another one", _write_wherever_the_path_leads, 1),
        ("one that still hangs is not filled", _fill_what_still_hangs, HANGS_FIRST),
    ],
)
def test_each_safeguard_is_needed(name: str, patches: object, first: int) -> None:
    """Without it some seed loses what was stored, or reads what is not right."""
    with without(Ablation(name, patches)):  # type: ignore[arg-type]
        caught = next((seed for seed in range(first, first + 400) if lost_by(seed)), None)
    assert caught is not None
    assert not lost_by(caught)
