"""What the models of leased worlds promise: the medium, the way to it, the strands, the judge."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.leases.contract import Claimant, Outcome, Place
from trials.leased.judge import BrokenError, Judge
from trials.leased.model_directory import ModelDirectory
from trials.leased.model_elector import FICKLE, HONEST, NOBODY, YES, ModelElector
from trials.leased.model_medium import NOTHING, ModelMedium
from trials.leased.passage import LOST, DirectPassage, Fate, ask
from trials.leased.plan import ENDINGS, plan
from trials.leased.strand import Strand

A = Claimant(holder="a" * 32, name="a", admin="", stomp="")
B = Claimant(holder="b" * 32, name="b", admin="", stomp="")


def follow(place: Place = NOTHING, body: bytes = b"x") -> Entry:
    return seal_entry(
        index=place.index + 1,
        term=1,
        kind=KIND_RECORDS,
        timestamp=place.index + 1,
        first_record=place.index + 1,
        record_count=1,
        parts=[body],
        previous_chain=place.chain,
    )


def test_a_database_stores_an_append_once_and_only_for_its_holder() -> None:
    """The same again is stored already; a later epoch deposes; another end is an error."""
    medium = ModelMedium()
    medium.take(medium.read(), A)
    entry = follow()

    assert Outcome.STORED is medium.append(1, A.holder, [entry])
    assert Outcome.STORED is medium.append(1, A.holder, [entry])
    assert [1] == list(medium.rows)
    with pytest.raises(StoreError, match="ends with 1, not before 1"):
        medium.append(1, A.holder, [follow(body=b"other")])
    medium.take(medium.read(), B)
    assert Outcome.DEPOSED is medium.append(1, A.holder, [follow(medium.end)])


def test_a_database_gives_its_lease_only_for_the_beat_that_was_seen() -> None:
    """A sign of life since then, or another's take, and it is not given."""
    medium = ModelMedium()
    nobody = medium.read()
    medium.take(nobody, A)
    seen = medium.read()
    medium.renew(1, A.holder)

    assert medium.take(nobody, B) is None
    assert medium.take(seen, B) is None
    assert medium.take(medium.read(), B) is not None
    medium.release(1, A.holder)
    assert not medium.is_released


def test_a_backup_brings_back_all_but_what_is_only_known_outside() -> None:
    """Rows, end and lease go back; who took it is not forgotten by the judge."""
    medium = ModelMedium()
    medium.take(medium.read(), A)
    backup = medium.backup()
    medium.append(1, A.holder, [follow()])
    medium.take(medium.read(), B)
    medium.restore(backup)

    assert (1, NOTHING, {}) == (medium.epoch, medium.end, medium.rows)
    assert 2 == len(medium.takes)


def test_what_is_written_to_a_directory_counts_until_the_next_cut() -> None:
    """An end that was not synced may go; what a zombie writes behind the cut nobody reads."""
    directory = ModelDirectory()
    directory.claim(directory.read(), A)
    directory.cut(1)
    first = follow()
    directory.write(1, [first])
    directory.sync(1)
    directory.write(1, [follow(directory.end)])
    assert 2 == directory.read().end.index
    assert directory.look(1, 0.0)
    directory.cut_unsynced = lambda _count: 0
    directory.claim(directory.read(), B)
    assert not directory.look(1, 0.0)
    directory.cut(2)
    directory.write(1, [follow(directory.end)])

    assert Place(1, first.chain) == directory.read().end == directory.read().sure
    assert {"unsynced entry cut": 1, "entry written where nobody reads": 1} == directory.happened


def test_an_old_look_does_not_show_a_new_claim() -> None:
    """As a cache of names does not; it is counted."""
    directory = ModelDirectory()
    now = 10.0
    directory.clock = lambda: now
    directory.claim(directory.read(), A)
    now = 20.0
    directory.claim(directory.read(), B)

    assert directory.look(1, 5.0)
    assert not directory.look(1, 0.0)
    assert 1 == directory.happened["look at an old claim"]


@pytest.mark.parametrize(
    ("fate", "error", "is_done", "seconds"),
    [
        (Fate(), None, True, 0.0),
        (Fate(before=0.2, after=0.3), None, True, 0.5),
        (Fate(before=LOST), UnreachableError, False, 1.0),
        (Fate(before=LOST, is_quick=True), UnreachableError, False, 0.001),
        (Fate(before=0.2, after=LOST), UnreachableError, True, 1.0),
        (Fate(before=3.0), UnreachableError, False, 1.0),
        (Fate(refusal="full"), AppendRefusedError, False, 0.0),
    ],
)
def test_a_statement_has_one_of_these_fates(
    fate: Fate, error: type[StoreError] | None, seconds: float, *, is_done: bool
) -> None:
    """Done or not, heard of or not, within the bound of the call."""
    passage = DirectPassage()
    passage.fates.append(fate)
    done: list[int] = []
    began = passage.now
    if error is None:
        ask(passage, "renew", 1.0, lambda: done.append(1))
    else:
        with pytest.raises(error):
            ask(passage, "renew", 1.0, lambda: done.append(1))

    assert is_done == bool(done)
    assert pytest.approx(seconds) == passage.now - began
    passage.wait(10.0)
    assert bool(done) == (fate.before < LOST and not fate.refusal)


def test_a_strand_runs_in_turns_and_can_be_cut() -> None:
    """It waits in the middle of a function; what is cut does not even clean up as at an error."""
    told: list[str] = []
    strand = Strand()

    def work() -> None:
        told.append("begins")
        try:
            strand.wait()
            told.append("goes on")
            strand.wait()
        except Exception:  # noqa: BLE001 - what must not see the cut
            told.append("an error")
        told.append("ends")

    strand.run(work)
    assert ["begins"] == told
    strand.go_on()
    assert strand.is_busy
    strand.cut()

    assert ["begins", "goes on"] == told


def test_what_breaks_on_a_strand_breaks_the_world() -> None:
    """It is raised where the timeline called."""
    strand = Strand()

    def break_down() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        strand.run(break_down)
    assert not strand.is_busy
    strand.cut()


def broker(name: str, **others: Any) -> Any:
    return SimpleNamespace(
        name=name,
        holder=name * 32,
        applied_index=0,
        driver=SimpleNamespace(is_leader=False),
        may_dispatch=True,
        applied={},
        **others,
    )


@pytest.mark.parametrize(
    ("name", "act"),
    [
        (
            "T1",
            lambda judge, a, b: [
                judge.on_confirmed(a, follow()),
                judge.on_confirmed(b, follow(body=b"y")),
            ],
        ),
        ("T2", lambda judge, a, b: judge.on_applied(a, follow())),
        ("T3", lambda judge, a, b: judge.on_applied(a, follow(Place(7, bytes(16))))),
        ("T4", lambda judge, a, b: judge.after_turn(a)),
        (
            "T5",
            lambda judge, a, b: [judge.on_proposed(a, follow()), judge.on_proposed(b, follow())],
        ),
        ("T6", lambda judge, a, b: judge.on_end(a, StoreError("broke"))),
    ],
)
def test_the_judge_sees_what_is_broken(name: str, act: Callable[..., Any]) -> None:
    """Each promise has its name."""
    both = [broker("a"), broker("b")]
    world: Any = SimpleNamespace(
        brokers=both,
        medium=ModelMedium(),
        plan=SimpleNamespace(is_fence=True, elector="", databases=0, are_names_judged=False),
    )
    with pytest.raises(BrokenError, match=f"{name}: "):
        act(Judge(world), *both)


def test_the_judge_compares_at_the_end() -> None:
    """What was confirmed and is not there is found, however good everything else looks."""
    world: Any = SimpleNamespace(
        brokers=[], medium=ModelMedium(), plan=SimpleNamespace(databases=0)
    )
    judge = Judge(world)
    judge.at_the_end()
    judge.on_confirmed(broker("a"), follow())
    with pytest.raises(BrokenError, match="entry 1 was confirmed and is not there"):
        judge.at_the_end()


def test_plans_differ_and_say_what_they_are() -> None:
    """Directories and databases, all endings, and the same seed the same."""
    made = [plan(seed) for seed in range(1, 400)]

    assert {True, False} == {it.is_fence for it in made}
    assert set(ENDINGS) == {it.ending for it in made}
    assert plan(3) == plan(3)
    assert "over a" in str(plan(3))


def elector(manner: str = HONEST) -> tuple[ModelElector, list[float]]:
    now = [0.0]
    return ModelElector(manner, 2.0, lambda: now[0], Random(1)), now


def test_a_session_lasts_its_time_and_a_line_has_the_order_of_coming() -> None:
    """Who is not heard of goes, sometimes later and never sooner; who leaves is gone at once."""
    made, now = elector()
    for name in "ab":
        made.stand(name, is_willing=True, number=1)
    now[0] = 1.99
    assert ("a", "b") == made.stand("a", is_willing=True, number=2).holders
    now[0] = 3.01
    assert ("a",) == made.stand("a", is_willing=True, number=3).holders
    assert () == made.stand("a", is_willing=False, number=4).holders


def test_what_comes_behind_a_later_request_changes_nothing() -> None:
    """It is of a standing that was left: nobody is in the line by it."""
    made, _ = elector()
    made.stand("a", is_willing=False, number=2)
    line = made.stand("a", is_willing=True, number=1)

    assert ((), 0.0) == (line.holders, line.sure_seconds)


def test_an_elector_may_be_wrong_in_each_manner() -> None:
    """It says yes to two, puts somebody first who is nobody, and forgets who lives."""
    for manner in (YES, NOBODY, FICKLE):
        made, _ = elector(manner)
        made.stand("a", is_willing=True, number=1)
        said = [made.stand("b", is_willing=True, number=2).holders for _ in range(20)]
        assert ("a", "b") not in said if manner != FICKLE else len(set(said)) > 1
