"""
The report of a chaos run: its JSON, its gaps, and what it calls wrong.
"""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from trials.chaos.report import (
    RunReport,
    ScenarioReport,
    StepReport,
    faults_of,
    forbidden,
    gaps,
    write_tables,
)
from trials.chaos.schedule import KINDS, deal, read_schedules

STEP = StepReport(fault="crash", where="leader", node="a", at=1.0, seconds=2.0, gap_ms=1800.0)


def run_with(**fields) -> RunReport:
    schedule = deal(1, {"three": 10.0})[0]
    scenario = ScenarioReport(
        name="mix", topology="three", seed=1, steps=(STEP,), schedule=schedule, **fields
    )
    return RunReport(
        started="now", seed=1, network="proxies", machine={"cores": 2}, scenarios=(scenario,)
    )


@pytest.mark.parametrize(
    ("confirms", "marks", "expected"),
    [
        ([1, 2, 3, 4], [1.5, 3.5], [1, 5]),
        ([1, 2, 7, 8], [3], [4]),
        ([1, 2, 7, 8], [3, 5], [4, 2]),
        ([1, 2, 2.95, 6, 7], [1.5, 3], [0.95, 3]),
        ([1, 2], [1.5], [7.0]),
        ([], [0.0], [9.0]),
        ([1, 2], [], []),
    ],
)
def test_a_gap_belongs_to_the_step_before_it(confirms, marks, expected):
    """The longest silence after each mark, in full, even if it reaches over the next mark."""
    assert gaps(confirms, marks, 9.0) == pytest.approx(expected)


def test_counts_that_must_be_zero_are_problems():
    """Each forbidden count that is not 0 has its sentence; allowed ones have none."""
    counts = {"lost": 1, "torn_transactions": 2, "duplicated": 9, "diverged": 0}

    assert forbidden(counts) == ["lost: 1", "torn transactions: 2"]


def test_the_report_is_all_one_needs_to_repeat_it(tmp_path):
    """report.json is plain, has the keys of the promise table, and holds the schedules."""
    run = run_with(lost=1, problems=("lost: 1",), faults=faults_of([STEP]))
    run.write(tmp_path / "run" / "report.json")
    value = json.loads((tmp_path / "run" / "report.json").read_text())
    scenario = value["scenarios"][0]

    assert value["is_good"] is False
    assert value["faults"]["crash"] == 1
    assert scenario["faults"] == ["F1", "F29", "F30", "F32"]
    assert scenario["steps"][0]["gap_ms"] == 1800.0
    assert read_schedules(tmp_path / "run" / "report.json") == [run.scenarios[0].schedule]


def test_what_did_not_happen_is_told():
    """Only kinds that the topologies of the run's mixes can have are missed."""
    run = run_with()
    missing = run.missing()
    named = replace(run, scenarios=(replace(run.scenarios[0], name="leader killed"),))

    assert named.missing() == []
    assert "crash" not in missing
    assert "pause" in missing
    assert "site lost" not in missing
    assert set(missing) <= set(KINDS)


def test_the_tables_tell_what_is_wrong():
    """A person sees the counts, the gaps, what did not happen, and every problem."""
    out = StringIO()
    console = Console(file=out, width=160)
    write_tables(console, run_with(problems=("a logged a traceback [x]",), confirmed=1234))
    text = out.getvalue()

    assert "1,234" in text
    assert "crash (leader)" in text
    assert "1,800" in text
    assert "Did not happen in this run: crash everywhere" in text
    assert "WRONG: mix on three: a logged a traceback [x]" in text


def test_a_table_tells_of_subscriptions_groups_and_schedules():
    """What the judge counted of each, whatever a scenario's verdict lacks."""
    out = StringIO()
    verdict = {"owed": 12_345, "sent_again": 67, "in_two_hands": 8, "scheduled": 910}
    write_tables(Console(file=out, width=160), run_with(verdict=verdict))
    rows = [line for line in out.getvalue().splitlines() if "12,345" in line]

    assert len(rows) == 1
    assert [cell.strip() for cell in rows[0].split("│")[1:-1]] == [
        *("mix", "three", "0", "0", "12,345", "67", "0", "0", "8", "0", "910", "0", "0"),
    ]
