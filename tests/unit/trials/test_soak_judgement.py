"""
Flat or not: what a slope says of curves that are flat, that leak, and that rise and fall.
"""

from __future__ import annotations

import random

import pytest

from holdfast.model.limits import MiB
from trials.soak.judgement import find_trend, judge, stretches
from trials.soak.samples import AccountRow, NodeSample, Record
from trials.soak.settings import SoakSettings

SETTINGS = SoakSettings(seconds=600, warm_up_seconds=30)


def sample(at: float, node: str = "a", **values) -> NodeSample:
    known = {
        "pid": 1,
        "rss_bytes": 80 * MiB,
        "fds": 30,
        "threads": 8,
        "cpu_seconds": at / 5,
        "disk_bytes": 40 * MiB,
        "disk_files": 12,
        "role": "leader",
    }
    return NodeSample(at=at, node=node, **(known | values))


def record_of(values, seconds: int = 600) -> Record:
    """Give a finished record whose samples get the fields that `values(at)` says."""
    return Record(
        nodes=[sample(at, **values(at)) for at in range(seconds)],
        accounts=[AccountRow(at=seconds, name="strict", is_strict=True, sent=1, confirmed=1)],
        end={"at": seconds, "is_interrupted": False},
    )


def noise(width: float, seed: int = 1):
    randomness = random.Random(seed)
    return lambda: randomness.uniform(-width, width)


def test_a_flat_run_passes() -> None:
    """
    With noise, every measure judged, each with the slope it would have seen.
    """
    wobble = noise(2 * MiB)
    verdict = judge(record_of(lambda at: {"rss_bytes": int(80 * MiB + wobble())}), SETTINGS)
    assert verdict.problems == ()
    assert {each.measure for each in verdict.judgements} == {
        "rss_bytes",
        "fds",
        "threads",
        "disk_bytes",
        "disk_files",
    }
    assert all(0 < each.visible_per_hour < 200 * MiB for each in verdict.judgements)


@pytest.mark.parametrize(
    ("measure", "per_second"),
    [
        ("rss_bytes", 40_000),
        ("fds", 1 / 60),
        ("threads", 1 / 60),
        ("disk_bytes", 60_000),
        ("disk_files", 1 / 60),
    ],
)
def test_a_leak_is_found(measure: str, per_second: float) -> None:
    """
    One handle a minute, 40 kB of memory a second: named with its node.
    """
    base = getattr(sample(0), measure)
    verdict = judge(record_of(lambda at: {measure: int(base + per_second * at)}), SETTINGS)
    assert len(verdict.problems) == 1
    assert verdict.problems[0].startswith(f"{measure} of node a grew by ")


def test_a_leak_is_found_under_noise() -> None:
    """
    Samples that jump about, and a tenth of them nonsense.
    """
    wobble = noise(4 * MiB)

    def values(at: int) -> dict[str, int]:
        if at % 10 == 3:
            return {"rss_bytes": 400 * MiB}
        return {"rss_bytes": int(80 * MiB + 50_000 * at + wobble())}

    problems = judge(record_of(values), SETTINGS).problems
    assert len(problems) == 1
    assert "rss_bytes" in problems[0]


@pytest.mark.parametrize("period", [20, 45, 100, 190])
def test_a_sawtooth_of_the_cleaner_passes(period: int) -> None:
    """
    It grows until a segment goes: a slope in every tooth, none over three and more.
    """
    verdict = judge(
        record_of(lambda at: {"disk_bytes": int(40 * MiB + (at % period) / period * 64 * MiB)}),
        SETTINGS,
    )
    assert verdict.problems == ()


def test_a_sawtooth_that_climbs_is_found() -> None:
    """
    The cleaner that gives back less each time.
    """

    def values(at: int) -> dict[str, int]:
        return {"disk_bytes": int(40 * MiB + (at % 40) / 40 * 20 * MiB + at * 80_000)}

    assert len(judge(record_of(values), SETTINGS).problems) == 1


def test_the_warm_up_is_not_judged() -> None:
    """
    A process that fills its caches at first and rests then is flat.
    """
    verdict = judge(record_of(lambda at: {"rss_bytes": min(at, 28) * 3 * MiB + 20 * MiB}), SETTINGS)
    assert verdict.problems == ()


@pytest.mark.parametrize(("seconds", "until", "problems"), [(17, 12, 0), (40, 12, 0), (40, 40, 1)])
def test_what_a_process_loads_once_is_no_leak(seconds: int, until: int, problems: int) -> None:
    """
    A node imports what it may need some day ten seconds after its ports opened; then it rests.
    """
    record = record_of(lambda at: {"rss_bytes": (50 + 3 * min(at, until)) * MiB}, seconds=seconds)
    verdict = judge(record, SoakSettings(seconds=seconds, warm_up_seconds=2))
    assert problems == len(verdict.problems)


def test_memory_may_fill_for_half_a_stretch_and_not_longer() -> None:
    """
    Bounded books take minutes to fill; what still rises in the second half is a leak.
    """
    filling = record_of(lambda at: {"rss_bytes": 80 * MiB + min(at, 240) * MiB // 10})
    leaking = record_of(lambda at: {"rss_bytes": 80 * MiB + at * MiB // 20})
    assert judge(filling, SETTINGS).problems == ()
    assert "rss_bytes of node a grew" in judge(leaking, SETTINGS).problems[0]


def test_each_process_and_role_is_judged_by_itself() -> None:
    """
    A new leader needs more than a follower: a step, no slope. A restart begins anew.
    """

    def values(at: int) -> dict[str, object]:
        role = "follower" if at < 200 else "leader"
        pid = 1 if at < 400 else 2
        size = 60 * MiB if role == "follower" else 90 * MiB
        return {"role": role, "pid": pid, "rss_bytes": size, "fds": 20 if at < 200 else 50}

    record = record_of(values)
    found = [(life, role, len(each)) for life, role, each in stretches(record.nodes)]
    assert found == [(1, "follower", 200), (1, "leader", 200), (2, "leader", 200)]
    assert judge(record, SETTINGS).problems == ()


def test_memory_that_comes_back_larger_after_each_restart_is_found() -> None:
    """
    Every process is flat; what they begin with is not.
    """

    def values(at: int) -> dict[str, int]:
        life = at // 120
        return {"pid": life, "rss_bytes": 60 * MiB + life * 6 * MiB}

    problems = judge(record_of(values), SETTINGS).problems
    assert len(problems) == 1
    assert "all processes, leader" in problems[0]


def test_a_pause_splits_no_stretch() -> None:
    """
    A node that did not answer for a while is the same process in the same role.
    """
    record = record_of(lambda at: {"role": None} if 100 <= at < 110 else {})
    assert [len(each) for _, _, each in stretches(record.nodes)] == [590]


def test_what_is_lost_is_a_problem() -> None:
    """
    Strict traffic forgives nothing; other traffic forgives loss, but not what nobody sent.
    """
    record = record_of(lambda at: {})
    record.accounts = [
        AccountRow(at=1, name="durable", is_strict=True, lost=2, unflagged=1),
        AccountRow(at=1, name="fleeting", is_strict=False, lost=5),
        AccountRow(at=1, name="topic", is_strict=False, unexpected=1, errors=("refused",)),
    ]
    assert judge(record, SETTINGS).problems == (
        "durable: 2 lost",
        "durable: 1 unflagged",
        "topic: 1 unexpected",
        "topic: 1 errors, the first: refused",
    )


def test_a_run_too_short_is_not_called_flat() -> None:
    """
    Nothing was shown; a run that has no account, neither.
    """
    record = record_of(lambda at: {}, seconds=40)
    assert judge(record, SETTINGS).problems == (
        "no node gave samples long enough to be judged: run it longer",
    )
    record = record_of(lambda at: {})
    record.accounts = []
    assert judge(record, SETTINGS).problems == ("the traffic gave no account",)


def test_an_aborted_run_is_judged_by_what_was_seen() -> None:
    """
    And says so.
    """
    record = record_of(lambda at: {"fds": 20 + at // 20})
    record.end = {}
    record.accounts = []
    verdict = judge(record, SETTINGS)
    assert len(verdict.problems) == 1
    assert "killed" in verdict.remarks[0]
    record.end = {"is_interrupted": True}
    assert "interrupted" in judge(record, SETTINGS).remarks[0]


def test_a_trend_needs_points_and_time() -> None:
    """
    No line through nothing.
    """
    assert find_trend([(1.0, 2.0)] * 3) is None
    assert find_trend([(1.0, 2.0)] * 30) is None
    trend = find_trend([(float(at), 3.0 * at) for at in range(30)])
    assert trend is not None
    assert trend.per_second == pytest.approx(3.0)
    assert trend.growth == pytest.approx(87.0)
    assert trend.spread == pytest.approx(0.0)
