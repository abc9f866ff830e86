"""What the worker does on the medium, what it verifies, and what it makes of errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    AppendRefusedError,
    CorruptEntryError,
    MissingEntriesError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.leases.contract import Claimant, Holding, Outcome, Place, Waiter
from holdfast.leases.orders import (
    Drop,
    Fetch,
    Join,
    Look,
    Release,
    Renew,
    Report,
    Store,
    Take,
    Tell,
)
from holdfast.leases.seen import SeenFile
from holdfast.leases.worker import LogWorker, WorkerThread
from trials.leased.model_log import ModelLog
from trials.leased.model_medium import NOTHING, ModelMedium
from trials.leased.passage import LOST, DirectPassage, Fate
from trials.simulation.simulated_disk import SimulatedDisk

DIRECTORY = Path("/node")
ZEROS = bytes(16)
CLAIMANT = Claimant(holder="a" * 32, name="a", admin="a:1", stomp="a:2")


def entries(count: int, *, after: Place = NOTHING, term: int = 1) -> list[Entry]:
    """So many entries of one record each, behind this place."""
    made = []
    chain = after.chain
    for index in range(after.index + 1, after.index + 1 + count):
        entry = seal_entry(
            index=index,
            term=term,
            kind=KIND_RECORDS,
            timestamp=index,
            first_record=index,
            record_count=1,
            parts=[b"payload %d" % index],
            previous_chain=chain,
        )
        chain = entry.chain
        made.append(entry)
    return made


class Desk:
    """A worker with its medium, and orders by short names."""

    def __init__(self, medium: ModelMedium) -> None:
        self.medium = medium
        self.passage = DirectPassage()
        self.log = ModelLog(medium, self.passage)
        self.disk = SimulatedDisk(1)
        self.disk.make_directory(DIRECTORY)
        self.seen = SeenFile(DIRECTORY, self.disk)
        self.worker = LogWorker(self.log, self.seen, self.passage.clock, name="a")

    def join(self, index: int = 0, chain: bytes = ZEROS) -> Report:
        return self.worker.perform(Join(index, chain, 1.0))

    def look(self, index: int = 0, chain: bytes = ZEROS) -> Report:
        return self.worker.perform(Look(index, chain, 1.0))

    def hold(self, count: int = 0) -> list[Entry]:
        """Take the lease and store so many entries."""
        self.join()
        self.worker.perform(Take(self.medium.read(), CLAIMANT, 1.0))
        stored = entries(count)
        if stored:
            assert Outcome.STORED is self.worker.perform(Store(stored, 1.0)).outcome
        return stored


@pytest.fixture
def desk(medium: ModelMedium) -> Desk:
    """A worker over an empty medium."""
    return Desk(medium)


def test_whoever_joins_an_empty_log_has_its_beginning(desk: Desk) -> None:
    """An empty cache fits an empty log."""
    report = desk.join()

    assert report.error is None
    assert not report.is_other
    assert report.holding == desk.medium.read()


def test_a_cache_of_this_log_is_gone_on_with_and_another_is_not(desk: Desk) -> None:
    """Index and chain tell, also in the middle of the log."""
    stored = desk.hold(5)

    assert not desk.join(3, stored[2].chain).is_other
    assert desk.join(3, stored[3].chain).is_other


def test_a_cache_that_knows_more_than_was_noted_is_believed_where_a_fence_judged_it(
    desk: Desk,
) -> None:
    """
    The note of what was seen is up to a second old; what is in the cache was confirmed (L37).
    """
    stored = desk.hold(5)
    beyond = desk.join(9, stored[4].chain)

    assert "entry 9, and it ends at 5 now" in str(beyond.error)
    desk.seen.last = None
    assert desk.join(9, stored[4].chain).is_other


def test_without_a_fence_a_cache_may_have_what_a_take_has_cut(desk: Desk) -> None:
    """It is read anew then, and nothing is refused."""
    stored = desk.hold(5)
    desk.log.is_fence = False

    report = desk.join(9, stored[4].chain)
    assert report.error is None
    assert report.is_other


def test_an_epoch_that_was_won_and_never_begun_is_not_remembered(desk: Desk) -> None:
    """Whoever won it may be gone without a trace, and the log is at the one before again."""
    desk.hold(2)
    read = desk.medium.read
    desk.medium.read = lambda: replace(read(), epoch=2, beat=0)  # type: ignore[method-assign]
    assert desk.look().error is None
    desk.medium.read = read  # type: ignore[method-assign]

    assert desk.look().error is None
    assert desk.seen.last is not None
    assert 1 == desk.seen.last.epoch


def test_whoever_knows_nothing_of_a_log_that_was_cleaned_begins_behind_an_anchor(
    desk: Desk,
) -> None:
    """The oldest entry kept is not read itself: it says what the next one follows on."""
    stored = desk.hold(6)
    while desk.worker.perform(Drop(4, 1.0)).is_more:
        pass
    report = desk.look()

    assert report.is_other
    assert report.anchor == stored[3]
    following = desk.look(4, stored[3].chain)
    assert [5, 6] == [it.index for it in following.entries]


def test_a_look_gives_what_is_behind_the_last_known(desk: Desk) -> None:
    """In order, and says whether there is more."""
    stored = desk.hold(4)
    report = desk.look(2, stored[1].chain)

    assert stored[2:] == report.entries
    assert not report.is_more
    assert [] == desk.look(4, stored[3].chain).entries


def test_a_log_that_is_broken_in_itself_is_refused(desk: Desk) -> None:
    """Rows of another past in the middle, and in the place right behind what is known (L38)."""
    stored = desk.hold(4)
    foreign = entries(4, after=Place(0, b"x" * 16))
    desk.medium.rows[3] = foreign[2].raw

    for known in (0, 2):
        chain = stored[known - 1].chain if known else ZEROS
        report = desk.look(known, chain)
        assert isinstance(report.error, StoreError)
        assert "entry 3 of the store does not follow" in str(report.error)
        assert not report.is_other


def test_what_was_dropped_in_the_middle_of_a_look_is_no_damage(desk: Desk) -> None:
    """The lease was read, then the holder dropped: the next look begins anew."""
    desk.hold(6)
    asked: list[int] = []

    def drop() -> None:
        asked.append(1)
        if len(asked) == 2:
            desk.medium.first_index = 5
            for index in range(1, 5):
                desk.medium.rows.pop(index)

    desk.passage.while_waiting = drop
    report = desk.look()

    assert report.error is None
    assert report.is_more
    assert [] == report.entries
    assert desk.look().is_other


@pytest.mark.parametrize("is_sure", [False, True], ids=["never sure", "sure"])
def test_what_a_take_cuts_off_in_the_middle_of_a_look_is_no_damage(
    desk: Desk, is_sure: bool
) -> None:
    """
    It was won when the lease was read, and begun in that very epoch when the entries were.

    What was sure cannot be cut off.
    """
    stored = desk.hold(6)
    read, asked = desk.medium.read, list[int]()
    sure = Place(stored[3].index, stored[3].chain)

    def read_unsure() -> Holding:
        return replace(read(), sure=read().end if is_sure else sure)

    def cut() -> None:
        asked.append(1)
        if len(asked) == 2:
            desk.medium.end = sure
            for index in (5, 6):
                desk.medium.rows.pop(index)

    desk.log.is_fence = False
    desk.medium.read = read_unsure  # type: ignore[method-assign]
    desk.passage.while_waiting = cut
    report = desk.look(4, stored[3].chain)

    if is_sure:
        assert isinstance(report.error, MissingEntriesError)
        return
    assert report.error is None
    assert report.is_more
    assert not desk.look(4, stored[3].chain).is_other


def test_what_is_missing_or_rotten_in_the_medium_is_an_error(desk: Desk) -> None:
    """The error names the entry; nothing is skipped (L38)."""
    desk.hold(4)
    desk.medium.damage(2)
    rotten = desk.look().error
    del desk.medium.rows[2]
    missing = desk.look().error

    assert isinstance(rotten, CorruptEntryError)
    assert 2 == rotten.index
    assert isinstance(missing, MissingEntriesError)
    assert 2 == missing.index


def test_a_medium_that_went_back_is_refused_while_looking_and_when_joining(desk: Desk) -> None:
    """What this broker saw is not there any more (L37)."""
    desk.hold(2)
    backup = desk.medium.backup()
    desk.worker.perform(Store(entries(2, after=desk.medium.end), 1.0))
    desk.medium.restore(backup)

    for report in (desk.look(), desk.join()):
        assert isinstance(report.error, StoreError)
        assert "went back in time" in str(report.error)


def test_a_medium_that_went_back_and_grew_again_is_refused(desk: Desk) -> None:
    """Longer than what was seen, in a later epoch, and yet without it: it is not begun anew."""
    stored = desk.hold(2)
    backup = desk.medium.backup()
    lost = entries(2, after=desk.medium.end)
    desk.worker.perform(Store(lost, 1.0))
    desk.medium.restore(backup)
    other = replace(CLAIMANT, holder="b" * 32, name="b")
    desk.medium.take(desk.medium.read(), other)
    desk.medium.append(2, other.holder, entries(5, after=Place(2, stored[1].chain), term=2))

    for report in (desk.look(4, lost[1].chain), desk.look(9, lost[1].chain), desk.join()):
        assert isinstance(report.error, StoreError)
        assert "another entry 4 than there is now" in str(report.error)
        assert not report.is_other


def test_what_was_stored_past_the_lease_is_not_taken_for_final(desk: Desk) -> None:
    """Without a fence a zombie may be told that its entry is stored: nobody may rely on it."""
    desk.hold(1)
    more = entries(1, after=desk.medium.end)
    report = desk.worker.perform(Store(more, 1.0, desk.passage.now))

    assert Outcome.STORED is report.outcome
    assert desk.seen.last is not None
    assert 1 == desk.seen.last.place.index


def test_a_lost_reply_is_answered_by_the_same_again(desk: Desk) -> None:
    """It is stored once, and the second attempt says so (L32)."""
    desk.hold()
    stored = entries(2)
    desk.passage.fates.append(Fate(after=LOST))
    first = desk.worker.perform(Store(stored, 1.0))
    second = desk.worker.perform(Store(stored, 1.0))

    assert isinstance(first.error, UnreachableError)
    assert first.outcome is None
    assert Outcome.STORED is second.outcome
    assert [1, 2] == sorted(desk.medium.rows)


def test_a_late_append_of_an_epoch_that_is_over_changes_nothing(desk: Desk) -> None:
    """It was undecided, then another took the lease, then it arrived (L33)."""
    desk.hold()
    desk.passage.fates.append(Fate(before=30.0))
    unknown = desk.worker.perform(Store(entries(1), 1.0))
    other = replace(CLAIMANT, holder="b" * 32, name="b")
    desk.medium.take(desk.medium.read(), other)
    desk.passage.wait(60.0)

    assert isinstance(unknown.error, UnreachableError)
    assert {} == desk.medium.rows
    assert Outcome.DEPOSED is desk.worker.perform(Store(entries(1), 1.0)).outcome


def test_each_order_reports_what_it_was_for(desk: Desk) -> None:
    """Take, renew, drop, fetch, tell and release, one after the other."""
    stored = desk.hold(3)
    worker = desk.worker
    waiter = Waiter(claimant=CLAIMANT, known_level=3, beat=1, applied_index=2)

    assert Outcome.STORED is worker.perform(Renew(1.0)).outcome
    assert [stored[1]] == worker.perform(Fetch(2, 1.0)).entries
    assert [waiter] == worker.perform(Tell(waiter, 1.0)).waiters
    assert not worker.perform(Drop(2, 1.0)).is_more
    assert 2 == desk.medium.first_index
    assert worker.perform(Release(1.0)).error is None
    assert desk.medium.is_released


def test_a_take_that_came_too_late_is_nobodys_fault(desk: Desk) -> None:
    """Somebody else was first: no error, and no lease (L5)."""
    desk.join()
    seen = desk.medium.read()
    desk.medium.take(seen, replace(CLAIMANT, holder="b" * 32, name="b"))
    report = desk.worker.perform(Take(seen, CLAIMANT, 1.0))

    assert report.error is None
    assert report.holding is None


def test_a_report_says_when_it_began(desk: Desk) -> None:
    """From before anything was sent: what is counted from it is never too late (L9)."""
    desk.hold()
    desk.passage.fates.append(Fate(before=0.2, after=0.3))
    began = desk.passage.now
    report = desk.worker.perform(Renew(1.0))

    assert began == report.began
    assert pytest.approx(0.5) == report.seconds


def test_whatever_is_raised_becomes_a_report(desk: Desk) -> None:
    """Also what is no error of ours: the thread must live, and the driver judge."""
    desk.hold()
    desk.passage.fates.append(Fate(refusal="full"))
    assert isinstance(desk.worker.perform(Store(entries(1), 1.0)).error, AppendRefusedError)

    def break_down() -> None:
        raise ZeroDivisionError("a driver's own")

    desk.passage.while_waiting = break_down
    error = desk.worker.perform(Renew(1.0)).error
    assert type(error) is StoreError
    assert "ZeroDivisionError" in str(error)


def test_a_clean_end_gives_the_lease_back(desk: Desk) -> None:
    """It is released, its line is gone, what was seen is written, and the medium let go (L6)."""
    desk.hold(2)
    desk.worker.perform(
        Tell(Waiter(claimant=CLAIMANT, known_level=3, beat=1, applied_index=2), 1.0)
    )
    desk.worker.close()

    assert desk.medium.is_released
    assert {} == desk.medium.waiters
    assert desk.log.is_closed
    last = SeenFile(DIRECTORY, desk.disk).last
    assert last is not None
    assert 2 == last.place.index


def test_an_end_without_the_medium_ends_all_the_same(desk: Desk) -> None:
    """What cannot be told is not told; the medium is let go."""
    desk.hold()
    desk.passage.fates.append(Fate(before=LOST))
    desk.worker.close()

    assert desk.log.is_closed
    assert not desk.medium.is_released


def test_the_thread_reports_in_order_and_ends(desk: Desk) -> None:
    """Each order is answered once; closing does what was submitted first, then says good-bye."""
    reports: list[Report] = []
    thread = WorkerThread(desk.worker, reports.append)
    thread.start()
    orders: list[Any] = [Join(0, ZEROS, 1.0), Look(0, ZEROS, 1.0), Renew(1.0)]
    for order in orders:
        thread.submit(order)

    assert thread.close(10.0)
    assert orders == [it.order for it in reports]
    assert desk.log.is_closed


def test_a_thread_that_hangs_is_left(desk: Desk) -> None:
    """Closing waits so long and no longer; it says that the thread is not done."""
    gate = threading.Event()
    waits: Callable[[], Any] = lambda: gate.wait(10.0)  # noqa: E731 - what hangs
    desk.passage.while_waiting = waits
    thread = WorkerThread(desk.worker, lambda _report: None)
    assert thread.close(0.0)
    thread.start()
    thread.submit(Join(0, ZEROS, 1.0))

    assert not thread.close(0.05)
    gate.set()
    assert thread.close(10.0)


def test_an_unknown_take_is_not_held(desk: Desk) -> None:
    """Its reply was lost: nothing may be stored under it before it is taken again."""
    desk.join()
    desk.passage.fates.append(Fate(after=LOST))
    lost = desk.worker.perform(Take(desk.medium.read(), CLAIMANT, 1.0))
    seen: Holding = desk.medium.read()

    assert isinstance(lost.error, UnreachableError)
    assert seen.claimant == CLAIMANT
    assert Outcome.DEPOSED is desk.worker.perform(Store(entries(1), 1.0)).outcome
    again = desk.worker.perform(Take(seen, CLAIMANT, 1.0)).holding
    assert again is not None
    assert 2 == again.epoch


def test_who_knows_its_log_begins_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it saw last, or by what it has of the log."""
    asked: list[bool] = []

    def opens(*, may_lay_out: bool) -> Holding:
        asked.append(may_lay_out)
        raise StoreError("not there")

    monkeypatch.setattr(desk.log, "open", opens)
    desk.join()
    desk.join(7, b"c" * 16)
    desk.seen.note("i" * 32, 1, Place(1, b"c" * 16), 0.0)
    desk.join()

    assert [True, False, False] == asked


def test_entries_may_take_longer_than_the_lease_and_what_is_away_is_known_soon(
    desk: Desk,
) -> None:
    """A look that cannot read entries says that the lease could be read; one that cannot, not."""
    desk.hold(1)
    slow = Fate(before=4.0)
    desk.passage.fates.extend([Fate(), slow])
    assert [1] == [it.index for it in desk.worker.perform(Look(0, ZEROS, 1.0, 5.0)).entries]

    desk.passage.fates.extend([Fate(), slow])
    report = desk.worker.perform(Look(0, ZEROS, 1.0, 2.0))
    assert isinstance(report.error, UnreachableError)
    assert report.holding is not None

    desk.passage.fates.append(slow)
    report = desk.worker.perform(Look(0, ZEROS, 1.0, 5.0))
    assert isinstance(report.error, UnreachableError)
    assert (report.holding, report.seconds) == (None, 1.0)


def test_a_line_that_is_watched_does_not_keep_the_lease_from_being_read(desk: Desk) -> None:
    """Both are waited for at the same time; the reading is in the report that puts it off."""

    class Watching:
        def judge(self, *_: object) -> None:
            raise UnreachableError("a broker called a was here")

    desk.worker._namesakes = Watching()  # type: ignore[assignment]
    report = desk.worker.perform(Join(0, ZEROS, 5.0))
    assert isinstance(report.error, UnreachableError)
    assert report.holding is not None
