"""
From evidence to a row: what was shown, by what, and what it cost.

The words of a status are few. `kept`: real processes and the simulator both show it, on this
product, and nothing was broken. `shown only by ...`: some of that is missing. `broken`: a run found
a violation. `not shown`: no run shows it. `not run since the last change`: runs of other sources
did. `does not apply yet`: there is no such
thing in Holdfast.

Invariants:
    Nothing is `kept` without evidence of the product whose sources are here.
    One broken run is enough for `broken`, whatever else passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trials.chaos.scenarios import SCENARIOS
from trials.chaos.schedule import KINDS, shown_by
from trials.promises.catalogue import PROMISES, Promise
from trials.promises.evidence import Evidence, MarkedTest, SimulatedRuns, Stamp

KEPT = "kept"
MIX = "mix"
"""What chaos that is drawn from a seed is called here."""
BROKEN = "broken"
NOT_SHOWN = "not shown"
ABSENT = "does not apply yet"
STALE = "not run since the last change"

_REAL = ("chaos", "tests with real processes")
_SIMULATOR = "the simulator"
_LEVEL_NAMES = {
    "processes": "tests with real processes",
    "simulator": _SIMULATOR,
    "part": "tests of parts",
}
_ZERO_COUNTS = (
    "lost",
    "unexpected",
    "unflagged",
    "diverged",
    "resurrected",
    "torn_transactions",
)
"""What a chaos scenario must not have counted."""

_SCENARIO_SHOWS = {"leader stalls": ("F8",), "follower lags": ("F28",)}
"""Scenarios whose pauses are something else than a pause by chance."""
_NOT_BY_CHANCE = {"F8", "F28"}


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One thing that shows, or does not, that a promise is kept."""

    kind: str
    """The simulator, chaos, or one of the kinds of tests."""
    name: str
    trouble: str
    """What went wrong; empty if nothing did."""
    is_run: bool
    """It ran, and what it is for did happen."""
    remark: str = ""
    stamp: Stamp | None = None

    @property
    def is_current(self) -> bool:
        """Whether it is about the product of today."""
        return self.stamp is not None and self.stamp.is_current


@dataclass(slots=True)
class Cost:
    """What the runs of a row counted together."""

    confirmed: int = 0
    lost: int = 0
    duplicates: int = 0
    unflagged: int = 0
    gaps_ms: list[float] = field(default_factory=list)
    seeds: int = 0
    chaos_runs: int = 0
    tests: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One fault, judged."""

    promise: Promise
    status: str
    demonstrations: tuple[Demonstration, ...]
    cost: Cost
    stamps: tuple[Stamp, ...]

    @property
    def troubles(self) -> list[str]:
        """Everything that went wrong, with its name."""
        return [f"{it.kind}, {it.name}: {it.trouble}" for it in self.demonstrations if it.trouble]


def percentile(values: Iterable[float], share: float) -> float:
    """Give the smallest value that so many of all do not exceed; `share` is 0 to 1."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


# What each source says of a fault -----------------------------------------------------------------


def _of_simulation(name: str, runs: SimulatedRuns | None, cost: Cost) -> Demonstration:
    if runs is None:
        return Demonstration(_SIMULATOR, name, "", is_run=False, remark="not run")
    if runs.stamp.is_current:
        cost.confirmed += runs.confirms
        cost.duplicates += runs.duplicates
        cost.seeds += runs.seeds
    remark = f"{runs.seeds} seeds, {runs.elections} elections"
    if runs.missing:
        remark += f"; did not happen: {', '.join(runs.missing)}"
    return Demonstration(
        _SIMULATOR,
        name,
        "; ".join(f"seed {each}" for each in runs.broken[:3]),
        is_run=not runs.missing,
        remark=remark,
        stamp=runs.stamp,
    )


def chaos_trouble(scenario: dict[str, Any]) -> str:
    """Say what a chaos scenario found; empty if nothing."""
    counts = [f"{name} {scenario[name]}" for name in _ZERO_COUNTS if scenario.get(name)]
    return "; ".join([*counts, *map(str, scenario.get("problems") or [])])


def faults_of(step: dict[str, Any], scenario: str) -> set[str]:
    """
    Give the faults of the table that a step of chaos is.

    The chaos runner says it by kind and role; in which scenario it came makes it narrower.
    """
    kind = step["fault"]
    if scenario in _SCENARIO_SHOWS:
        return set(_SCENARIO_SHOWS[scenario])
    shows = shown_by([(kind, step.get("where", ""))]) if kind in KINDS else []
    return set(shows) - _NOT_BY_CHANCE


def chaos_faults(scenario: dict[str, Any]) -> set[str]:
    """Give the faults that a scenario injected, or was to inject when it went wrong."""
    steps = list(scenario.get("steps") or [])
    if scenario.get("problems"):
        steps += (scenario.get("schedule") or {}).get("steps") or []
    return {fault for step in steps for fault in faults_of(step, scenario["name"])}


def _steps_of(scenario: dict[str, Any], fault: str) -> list[dict[str, Any]]:
    steps = scenario.get("steps") or []
    return [step for step in steps if fault in faults_of(step, scenario["name"])]


def gaps_of(scenario: dict[str, Any], fault: str) -> list[float]:
    """Give the times without confirms after the steps that are this fault, in milliseconds."""
    gaps = [step.get("gap_ms") for step in _steps_of(scenario, fault)]
    return [float(gap) for gap in gaps if gap is not None]


def _count_chaos(scenario: dict[str, Any], fault: str, cost: Cost) -> None:
    cost.confirmed += scenario.get("confirmed", 0)
    cost.lost += scenario.get("lost", 0)
    cost.duplicates += scenario.get("duplicated", 0)
    cost.unflagged += scenario.get("unflagged", 0)
    cost.gaps_ms += gaps_of(scenario, fault)
    cost.chaos_runs += 1


def _of_chaos(
    scenarios: Sequence[tuple[dict[str, Any], Stamp]], fault: str, cost: Cost
) -> list[Demonstration]:
    """One demonstration for each name: what is drawn from a seed is a mix, whatever its number."""
    groups: dict[str, list[tuple[dict[str, Any], Stamp]]] = {}
    for scenario, made in scenarios:
        if fault not in chaos_faults(scenario):
            continue
        name = scenario["name"] if scenario["name"] in SCENARIOS else MIX
        groups.setdefault(name, []).append((scenario, made))
        if made.is_current:
            _count_chaos(scenario, fault, cost)
    found = []
    for name, runs in groups.items():
        troubles = [
            f"{scenario['topology']}, seed {scenario['seed']}: {trouble}"
            for scenario, _ in runs
            if (trouble := chaos_trouble(scenario))
        ]
        topologies = dict.fromkeys(scenario["topology"] for scenario, _ in runs)
        steps = sum(len(_steps_of(scenario, fault)) for scenario, _ in runs)
        found.append(
            Demonstration(
                "chaos",
                name,
                "; ".join(troubles),
                is_run=steps > 0 and any(scenario.get("confirmed") for scenario, _ in runs),
                remark=f"{steps} times on {', '.join(topologies)}",
                stamp=max((made for _, made in runs), key=lambda made: made.is_current),
            )
        )
    return found


def _of_test(test: MarkedTest, cost: Cost) -> Demonstration:
    if test.stamp.is_current:
        cost.tests += test.outcome != "skipped"
        for account in test.accounts:
            cost.confirmed += account["confirmed"]
            cost.lost += account["lost"]
            cost.duplicates += account["duplicates"]
            cost.unflagged += account["unflagged"]
    return Demonstration(
        _LEVEL_NAMES[test.level],
        test.name,
        "failed" if test.outcome == "failed" else "",
        is_run=test.outcome == "passed",
        remark=test.outcome,
        stamp=test.stamp,
    )


# Judging ------------------------------------------------------------------------------------------


def _status(promise: Promise, shown: Sequence[Demonstration], cost: Cost) -> str:
    if promise.absent:
        return ABSENT
    if any(it.trouble for it in shown) or cost.lost or cost.unflagged:
        return BROKEN
    proofs = [it for it in shown if it.is_run]
    kinds = {it.kind for it in proofs if it.is_current}
    if not kinds:
        return STALE if proofs else NOT_SHOWN
    # All of what the catalogue names must have run: half a simulation shows half a promise.
    if any(it.kind == _SIMULATOR and not it.is_run for it in shown):
        kinds.discard(_SIMULATOR)
    if _SIMULATOR in kinds and kinds & set(_REAL):
        return KEPT
    if not kinds:
        return NOT_SHOWN
    order = [_SIMULATOR, *_REAL, "tests of parts"]
    return "shown only by " + " and ".join(kind for kind in order if kind in kinds)


def judge(promise: Promise, evidence: Evidence) -> Row:
    """Judge one fault by all that is known."""
    cost = Cost()
    shown = [
        _of_simulation(name, evidence.simulations.get(name), cost) for name in promise.simulations
    ]
    shown += _of_chaos(evidence.chaos, promise.fault, cost)
    marked = [test for test in evidence.tests.values() if promise.fault in test.faults]
    shown += [_of_test(test, cost) for test in sorted(marked, key=lambda test: test.name)]
    measured = evidence.failover.get(promise.failover)
    if measured is not None and measured.stamp.is_current:
        cost.confirmed += measured.confirmed
        cost.lost += measured.lost
        cost.unflagged += measured.unflagged
        cost.duplicates += measured.duplicates
        cost.gaps_ms += measured.gaps_ms
    stamps = {it.stamp for it in shown if it.stamp is not None and it.is_run}
    current = {made for made in stamps if made.is_current} or stamps
    return Row(
        promise,
        _status(promise, shown, cost),
        tuple(shown),
        cost,
        tuple(sorted(current, key=lambda made: (made.date, made.commit))),
    )


def judge_all(evidence: Evidence) -> list[Row]:
    """Judge every fault, in the order of the catalogue."""
    return [judge(promise, evidence) for promise in PROMISES.values()]
