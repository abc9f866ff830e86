"""
What a node gives of its log, on a real journal over a simulated disk.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from holdfast.admin.status import HoldRequest, HoldStatus, LogSlice
from holdfast.broker.receipts import Receipts
from holdfast.errors import DestinationError, LimitReachedError, RecordNotFoundError
from holdfast.model.limits import GiB
from holdfast.model.records import HoldLoss, HoldRecord
from holdfast.server.log_access import (
    HoldWatch,
    hold_record,
    hold_statuses,
    log_position,
    log_slice,
)
from holdfast.server.reader_holds import HOLD_BYTES_DEFAULT
from holdfast.server.settings import ServerSettings
from holdfast.spark.log.entry_block import cut_entries
from trials.simulation.local_journal import LocalJournal

NOW = 1_700_000_000_000_000
DAY = 86_400


def hold(
    index: int, bytes_max: int, *rest: int, silent_seconds: int = 0, **more: Any
) -> HoldRecord:
    """A hold that was renewed so long ago."""
    renewed_at = NOW - silent_seconds * 1_000_000
    return HoldRecord("h", index, bytes_max, *rest, renewed_at=renewed_at, **more)


def hold_status(node: PaperNode, kept: HoldRecord) -> HoldStatus:
    """What is said of one hold."""
    return hold_statuses(node, [kept])[0]


class PaperNode:
    """A node of which only the log is real; commit and applied index are set by the test."""

    def __init__(self) -> None:
        self.log = LocalJournal()
        for number in range(12):
            self.log.append(bytes(3000 + number))
        self.journal = self.log.journal
        self.config = SimpleNamespace(name="a")
        status = SimpleNamespace(name="a", role="follower", cluster_id="c1", generation=2)
        self.driver = SimpleNamespace(commit_index=11, is_witness=False, status=lambda: status)
        self.store = SimpleNamespace(applied_index=10, bytes_from=lambda _: 900)
        self.broker = SimpleNamespace(
            state=SimpleNamespace(holds={}),
            receipts=Receipts(),
        )
        self.conductor = SimpleNamespace(
            cleaner=SimpleNamespace(leaving_through=0),
            settings=ServerSettings(hold_count_max=3, reader_hold_bytes_max=20 * GiB),
        )
        self.clock = SimpleNamespace(wall_microseconds=lambda: NOW)

    def read(self, found: LogSlice) -> bytes:
        return self.log.disk.content(found.path)[found.start : found.start + found.size]


@pytest.fixture
def node() -> PaperNode:
    return PaperNode()


def test_the_position_ends_with_what_is_committed_applied_and_stored(node: PaperNode) -> None:
    """
    A later leader may replace what is not committed; what is not stored is not in the file.
    """
    position = log_position(node, 0, 0)
    assert (1, 10, 0) == (position.first_index, position.commit_index, position.through_index)
    assert [segment.base_index for segment in node.journal.segments()] == list(position.bases)
    assert len(position.bases) > 2
    assert ("c1", 2) == (position.cluster_id, position.generation)


def test_slices_read_one_after_another_are_the_log(node: PaperNode) -> None:
    """
    Whole entries, never over the end of a file, each at most as large as asked.
    """
    index = 1
    while index <= 10:
        found = log_slice(node, index, 7_000, 10)
        assert found.size <= 7_000
        block = cut_entries(node.read(found), index)
        assert index + len(block) == found.next_index
        index = found.next_index
    assert (index, 0) == (11, log_slice(node, 11, 7_000, 99).size)


def test_bytes_reach_over_segments(node: PaperNode) -> None:
    """
    Admission control counts in bytes wherever the files end; at least one entry is let through.
    """
    assert log_position(node, 1, 1).through_index == 1
    assert log_position(node, 1, 7 * 3_100).through_index == 7
    assert log_position(node, 3, 10**9).through_index == 10
    assert log_position(node, 11, 5).through_index == 10


def test_what_was_dropped_is_told_with_where_the_log_begins(node: PaperNode) -> None:
    """
    The reader learns what it lacks.
    """
    node.journal.drop_before(node.journal.segments()[2].base_index)
    first = node.journal.first_index
    sentence = rf"begins with entry {first}"
    for ask in (
        lambda: log_slice(node, 1, 10, 99),
        lambda: log_position(node, 1, 10),
        lambda: hold_record(node, "h", HoldRequest(index=1)),
    ):
        with pytest.raises(RecordNotFoundError, match=sentence):
            ask()


def test_a_witness_has_nothing_to_read(node: PaperNode) -> None:
    """
    It keeps the log only until both data nodes have it.
    """
    node.driver.is_witness = True
    with pytest.raises(DestinationError, match="witness"):
        log_slice(node, 1, 10, 99)


def test_a_hold_keeps_its_bound_and_what_it_lost(node: PaperNode) -> None:
    """
    A reader that goes on must not make the alarm about lost entries disappear.
    """
    fresh = hold_record(node, "h", HoldRequest(index=3))
    assert (HOLD_BYTES_DEFAULT, 0) == (fresh.bytes_max, fresh.lost_through)
    node.broker.state.holds["h"] = HoldRecord("h", 3, 1_000, 2)
    moved = hold_record(node, "h", HoldRequest(index=4))
    assert (4, 1_000, 2) == (moved.index, moved.bytes_max, moved.lost_through)
    assert hold_record(node, "h", HoldRequest(index=4, bytes_max=50)).bytes_max == 50


def test_a_hold_over_four_fifths_of_its_bound_is_an_alarm(node: PaperNode) -> None:
    """
    Before it is too late.
    """
    assert hold_status(node, hold(3, 1_000)).is_near_bound
    assert not hold_status(node, hold(3, 1_200)).is_near_bound


def test_a_reader_that_falls_behind_is_told_of_once(node: PaperNode) -> None:
    """
    Again only after it has caught up in between; holds are not looked at all the time.
    """
    holds = node.broker.state.holds
    holds["h"] = hold(3, 1_000)
    watch = HoldWatch(node)
    with capture_logs() as told:
        watch.step(100.0)
        watch.step(110.0)
        assert ["h"] == [line["hold"] for line in told]
        holds["h"] = hold(3, 2_000)
        watch.step(120.0)
        holds["h"] = hold(3, 1_000)
        watch.step(121.0)
        assert 1 == len(told)
        watch.step(130.0)
        assert 2 == len(told)


def test_no_hold_is_set_on_what_is_to_go(node: PaperNode) -> None:
    """
    Its record stands in the log already, though the files are still there.
    """
    node.conductor.cleaner.leaving_through = 4
    with pytest.raises(RecordNotFoundError, match="entries 4 to 4 are no longer"):
        hold_record(node, "h", HoldRequest(index=4))
    assert hold_record(node, "h", HoldRequest(index=5)).index == 5


def test_no_reader_has_more_kept_than_the_node_allows(node: PaperNode) -> None:
    """
    Whatever it asks for, or asked for before the operator allowed less.
    """
    with pytest.raises(LimitReachedError, match="keeps 21,474,836,480 for a reader at most"):
        hold_record(node, "h", HoldRequest(index=3, bytes_max=21 * GiB))
    node.broker.state.holds["h"] = hold(3, 900 * GiB)
    assert hold_record(node, "h", HoldRequest(index=4)).bytes_max == 20 * GiB
    assert hold_status(node, hold(3, 900 * GiB)).bytes_max == 20 * GiB


def test_the_log_is_kept_for_so_many_readers(node: PaperNode) -> None:
    """
    A program that takes a new name each time is told; who has a hold goes on.
    """
    node.broker.state.holds |= {name: hold(3, 1) for name in "abc"}
    with pytest.raises(LimitReachedError, match="for 3 readers already"):
        hold_record(node, "h", HoldRequest(index=3))
    assert hold_record(node, "a", HoldRequest(index=4)).index == 4


def test_what_is_on_its_way_to_the_log_comes_first(node: PaperNode) -> None:
    """
    Else a renewal undoes the move before it, or what says that entries were lost; nor is the bound
    on how many there may be passed by those who all ask at once.
    """
    node.broker.state.holds["h"] = hold(3, GiB)
    node.broker.receipts.batch.holds = [hold(5, GiB, 4, loss=HoldLoss.SPACE)]
    renewed = hold_record(node, "h", HoldRequest(index=3, only_renews=True))
    assert (5, 4, HoldLoss.SPACE) == (renewed.index, renewed.lost_through, renewed.loss)
    node.broker.receipts.batch.holds += [HoldRecord(name, 3, 1) for name in "ab"]
    with pytest.raises(LimitReachedError, match="for 3 readers already"):
        hold_record(node, "c", HoldRequest(index=3))
    node.broker.receipts.take_batch()
    node.broker.receipts.batch.holds = [HoldRecord("h", 0, 0)]
    assert 0 == hold_record(node, "c", HoldRequest(index=3)).lost_through
    assert 3 == hold_record(node, "a", HoldRequest(index=9, only_renews=True)).index


def test_a_reader_that_is_silent_for_long_is_an_alarm(node: PaperNode) -> None:
    """
    Before its hold ends; one that may be silent for minutes only is a single query's.
    """
    silent = hold_status(node, hold(3, GiB, silent_seconds=6 * DAY))
    assert (silent.is_near_expiry, silent.is_alarm) == (True, True)
    assert (silent.silent_seconds, silent.expiry_seconds) == (6 * DAY, 7 * DAY)
    assert not hold_status(node, hold(3, GiB, silent_seconds=5 * DAY)).is_alarm
    assert not hold_status(node, hold(3, GiB, silent_seconds=500, expiry_seconds=600)).is_alarm
    node.broker.state.holds["h"] = hold(3, GiB, silent_seconds=6 * DAY)
    with capture_logs() as told:
        HoldWatch(node).step(100.0)
    assert ["h"] == [line["hold"] for line in told]


def test_the_status_says_that_a_full_disk_won(node: PaperNode) -> None:
    """
    And so does the error of a reader that comes back for what is gone.
    """
    node.journal.drop_before(node.journal.segments()[2].base_index)
    left_behind = hold(5, GiB, 4, loss=HoldLoss.SPACE)
    assert hold_status(node, left_behind).lost_because == "space"
    node.broker.state.holds["h"] = left_behind
    with pytest.raises(RecordNotFoundError, match="was left behind, as the disk was almost full"):
        hold_record(node, "h", HoldRequest(index=1))


def test_a_hold_may_begin_where_the_log_does(node: PaperNode) -> None:
    """
    Who goes on behind a gap cannot know where it ends: the log is cleaned meanwhile.
    """
    node.journal.drop_before(node.journal.segments()[2].base_index)
    first = node.journal.first_index
    assert hold_record(node, "h", HoldRequest(index=1, or_first=True)).index == first
    node.conductor.cleaner.leaving_through = first + 1
    assert hold_record(node, "h", HoldRequest(index=1, or_first=True)).index == first + 2
    assert hold_record(node, "h", HoldRequest(index=9, or_first=True)).index == 9


def test_who_only_renews_moves_nothing(node: PaperNode) -> None:
    """
    Unless the hold has ended: then it begins again.
    """
    renewal = HoldRequest(index=7, only_renews=True)
    assert hold_record(node, "h", renewal).index == 7
    node.broker.state.holds["h"] = hold(5, GiB, silent_seconds=9, expiry_seconds=60)
    renewed = hold_record(node, "h", renewal)
    assert (5, 60, 0) == (renewed.index, renewed.expiry_seconds, renewed.renewed_at)
