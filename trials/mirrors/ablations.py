"""
The rules of mirror sets, one switched off at a time: some seed must break.

    python -m trials.mirrors.ablations
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from rich.console import Console

from holdfast.mirrors.mirror_set import (
    Group,
    Holding,
    MirrorSet,
    MirrorState,
    Number,
    Start,
)
from trials.mirrors.sets import broken_by
from trials.safeguards.ablation import Ablation, Patch, without

SEEDS_MAX = 4000


def _half_to_start() -> list[Patch]:
    def missing_to_start(self: MirrorSet, found: Iterable[str]) -> Group:
        there = frozenset(found)
        groups = [it for it in (self.active, *self.before) if 2 * len(it & there) < len(it)]
        return frozenset().union(*groups) - there

    return [(MirrorSet, "missing_to_start", missing_to_start)]


def _forget_groups() -> list[Patch]:
    begin, change = Start.begin, Holding.change

    def begin_without(self: Start) -> MirrorSet:
        return replace(begin(self), before=())

    def change_without(self: Holding, changes: Mapping[str, MirrorState | None]) -> MirrorSet:
        change(self, changes)
        self.current = replace(self.current, before=())
        return self.current

    return [(Start, "begin", begin_without), (Holding, "change", change_without)]


def _start_without_promises() -> list[Patch]:
    """As it was derived at first: only the set's own number counts."""

    def promise(self: Start) -> dict[str, MirrorSet]:
        return {it: self.copies[it] for it in self.witnesses}

    return [(Start, "promise", promise)]


def _go_on_with_any() -> list[Patch]:
    def change(self: Holding, changes: Mapping[str, MirrorState | None]) -> MirrorSet:
        current = self.current
        states = tuple(sorted(current.with_states(changes).items()))
        groups = dict.fromkeys((current.active, *current.before))
        number = Number(current.number.start, current.number.event + 1)
        self.current = replace(current, states=states, number=number, before=tuple(groups))
        self.is_standing = False
        return self.current

    def stands_on(self: MirrorSet, written: Iterable[str]) -> bool:
        return self.active <= frozenset(written)

    return [(Holding, "change", change), (MirrorSet, "stands_on", stands_on)]


def _write_on_some() -> list[Patch]:
    def stands_on(self: MirrorSet, written: Iterable[str]) -> bool:
        return bool(self.active & frozenset(written))

    return [(MirrorSet, "stands_on", stands_on)]


@dataclass(frozen=True, slots=True)
class SetAblation:
    """One rule, and how to do without it."""

    name: str
    patches: Callable[[], list[Patch]]
    confirms_early: bool = False
    ends_often: bool = False
    """It matters where starts are broken off."""


ABLATIONS = [
    SetAblation("a starter has more than half", _half_to_start),
    SetAblation("what takes over from a group is judged with it", _forget_groups),
    SetAblation(
        "a starter promises before it writes a set", _start_without_promises, ends_often=True
    ),
    SetAblation("a holder keeps at least half", _go_on_with_any),
    SetAblation("a set is on all its active members before anything is confirmed", _write_on_some),
    SetAblation("the set is written before what it lacks is confirmed", list, confirms_early=True),
]


def caught_by(ablation: SetAblation) -> tuple[int, str] | None:
    """The first seed that breaks without this rule, and what it says; None if none does."""
    with without(Ablation(ablation.name, ablation.patches)):
        for seed in range(1, SEEDS_MAX + 1):
            broken = _broken_by(ablation, seed)
            if broken:
                break
        else:
            return None
    assert not broken_by(seed, ends_often=ablation.ends_often), "broken with the rule as well"
    return seed, broken


def _broken_by(ablation: SetAblation, seed: int) -> str:
    return broken_by(seed, confirms_early=ablation.confirms_early, ends_often=ablation.ends_often)


def main() -> int:
    """Tell of each rule which seed needs it."""
    failures = 0
    console = Console()
    for ablation in ABLATIONS:
        caught = caught_by(ablation)
        failures += caught is None
        told = "not noticed" if caught is None else f"seed {caught[0]}: {caught[1][:90]}"
        console.print(f"{ablation.name}: {told}")
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
