"""
What can be asked of any source: where a time is, and the names of all queues.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import CorruptEntryError, RecordNotFoundError
from holdfast.model.records import QueueRecord
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.source import DamagedRange, first_index_at, search_names
from trials.pipeline.written_log import (
    FIRST_TIME,
    STEP_MICROSECONDS,
    WrittenLog,
    block_of,
    message,
)

COUNT = 40


@pytest.fixture
def log(tmp_path: Path) -> LogDirectory:
    """One entry a second, in several segments; a queue is declared late."""
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "a"))
        for number in range(2, COUNT):
            written.put(message(1, number, bytes(7_000)))
        written.put(QueueRecord(2, "late"))
    return LogDirectory(str(tmp_path))


def test_a_time_is_found_by_halving(log: LogDirectory) -> None:
    """Every entry by its own time and by the moment just after the one before."""
    position = log.position()
    for index in range(1, COUNT + 1):
        moment = FIRST_TIME + (index - 1) * STEP_MICROSECONDS
        assert index == first_index_at(log, position, moment)
        assert index == first_index_at(log, position, moment - STEP_MICROSECONDS + 1)
    assert COUNT + 1 == first_index_at(log, position, moment + 1)


def test_damage_where_the_time_is_looked_for_is_an_error(
    log: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To begin anywhere would lose messages."""
    fault = DamagedRange(1, 1, CorruptEntryError("rotten"))
    position = log.position()
    monkeypatch.setattr(LogDirectory, "blocks", lambda *_: iter([fault]))
    with pytest.raises(CorruptEntryError, match="rotten"):
        first_index_at(log, position, FIRST_TIME)


def test_names_are_searched_where_nobody_has_looked_yet(
    log: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second search in a process goes through what is new only."""
    assert {1: "a", 2: "late"} == search_names(log)
    with WrittenLog(Path(log.path)) as written:
        written.put(QueueRecord(3, "later"))
    asked = []
    blocks = LogDirectory.blocks

    def noted(self: LogDirectory, first: int, last: int):
        asked.append((first, last))
        return blocks(self, first, last)

    monkeypatch.setattr(LogDirectory, "blocks", noted)
    assert {1: "a", 2: "late", 3: "later"} == search_names(log)
    assert [(COUNT + 1, COUNT + 1)] == asked


def test_what_was_found_in_one_cluster_is_not_said_of_another(
    log: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    After a restore another one stands at the same address, with queues of its own.
    """
    names = {"c" * 32: "mine", "d" * 32: "theirs"}
    position = log.position()
    found = []
    for cluster, name in names.items():
        here = replace(position, first_index=1, last_index=1, bases=(1,), cluster_id=cluster)
        monkeypatch.setattr(LogDirectory, "position", lambda _, here=here: here)
        blocks = [block_of([QueueRecord(7, name)])]
        monkeypatch.setattr(LogDirectory, "blocks", lambda *_, blocks=blocks: iter(blocks))
        found.append(search_names(log, {7})[7])

    assert ["mine", "theirs"] == found


def test_a_name_is_looked_for_no_further_than_it_is_found(
    log: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A queue that is gone has its declaration before its messages, mostly near: to find one name no
    worker reads the whole log.
    """
    bases = log.position().bases
    assert len(bases) > 4
    asked = []
    blocks = LogDirectory.blocks

    def noted(self: LogDirectory, first: int, last: int):
        asked.append(first)
        return blocks(self, first, last)

    monkeypatch.setattr(LogDirectory, "blocks", noted)
    assert "a" == search_names(log, {1}, around=bases[1])[1]
    assert [bases[1], 1] == asked
    assert "late" == search_names(log, {2}, around=bases[-1])[2]
    assert [bases[1], 1, bases[-1]] == asked
    search_names(log, {1, 2}, around=5)
    assert 3 == len(asked)
    assert {1, 2} == search_names(log, {9}, around=5).keys()
    assert sorted(bases) == sorted(asked)


def test_a_log_that_is_cleaned_under_the_search_is_gone_through_again(
    log: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A task holds what it reads, not all in which a name may stand; what was cleaned away there is
    written again further on, behind where the log ended before.
    """
    positions, blocks = LogDirectory.position, LogDirectory.blocks
    base = log.position().bases[1]
    is_cleaned = False

    def position(self: LogDirectory):
        found = positions(self)
        return replace(found, first_index=base, bases=found.bases[1:]) if is_cleaned else found

    def cleaned(self: LogDirectory, first: int, last: int):
        nonlocal is_cleaned
        if first < base:
            if not is_cleaned:
                with WrittenLog(Path(self.path)) as written:
                    written.put(QueueRecord(1, "a"))
            is_cleaned = True
            raise RecordNotFoundError(f"the log begins with entry {base}")
        return blocks(self, first, last)

    monkeypatch.setattr(LogDirectory, "position", position)
    monkeypatch.setattr(LogDirectory, "blocks", cleaned)
    assert "a" == search_names(log, {1}, around=base)[1]
    monkeypatch.setattr(LogDirectory, "position", positions)
    with pytest.raises(RecordNotFoundError):
        search_names(log, {9})
