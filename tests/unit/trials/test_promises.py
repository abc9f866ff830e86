"""
The promise table: judged from evidence alone, and honest about what is missing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trials.clients.ledger import Ledger
from trials.clients.load import Load, LoadSettings
from trials.promises import evidence as books_of_evidence
from trials.promises.books import TestBooks, accounts_of_loads
from trials.promises.catalogue import PROMISES, Promise
from trials.promises.evidence import (
    Evidence,
    FailoverTimes,
    MarkedTest,
    SimulatedRuns,
    Stamp,
    forget,
    load,
    product_digest,
    save_chaos,
    save_failover,
    save_scenarios,
    save_simulations,
    save_tests,
    stamp,
    write_json,
)
from trials.promises.simulations import SCENARIOS, Scenario, run
from trials.promises.table import check, check_names, histogram, render
from trials.promises.verdicts import (
    ABSENT,
    BROKEN,
    KEPT,
    NOT_SHOWN,
    STALE,
    faults_of,
    gaps_of,
    judge,
    percentile,
)

TODAY = Stamp(product=product_digest(), commit="abc1234", date="2026-11-21")
EARLIER = Stamp(product="another", commit="0000000", date="2026-11-01")
NAME = "tests/unit/trials/test_promises.py::test_the_catalogue_has_every_fault"


def marked(
    level: str = "processes", outcome: str = "passed", made: Stamp = TODAY, *faults: str
) -> dict[str, MarkedTest]:
    test = MarkedTest(
        name=NAME,
        faults=faults or ("F9",),
        outcome=outcome,
        level=level,
        accounts=(),
        stamp=made,
    )
    return {NAME: test}


def simulated(made: Stamp = TODAY, **changes: Any) -> dict[str, SimulatedRuns]:
    runs = SimulatedRuns(
        name="",
        seeds=3,
        broken=(),
        missing=(),
        confirms=100,
        deliveries=120,
        duplicates=7,
        elections=3,
        seconds=9.0,
        faults={"partition": 4},
        stamp=made,
    )
    return {name: replace(runs, name=name, **changes) for name in PROMISES["F9"].simulations}


def chaos(made: Stamp = TODAY, **changes: Any) -> tuple[tuple[dict[str, Any], Stamp], ...]:
    scenario = {
        "name": "leader cut off",
        "topology": "three",
        "seed": 5,
        "faults": ["F9"],
        "confirmed": 1000,
        "lost": 0,
        "duplicated": 3,
        "unflagged": 0,
        "steps": [
            {"fault": "partition", "gap_ms": 1500.0},
            {"fault": "partition", "gap_ms": 900.0},
            {"fault": "crash", "where": "leader", "gap_ms": 9000.0},
        ],
        "problems": [],
    }
    return (({**scenario, **changes}, made),)


def failover() -> dict[str, FailoverTimes]:
    measured = FailoverTimes(
        how="killed",
        gaps_ms=(400.0, 1500.0),
        cores=2,
        lost=0,
        unflagged=0,
        confirmed=5,
        duplicates=0,
        stamp=TODAY,
    )
    silent = replace(measured, how="silent", gaps_ms=(3500.0,))
    return {"killed": measured, "silent": silent}


def status(known: Evidence, fault: str = "F9") -> str:
    return judge(PROMISES[fault], known).status


def test_the_catalogue_has_every_fault() -> None:
    """F1 to F41, each with words of its own; what is absent says why."""
    assert list(PROMISES) == [f"F{number}" for number in range(1, 42)]
    assert all(promise.injected for promise in PROMISES.values())
    assert all(bool(promise.promised) != bool(promise.absent) for promise in PROMISES.values())


def test_a_scenario_that_does_not_exist_cannot_be_named() -> None:
    """The catalogue is checked when it is made."""
    with pytest.raises(AssertionError, match="invented"):
        Promise(fault="F1", injected="x", promised="y", simulations=("invented",))


def test_every_simulated_scenario_is_shown_for_some_fault() -> None:
    """No scenario runs for nothing."""
    named = {name for promise in PROMISES.values() for name in promise.simulations}

    assert named == set(SCENARIOS)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (Evidence(), NOT_SHOWN),
        (Evidence(marked(), simulated()), KEPT),
        (Evidence({}, simulated(), chaos()), KEPT),
        (Evidence({}, simulated()), "shown only by the simulator"),
        (Evidence(marked()), "shown only by tests with real processes"),
        (Evidence({}, {}, chaos()), "shown only by chaos"),
        (Evidence(marked("part")), "shown only by tests of parts"),
        (Evidence(marked(outcome="skipped")), NOT_SHOWN),
        (Evidence(marked(made=EARLIER), simulated(EARLIER)), STALE),
        (Evidence(marked(made=EARLIER), simulated()), "shown only by the simulator"),
        (Evidence(marked(), simulated(missing=("partition",))), "shown only by tests with real"),
        (Evidence(marked(outcome="failed"), simulated()), BROKEN),
        (Evidence(marked(), simulated(broken=("7: S6: lost",))), BROKEN),
        (Evidence(marked(), simulated(), chaos(lost=1)), BROKEN),
        (Evidence(marked(), simulated(), chaos(problems=["no leader"])), BROKEN),
        (Evidence(marked(), simulated(), chaos(steps=[])), KEPT),
        (Evidence({}, simulated(), chaos(steps=[])), "shown only by the simulator"),
    ],
)
def test_a_status_says_no_more_than_was_shown(known: Evidence, expected: str) -> None:
    """Kept needs real processes and the simulator, today's product, and no violation at all."""
    found = status(known)

    assert found.startswith(expected)
    assert found == KEPT or expected != KEPT


def test_half_of_the_simulations_show_half_a_promise() -> None:
    """All scenarios that a row names must have run."""
    runs = simulated()
    runs.popitem()

    assert status(Evidence({}, runs)) == NOT_SHOWN


def test_a_loss_that_a_passing_test_counted_breaks_the_promise() -> None:
    """The account is believed, not the word passed."""
    tests = marked()
    account = {"confirmed": 10, "lost": 1, "duplicates": 0, "unflagged": 0}
    tests[NAME] = replace(tests[NAME], accounts=(account,))

    assert status(Evidence(tests, simulated())) == BROKEN


def test_what_holdfast_does_not_have_is_never_kept() -> None:
    """A marker on an absent row changes nothing."""
    assert status(Evidence(marked("processes", "passed", TODAY, "F33")), "F33") == ABSENT


def test_gaps_count_for_the_faults_of_their_step_only() -> None:
    """A scenario that also kills shows the partition's time only for the partition."""
    ((scenario, _),) = chaos()

    assert gaps_of(scenario, "F9") == [1500.0, 900.0]
    assert gaps_of(scenario, "F1") == [9000.0]
    assert gaps_of(scenario, "F2") == []


@pytest.mark.parametrize(
    ("step", "scenario", "present", "absent"),
    [
        ({"fault": "crash", "where": "follower"}, "mix", "F2", "F1"),
        ({"fault": "stop", "where": "leader"}, "mix", "", "F1"),
        ({"fault": "pause", "where": "leader"}, "mix", "F7", "F8"),
        ({"fault": "pause", "where": "leader"}, "leader stalls", "F8", "F7"),
        ({"fault": "pause", "where": "follower"}, "follower lags", "F28", "F7"),
        ({"fault": "invented"}, "mix", "", "F1"),
    ],
)
def test_a_step_shows_what_it_was_and_no_more(
    step: dict[str, Any], scenario: str, present: str, absent: str
) -> None:
    """A killed follower is no killed leader, and a pause by chance no short stall."""
    found = faults_of(step, scenario)

    assert not present or present in found
    assert absent not in found


def test_a_scenario_that_went_wrong_before_its_steps_is_not_forgotten() -> None:
    """It counts for the faults it was to inject."""
    schedule = {"steps": [{"fault": "partition"}]}
    wrong = chaos(steps=[], problems=["no leader"], schedule=schedule, confirmed=0)

    assert status(Evidence(marked(), simulated(), wrong)) == BROKEN


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.5, 5.0), (0.9, 9.0), (0.99, 10.0), (1.0, 10.0)]
)
def test_percentiles_are_values_that_happened(share: float, expected: float) -> None:
    """Nearest rank: no value is made up between two."""
    assert percentile([float(value) for value in range(10, 0, -1)], share) == expected


def test_a_histogram_counts_everything_once() -> None:
    """Every bucket from the smallest to the largest is there, empty ones too."""
    lines = histogram([10.0, 20.0, 600.0, 900.0])

    assert [line.split("ms")[1].split()[0] for line in lines] == ["2", "0", "1", "1"]


# The page -----------------------------------------------------------------------------------------


def test_the_page_has_all_and_is_true_of_its_own_evidence() -> None:
    """What is rendered is what is checked."""
    known = Evidence(marked(), simulated(), chaos(), failover())
    text = render(known)
    (row,) = [line for line in text.splitlines() if line.startswith("| F9 |")]

    assert check(text, known) == []
    assert "| kept |" in row
    assert "lost 0 of 1,200 confirmed; without confirms 900 / 1,500 ms (2 times)" in row
    assert "17 delivered again, all say so; 6 seeds + 1 chaos run + 1 test" in row
    assert "2026-11-21 at abc1234" in row
    assert "| 400 | 1,500 | 1,500 | 1,500 | 2,000 | reached |" in text
    assert "| 3,500 | 3,500 | 3,500 | 3,500 | 3,000 | **missed** |" in text
    assert f"- F9, test: `{NAME}` (passed)" in text
    assert "- F9, chaos: `leader cut off` (2 times on three)" in text
    assert "- F21: no running test" in text


def test_a_page_that_says_too_much_is_found() -> None:
    """Kept on paper and broken in a run; kept without anything that shows it."""
    text = render(Evidence(marked(), simulated()))
    broken = Evidence(marked(), simulated(broken=("7: S6: lost",)))

    assert any("F9 is called kept, and is broken" in it for it in check(text, broken))
    assert check_names(text.replace("- F9, ", "- F8, ")) == ["F9 is kept and nothing shows it"]


def test_a_page_with_a_missing_row_or_an_invented_name_is_found() -> None:
    """Rows, tests and scenarios must be there."""
    text = render(Evidence(marked(), simulated()))
    short = "\n".join(line for line in text.splitlines() if not line.startswith("| F5 "))

    assert check_names(text) == []
    assert check_names(short) == ["F5 has no row"]
    for name in (NAME, "partitions"):
        assert len(check_names(text.replace(f"`{name}`", "`invented`"))) == 1


def test_where_a_loss_is_possible_none_is_called_zero() -> None:
    """Two lost disks of three: the runs cannot count what nobody has any more."""
    runs = simulated()
    (name,) = PROMISES["F25"].simulations
    known = Evidence({}, {name: replace(runs.popitem()[1], name=name)})
    (row,) = [line for line in render(known).splitlines() if line.startswith("| F25 |")]

    assert "a loss is possible and not counted" in row
    assert "lost 0" not in row


# Evidence -----------------------------------------------------------------------------------------


def test_evidence_comes_back(tmp_path: Path) -> None:
    """Tests, simulations, failover times: what is saved is loaded, with its stamp."""
    save_tests(marked().values(), tmp_path)
    save_simulations(list(simulated().values()), tmp_path)
    for measured in failover().values():
        save_failover(measured, tmp_path)

    assert load(tmp_path) == Evidence(marked(), simulated(), (), failover())
    assert load(tmp_path / "elsewhere") == Evidence()


def test_a_test_that_is_gone_proves_nothing(tmp_path: Path) -> None:
    """Its record is not read any more."""
    gone = replace(marked()[NAME], name="tests/unit/trials/test_promises.py::test_invented")
    save_tests([gone], tmp_path)

    assert load(tmp_path).tests == {}


def test_fewer_seeds_do_not_replace_more(tmp_path: Path) -> None:
    """Unless they are of another product, or found something."""
    name = "partitions"
    many = simulated(EARLIER, seeds=40)[name]
    few = replace(many, seeds=2)
    save_simulations([many], tmp_path)
    save_simulations([few], tmp_path)
    kept = load(tmp_path).simulations[name].seeds
    save_simulations([replace(few, broken=("1: S6",))], tmp_path)

    assert kept == 40
    assert load(tmp_path).simulations[name].broken == ("1: S6",)
    save_simulations([replace(few, stamp=TODAY)], tmp_path)
    assert load(tmp_path).simulations[name].stamp == TODAY


def test_a_chaos_report_is_of_today_only_if_it_began_after_the_last_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report says no commit: the time tells whether this product was tried."""
    ((scenario, _),) = chaos()
    report = tmp_path / "run" / "report.json"
    report.parent.mkdir()
    scenarios = [{**scenario, "seconds": 5}]
    report.write_text(json.dumps({"started": "2026-11-21T02:00:00", "scenarios": scenarios}))
    written = report.stat().st_mtime
    current = []
    for changed in (written - 10, written - 1):
        monkeypatch.setattr(books_of_evidence, "newest_source_seconds", lambda at=changed: at)
        assert save_chaos(report, tmp_path) == 1
        ((_, made),) = load(tmp_path).chaos
        current.append(made.is_current)

    assert current == [True, False]


def test_a_folder_that_is_deleted_meanwhile_is_made_again(tmp_path: Path) -> None:
    """`make clean` beside a run costs nothing."""
    path = tmp_path / "build" / "evidence" / "x.json"
    write_json(path, {"a": 1})
    path.unlink()
    path.parent.rmdir()
    write_json(path, {"a": 2})

    assert json.loads(path.read_text()) == {"a": 2}
    assert [each.name for each in path.parent.iterdir()] == ["x.json"]


def test_a_file_that_cannot_be_read_is_no_evidence(tmp_path: Path) -> None:
    """Half a file is as if it had not been run."""
    for name in ("tests", "simulations", "chaos", "failover"):
        (tmp_path / f"{name}.json").write_text('{"x": ')

    assert load(tmp_path) == Evidence()


def test_a_source_that_is_run_anew_forgets_what_it_knew(tmp_path: Path) -> None:
    """The others stay."""
    save_tests(marked().values(), tmp_path)
    ((scenario, made),) = chaos()
    save_scenarios("one", [scenario], made, tmp_path)
    save_scenarios("two", [scenario], made, tmp_path)
    save_scenarios("one", [scenario], made, tmp_path)
    known = load(tmp_path)
    forget("chaos", tmp_path)

    assert known.chaos == 2 * chaos()
    assert load(tmp_path) == Evidence(marked())


# Books of a test run ------------------------------------------------------------------------------


def test_all_parameters_of_a_test_are_one_test(tmp_path: Path) -> None:
    """One that failed is a failure; one that was skipped is not."""
    tests = TestBooks()
    tests.note("tests/integration/test_x.py::test_y[1]", ["F1"], "passed")
    tests.note("tests/integration/test_x.py::test_y[2]", ["F1"], "failed")
    tests.note("tests/unit/test_x.py::test_z[1]", ["F2"], "skipped")
    tests.note("tests/unit/test_x.py::test_z[2]", ["F2"], "passed")
    one, other = tests.records()
    tests.save(tmp_path)

    assert (one.name, one.outcome, one.level) == (
        "tests/integration/test_x.py::test_y",
        "failed",
        "processes",
    )
    assert (other.outcome, other.level, other.faults) == ("passed", "part", ("F2",))
    assert one.stamp == stamp()


def test_accounts_of_loads_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of each ledger, and none of a load without consumers."""
    account = Ledger(1, 64).account(0.0)
    monkeypatch.setattr(Load, "finish", lambda self, seconds: account)
    with accounts_of_loads() as accounts:
        Load(["h:1"], LoadSettings(consumers=0)).finish()
        consuming = Load(["h:1"])
        consuming.finish()
        consuming.finish()

    assert accounts == [account]


# Simulated scenarios ------------------------------------------------------------------------------


def test_a_scenario_goes_on_until_everything_happened() -> None:
    """Up to a number of seeds; what still never happened is told."""
    rare = Scenario(name="x", kinds=("pause",), shows=("pause", "no such thing"))

    runs = run(rare, 1, 2)

    assert (runs.seeds, runs.missing, runs.broken) == (2, ("no such thing",), ())
    assert runs.faults["pause"]
