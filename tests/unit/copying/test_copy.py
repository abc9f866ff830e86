"""A log is copied entry by entry, read back, and whole only then; whatever is killed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.copying.contract import Source, Target
from holdfast.copying.copy import Copied, copy
from holdfast.copying.directory_source import DirectorySource
from holdfast.copying.directory_target import DirectoryTarget, NewNode
from holdfast.copying.leased import LeasedSource, LeasedTarget
from holdfast.environment.disk import RealDisk
from holdfast.errors import StoreError
from holdfast.journal.entry import Entry
from holdfast.journal.journal import Journal
from holdfast.leases.contract import Place
from holdfast.leases.copies import CopiedLog
from holdfast.sql import layout
from tests.stores.copied_log_suite import kept
from tests.unit.copying.places_to_copy import (
    MEDIA,
    SETTINGS,
    Time,
    node,
    node_behind_an_anchor,
    served,
    sqlite_at,
)


class Killed(BaseException):
    """The process that copies is gone."""


class Mortal:
    """A medium of a process that is killed in one of its calls: before it is done, or behind it."""

    def __init__(self, log: CopiedLog, at: int, *, behind: bool) -> None:
        self.log = log
        self.left = at
        self.behind = behind

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.log, name)
        if not callable(found) or name in {"close", "facts", "identity"}:
            return found

        def call(*arguments: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.behind:
                raise Killed
            result = found(*arguments)
            if self.left == 0:
                raise Killed
            return result

        return call


@pytest.fixture(params=list(MEDIA))
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], CopiedLog]:
    """One more way to the place that is copied to."""
    return lambda: MEDIA[request.param](tmp_path / "target")


def run(source: Source, target: Target) -> Copied:
    try:
        return copy(source, target)
    finally:
        target.close()
        source.close()


def read(log: CopiedLog) -> list[Entry]:
    """What a broker would find."""
    log.open()
    try:
        return kept(log)
    finally:
        log.close()


def test_a_nodes_log_comes_to_a_medium_and_back(
    medium: Callable[[], CopiedLog], tmp_path: Path
) -> None:
    """The same entries, by index and chain, and in the node's directory one more: whose it is."""
    entries = node(tmp_path / "a")
    there = run(DirectorySource(tmp_path / "a", RealDisk()), LeasedTarget(medium(), "start it"))
    assert (there.first_index, there.last_index, there.start) == (1, len(entries), "start it")
    assert (there.entries, there.was_done, there.was_whole) == (len(entries), 0, False)
    assert there.chain == entries[-1].chain.hex()
    assert there.bytes == sum(len(it.raw) for it in entries)
    assert read(medium()) == entries

    back = run(
        LeasedSource.open(medium()),
        DirectoryTarget(tmp_path / "b", NewNode(name="b"), SETTINGS),
    )
    assert (back.last_index, back.chain) == (there.last_index, there.chain)
    again = DirectorySource(tmp_path / "b", RealDisk())
    assert again.plan.identity == there.identity
    found = []
    while more := again.entries(len(found)):
        found += more
    assert found[:-1] == entries
    again.close()


def test_a_log_that_was_cleaned_begins_behind_an_anchor_everywhere(
    medium: Callable[[], CopiedLog], tmp_path: Path
) -> None:
    """A broker finds the anchor as the first entry kept, and reads what follows; so does a copy."""
    entries = node_behind_an_anchor(tmp_path / "a")
    run(DirectorySource(tmp_path / "a", RealDisk()), LeasedTarget(medium(), ""))
    found = read(medium())
    assert found[1:] == entries
    assert (found[0].index, found[0].next_record) == (40, entries[0].first_record)

    run(LeasedSource.open(medium()), LeasedTarget(sqlite_at(tmp_path / "second"), ""))
    assert read(sqlite_at(tmp_path / "second")) == found
    back = run(
        LeasedSource.open(sqlite_at(tmp_path / "second")),
        DirectoryTarget(tmp_path / "b", NewNode(), SETTINGS),
    )
    assert (back.first_index, back.last_index) == (41, entries[-1].index)
    again = DirectorySource(tmp_path / "b", RealDisk())
    assert again.plan.anchor is not None
    assert again.plan.begins_behind == Place(40, found[0].chain)
    assert again.entries(40)[:-1] == entries
    again.close()
    journal = Journal.open(tmp_path / "b", RealDisk(), SETTINGS)
    assert (journal.first_index, journal.last_index) == (41, entries[-1].index + 1)
    journal.close()


def killed_at(
    tmp_path: Path, medium: Callable[[], CopiedLog], at: int, *, behind: bool, time: Time
) -> bool:
    """Copy until the process is killed in its call `at`; whether it was, or there was none."""
    log = Mortal(medium(), at, behind=behind)
    source = LeasedSource.open(sqlite_at(tmp_path / "source"), hold=time.hold)
    try:
        copy(source, LeasedTarget(log, "", hold=time.hold))  # type: ignore[arg-type]
    except Killed:
        return True
    else:
        return False
    finally:
        log.log.close()
        source.close()


def refusal_or(probe: CopiedLog, entries: list[Entry]) -> str:
    """What a broker is told that looks for a log here; nothing if it finds these entries."""
    try:
        probe.open_existing()
        assert kept(probe) == entries, "a part of a copy is served"
    except StoreError as error:
        return str(error)
    finally:
        probe.close()
    return ""


@pytest.mark.parametrize("behind", [False, True], ids=["before it is done", "when it is done"])
def test_a_copy_that_is_killed_at_any_step_is_gone_on_with(
    medium: Callable[[], CopiedLog], tmp_path: Path, *, behind: bool
) -> None:
    """After each kill brokers are refused, or find all of it; the same command ends it."""
    entries = served(sqlite_at(tmp_path / "source"), 9)
    time = Time()
    kills = 0
    for at in range(1, 100):
        if not killed_at(tmp_path, medium, at, behind=behind, time=time):
            break
        kills += 1
        told = refusal_or(medium(), entries)
        assert "is not whole" in told or (at == 1 and "holds no log" in told) or not told
    assert kills > 5
    assert read(medium()) == entries


def test_ablation_without_the_mark_a_part_of_a_copy_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test before notices: where a half copy passes for a log, a broker serves a part of it."""
    read_identity = layout.read_identity
    monkeypatch.setattr(
        layout,
        "read_identity",
        lambda session, place, **_: read_identity(session, place, is_copying=True),
    )
    with pytest.raises(AssertionError, match="a part of a copy is served"):
        test_a_copy_that_is_killed_at_any_step_is_gone_on_with(
            lambda: sqlite_at(tmp_path / "target"), tmp_path, behind=True
        )


def test_a_copy_that_was_broken_off_says_how_far_it_was(
    medium: Callable[[], CopiedLog], tmp_path: Path
) -> None:
    """What is there already is not copied again, and is compared like the rest."""
    entries = node(tmp_path / "a")
    source = DirectorySource(tmp_path / "a", RealDisk())
    half = LeasedTarget(medium(), "")
    half.begin(source.plan)
    half.append(entries[:7])
    half.close()

    done = copy(source, last := LeasedTarget(medium(), ""))
    last.close()
    source.close()
    assert (done.was_done, done.entries) == (7, len(entries))
    assert read(medium()) == entries


def test_what_is_copied_already_is_compared_again(
    medium: Callable[[], CopiedLog], tmp_path: Path
) -> None:
    """The same command once more changes nothing; where the copy has gone on it is refused."""
    node(tmp_path / "a")
    for was_whole in (False, True):
        done = run(DirectorySource(tmp_path / "a", RealDisk()), LeasedTarget(medium(), ""))
        assert done.was_whole is was_whole
    served(medium(), 1)
    with pytest.raises(StoreError, match="is a log already, through entry 22"):
        run(DirectorySource(tmp_path / "a", RealDisk()), LeasedTarget(medium(), ""))


class Forgetful(LeasedTarget):
    """A place that gives something else back than it was given."""

    def entries(self, after: int) -> list[Entry]:
        found = super().entries(after)
        other = found[2]
        raw = other.raw[:80] + bytes([other.raw[80] ^ 1]) + other.raw[81:]
        changed = Entry(
            other.index,
            other.term,
            other.kind,
            other.timestamp,
            other.first_record,
            other.record_count,
            other.chain,
            raw,
            other.body_length,
        )
        return [*found[:2], changed, *found[3:]]


def test_what_does_not_come_back_as_it_was_is_not_whole(
    medium: Callable[[], CopiedLog], tmp_path: Path
) -> None:
    """It is named, and brokers are refused."""
    node(tmp_path / "a")
    with pytest.raises(StoreError, match=r"entry 3 of .* is not that of .*/a"):
        run(DirectorySource(tmp_path / "a", RealDisk()), Forgetful(medium(), ""))
    log = medium()
    with pytest.raises(StoreError, match="is not whole"):
        log.open()
    log.close()


def test_a_source_that_is_not_one_log_is_not_copied(
    medium: Callable[[], CopiedLog], tmp_path: Path
) -> None:
    """Entries that do not follow on one another are found before they are stored."""
    entries = node(tmp_path / "a")
    source = DirectorySource(tmp_path / "a", RealDisk())
    read_entries = source.entries

    def skipping(after: int) -> list[Entry]:
        return [it for it in read_entries(after) if it.index != 5]

    source.entries = skipping  # type: ignore[method-assign]
    with pytest.raises(StoreError, match=r"entry 5 of .* does not follow on the one before it"):
        run(source, LeasedTarget(medium(), ""))
    assert entries


def test_a_source_that_somebody_takes_meanwhile_is_no_copy(tmp_path: Path) -> None:
    """What it has stored since would be missing: the copy is not finished."""
    served(sqlite_at(tmp_path / "source"))
    time = Time()
    source = LeasedSource.open(sqlite_at(tmp_path / "source"), hold=time.hold)
    target = LeasedTarget(sqlite_at(tmp_path / "target"), "", hold=time.hold)

    def usurp(step: str, _done: int, _total: int) -> None:
        if step == "copied":
            served(sqlite_at(tmp_path / "source"), 1)
            time.now += 60

    with pytest.raises(StoreError, match="was taken by somebody else while it was copied"):
        copy(source, target, usurp)
    target.close()
    source.close()
    with pytest.raises(StoreError, match="is not whole"):
        sqlite_at(tmp_path / "target").open()


@pytest.mark.parametrize("is_before", [True, False])
def test_a_source_that_somebody_takes_while_the_copy_becomes_whole_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_before: bool
) -> None:
    """To finish takes its time: it is looked at just before, while there is no log, and after."""
    served(sqlite_at(tmp_path / "source"))
    time = Time()
    source = LeasedSource.open(sqlite_at(tmp_path / "source"), hold=time.hold)
    target = DirectoryTarget(tmp_path / "node", NewNode(name="n"), SETTINGS)
    finish = DirectoryTarget.finish

    def slow(self: DirectoryTarget, last_look: Callable[[], None]) -> str:
        if is_before:
            served(sqlite_at(tmp_path / "source"), 1)
        start = finish(self, last_look)
        served(sqlite_at(tmp_path / "source"), 1)
        return start

    monkeypatch.setattr(DirectoryTarget, "finish", slow)
    with pytest.raises(StoreError) as raised:
        copy(source, target)
    target.close()
    source.close()
    assert "was taken by somebody else while it was copied" in str(raised.value)
    assert ("start no broker on" in str(raised.value)) is not is_before
    assert (tmp_path / "node").exists() is not is_before
