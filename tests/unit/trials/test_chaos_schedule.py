"""
Schedules: drawn from a seed, complete, and the same after a trip through a file.
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from holdfast.errors import ConfigError
from trials.chaos.nemesis import FAULTS
from trials.chaos.scenarios import SCENARIOS, named
from trials.chaos.schedule import (
    BACKGROUND,
    KINDS,
    TOPOLOGIES,
    Schedule,
    Step,
    applying,
    deal,
    read_schedules,
    shown_by,
)

TEN_MINUTES = dict.fromkeys(TOPOLOGIES, 95.0)


def test_the_same_seed_deals_the_same_schedules():
    """A seed says all: dealing twice gives equal schedules, another seed gives others."""
    assert deal(7, TEN_MINUTES) == deal(7, TEN_MINUTES)
    assert deal(7, TEN_MINUTES) != deal(8, TEN_MINUTES)


@pytest.mark.parametrize("seed", range(20))
def test_ten_minutes_deal_every_kind_in_time(seed: int):
    """Each kind is dealt within the time of its topology, and only where it applies."""
    dealt = set()
    for schedule in deal(seed, TEN_MINUTES):
        names = [kind.name for kind in applying(schedule.topology)]
        assert all(step.fault in names for step in schedule.steps)
        left = schedule.seconds
        for step in schedule.steps:
            left -= step.kind.cost
            if left > 0:
                dealt.add(step.fault)

    assert dealt == set(KINDS)


def test_faults_that_take_nothing_away_may_last_during_the_next():
    """Some steps are combined, never with one that spoils a disk, and never the last."""
    combined = 0
    for seed in range(30):
        for schedule in deal(seed, TEN_MINUTES):
            assert not schedule.steps[-1].together
            for step, following in pairwise(schedule.steps):
                combined += step.together
                assert not (step.together and following.kind.is_destructive)
                assert not step.together or step.fault in BACKGROUND

    assert combined > 30


def test_less_time_deals_fewer_steps():
    """With one topology and little time, the schedule says how little."""
    schedule = deal(1, {"three": 10.0})[0]

    assert schedule.seconds == 10.0
    assert all("three" in step.kind.topologies for step in schedule.steps)


def test_a_schedule_survives_a_file(tmp_path):
    """What was written is read: one, several, or those of a report."""
    schedules = deal(3, {"three": 20.0, "witness": 20.0})
    one, many, report = (tmp_path / name for name in ("one", "many", "report"))
    one.write_text(json.dumps(schedules[0].to_json()))
    many.write_text(json.dumps([each.to_json() for each in schedules]))
    report.write_text(json.dumps({"scenarios": [{"schedule": schedules[1].to_json()}]}))

    assert read_schedules(one) == schedules[:1]
    assert read_schedules(many) == schedules
    assert read_schedules(report) == schedules[1:]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ({"name": "x", "topology": "three", "seed": 1, "steps": [{"fault": "rain"}]}, "rain"),
        ({"name": "x", "topology": "nine", "seed": 1, "steps": []}, "nine"),
        ({"name": "x", "topology": "three", "seed": 1}, "steps"),
        ({"name": "x", "topology": "three", "seed": 1, "steps": [], "more": 1}, "more"),
    ],
)
def test_a_mistake_in_a_schedule_is_named(value, word):
    """A schedule written by hand with a mistake is refused with the word that is wrong."""
    with pytest.raises(ConfigError, match=word):
        Schedule.from_json(value)


def test_a_file_that_is_no_json_is_refused(tmp_path):
    """The sentence names the file."""
    path = tmp_path / "schedule"
    path.write_text("- yaml")

    with pytest.raises(ConfigError, match="schedule is not JSON"):
        read_schedules(path)


def test_every_kind_of_fault_is_carried_out():
    """The vocabulary of schedules and the deeds of the nemesis are the same list."""
    assert set(KINDS) == set(FAULTS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_fits_its_topologies(name: str):
    """Each step of a named scenario applies to every topology the scenario is offered for."""
    scenario = SCENARIOS[name]

    assert scenario.steps
    assert scenario.faults or scenario.name in {"leader hands over", "one-sided reset"}
    assert not scenario.steps[-1].together
    for topology in scenario.topologies:
        schedule = scenario.schedule(topology, 5)
        assert all(topology in step.kind.topologies for step in schedule.steps)
        assert Schedule.from_json(json.loads(json.dumps(schedule.to_json()))) == schedule


def test_every_kind_of_fault_has_a_scenario():
    """Whatever a mix may draw can also be shown by itself."""
    told = {step.fault for scenario in SCENARIOS.values() for step in scenario.steps}

    assert told == set(KINDS)


def test_a_scenario_is_found_by_its_name():
    """Hyphens may stand for spaces on a command line; a wrong name lists the right ones."""
    assert named("leader-killed") is SCENARIOS["leader killed"]
    with pytest.raises(ConfigError, match="leader killed"):
        named("leader sacked")


def test_numbers_are_told_in_their_order():
    """F2 comes before F10; what is said of a leader is not shown by a follower."""
    cut = ("one-way cut", "leader in")

    assert shown_by([cut, ("crash", "follower")]) == ["F2", "F10", "F29", "F30"]
    assert shown_by([("crash", "leader")]) == ["F1", "F29", "F30", "F32"]
    assert shown_by([("transfer", "leader")]) == []


def test_a_step_tells_itself():
    """The line that is printed names the fault, the place, the time and the parameters."""
    step = Step(fault="clock jump", where="leader", seconds=2, parameters={"by": 1.0})

    assert str(step) == "clock jump (leader) for 2.0 s by 1.0"
