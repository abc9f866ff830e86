"""A journal on several simulated disks under faults: nothing that was stored is missing."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.environment.standing_disk import StandingDisk
from holdfast.mirrors.disk import MirroredDisk
from holdfast.mirrors.set_keeper import SetKeeper
from trials.mirrors.logs import World, lost_by
from trials.safeguards.ablation import Ablation, Patch, without

SEEDS = range(1, 121)


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
    return [(StandingDisk, "_require", lambda _self: None)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "patches"),
    [
        (
            "who is left behind is told of before anything more is stored",
            _leave_behind_without_a_word,
        ),
        ("a bad copy is mended by a good one", _mend_nothing),
        ("nothing counts in a directory that is another one", _write_wherever_the_path_leads),
    ],
)
def test_each_safeguard_is_needed(name: str, patches: object) -> None:
    """Without it some seed loses what was stored, or reads what is not right."""
    with without(Ablation(name, patches)):  # type: ignore[arg-type]
        caught = next((seed for seed in range(1, 400) if lost_by(seed)), None)
    assert caught is not None
    assert not lost_by(caught)
