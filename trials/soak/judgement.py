"""
Whether a run was flat: by slope, robustly, stretch by stretch.

Memory, handles and threads belong to a process in a role, so each stretch of one process in one
role is judged behind its warm-up, and its memory once the process has loaded what it may need some
day. Of a stretch that is long enough the whole first half is warm-up for memory: bounded books and
the allocator's arenas take minutes to fill, a leak goes on. Memory is judged also over all lives of
a node in the same role: what comes back larger after each restart is state that grows. The data
folder outlives its process and is judged over the whole run.

A slope is the median of the slopes of all pairs of points (Theil and Sen): a third of the samples
may be nonsense. The growth is forgiven up to a limit, and up to a share of the measure's own ups
and downs: the cleaner's sawtooth has a slope in every tooth and none over many. What remains
visible is told with each judgement.

Pure functions of a record.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from holdfast.server.preparation import PREPARE_SECONDS
from trials.soak.samples import NodeSample, Record
from trials.soak.settings import Limit, Limits, SoakSettings

_BINS_MAX = 60
_POINTS_MIN = 6
_PREPARED_SECONDS = PREPARE_SECONDS + 2.0
"""So long after its start a process has loaded all: some 20 MiB, once, which is no leak."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A straight line through a measure, and how far the measure is from it."""

    seconds: float
    median: float
    per_second: float
    spread: float
    """Between the tenth and the ninetieth percentile of what the line leaves over."""

    @property
    def growth(self) -> float:
        """What the line rises over the stretch."""
        return self.per_second * self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One measure of one node over one stretch."""

    measure: str
    node: str
    stretch: str
    begins: float
    trend: Trend
    growth_max: float

    @property
    def is_flat(self) -> bool:
        """Whether it grew no more than it may."""
        return self.trend.growth <= self.growth_max

    @property
    def per_hour(self) -> float:
        """The slope."""
        return self.trend.per_second * 3600

    @property
    def visible_per_hour(self) -> float:
        """The smallest slope that would not have passed."""
        return self.growth_max / self.trend.seconds * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a run showed."""

    judgements: tuple[Judgement, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    """What could not be judged, and other things to know."""

    @property
    def is_ok(self) -> bool:
        """Flat, nothing lost, nothing broken."""
        return not self.problems


def find_trend(points: Sequence[Point]) -> Trend | None:
    """Lay a line through (seconds, value) pairs in the order of time; None if they are too few."""
    if len(points) < _POINTS_MIN:
        return None
    seconds = points[-1][0] - points[0][0]
    if seconds <= 0:
        return None
    binned = _bins(points)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(binned, 2)]
    per_second = statistics.median(slopes)
    left = sorted(value - per_second * at for at, value in points)
    tenth = len(left) // 10
    return Trend(
        seconds=seconds,
        median=statistics.median(value for _, value in points),
        per_second=per_second,
        spread=left[-1 - tenth] - left[tenth],
    )


def _bins(points: Sequence[Point]) -> list[Point]:
    """Give at most so many points that all pairs are soon looked at: medians of neighbours."""
    size = -(-len(points) // _BINS_MAX)
    return [
        (
            statistics.mean(at for at, _ in points[start : start + size]),
            statistics.median(value for _, value in points[start : start + size]),
        )
        for start in range(0, len(points), size)
    ]


def judge(record: Record, settings: SoakSettings) -> Verdict:
    """Judge a run by its record."""
    judgements: list[Judgement] = []
    remarks: list[str] = []
    problems = list(record.problems)
    for name in record.node_names:
        found = list(_judge_node(record.of_node(name), settings))
        if not found:
            remarks.append(f"node {name} gave no stretch long enough to be judged")
        judgements += found
    if not judgements:
        problems.append("no node gave samples long enough to be judged: run it longer")
    problems += [_complaint(judgement) for judgement in judgements if not judgement.is_flat]
    for row in record.accounts:
        problems += [f"{row.name}: {fault}" for fault in row.faults]
    if not record.end:
        remarks.append("the run has no end: it was killed, or it is still under way")
    elif record.end.get("is_interrupted"):
        remarks.append("the run was interrupted; this is what was seen until then")
    if record.end and not record.accounts:
        problems.append("the traffic gave no account")
    return Verdict(judgements=tuple(judgements), problems=tuple(problems), remarks=tuple(remarks))


def _complaint(judgement: Judgement) -> str:
    show = format_measure
    measure, trend = judgement.measure, judgement.trend
    return (
        f"{measure} of node {judgement.node} grew by {show(measure, trend.growth)} in"
        f" {trend.seconds:.0f} s ({judgement.stretch}); flat is up to"
        f" {show(measure, judgement.growth_max)}"
    )


def format_measure(measure: str, value: float) -> str:
    """Write a value of a measure with its unit."""
    if measure.endswith("_bytes"):
        return f"{value / (1 << 20):,.1f} MiB"
    return f"{value:,.1f}"


def _judge_node(samples: list[NodeSample], settings: SoakSettings) -> Iterator[Judgement]:
    limits = settings.limits
    by_role: dict[str, list[tuple[int, list[NodeSample]]]] = {}
    for life, role, stretch in stretches(samples):
        settled = _behind_warm_up(stretch, settings.warm_up)
        prepared = _prepared(samples, stretch)
        loaded = _behind_warm_up(prepared, settings.warm_up)
        by_role.setdefault(role, []).append((life, loaded))
        label = f"process {life}, {role}"
        filled = _behind_warm_up(prepared, _filling_seconds(prepared, settings))
        yield from _judge_stretch(filled, "rss_bytes", label, settings)
        for measure in ("fds", "threads"):
            yield from _judge_stretch(settled, measure, label, settings)
    for role, loaded_lives in by_role.items():
        if len({life for life, _ in loaded_lives}) > 1:
            whole = [sample for _, loaded in loaded_lives for sample in loaded]
            label = f"all processes, {role}"
            yield from _judge_stretch(whole, "rss_bytes", label, settings)
    behind = _behind_warm_up(samples, settings.warm_up)
    for measure in ("disk_bytes", "disk_files"):
        assert hasattr(limits, measure), "each measure has its limit"
        yield from _judge_stretch(behind, measure, "whole run", settings)


def stretches(samples: Sequence[NodeSample]) -> Iterator[tuple[int, str, list[NodeSample]]]:
    """Cut a node's samples where its process or its role changes: (life, role, samples)."""
    lives = groupby(samples, key=lambda sample: sample.pid)
    for life, (_, of_process) in enumerate(lives, 1):
        answered = [sample for sample in of_process if sample.role is not None]
        for role, of_role in groupby(answered, key=lambda sample: sample.role):
            yield life, str(role), list(of_role)


def _prepared(samples: Sequence[NodeSample], stretch: list[NodeSample]) -> list[NodeSample]:
    """What of a stretch comes after its process has loaded all that it may need some day."""
    if not stretch:
        return []
    began = next(sample.at for sample in samples if sample.pid == stretch[0].pid)
    return [sample for sample in stretch if sample.at >= began + _PREPARED_SECONDS]


def _behind_warm_up(samples: list[NodeSample], warm_up: float) -> list[NodeSample]:
    if not samples:
        return []
    return [sample for sample in samples if sample.at >= samples[0].at + warm_up]


def _filling_seconds(stretch: list[NodeSample], settings: SoakSettings) -> float:
    """How long memory may still rise: half of the stretch, if that leaves enough to be judged."""
    half = (stretch[-1].at - stretch[0].at) / 2 if stretch else 0.0
    return max(settings.warm_up, half) if half > settings.judged_min else settings.warm_up


def _judge_stretch(
    samples: list[NodeSample], measure: str, stretch: str, settings: SoakSettings
) -> Iterator[Judgement]:
    if not samples or samples[-1].at - samples[0].at < settings.judged_min:
        return
    trend = find_trend([(sample.at, float(getattr(sample, measure))) for sample in samples])
    if trend is not None:
        yield Judgement(
            measure=measure,
            node=samples[0].node,
            stretch=stretch,
            begins=samples[0].at,
            trend=trend,
            growth_max=_growth_max(settings.limits, measure, trend),
        )


def _growth_max(limits: Limits, measure: str, trend: Trend) -> float:
    limit: Limit = getattr(limits, measure)
    return max(limit.growth_max(trend.median), limits.spread_share * trend.spread)
