"""
The store over a driver and a journal that only pretend.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from holdfast.errors import CorruptEntryError, NotLeaderError, RecordNotFoundError
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, Entry, seal_entry
from holdfast.model.facts import Cause
from holdfast.model.records import DeleteQueueRecord, MessageRecord, MoveRecord, Run
from holdfast.replication.driver_view import DriverView
from holdfast.replication.messages import Hello
from holdfast.store.replicated_store import ReplicatedStore


class FakeJournal:
    """Entries in a list, in segments of three."""

    def __init__(self) -> None:
        self.kept: dict[int, Entry] = {}
        self.stored_index = 0
        self.space = "ok"
        self.space_watch = SimpleNamespace(is_over_limit=False, is_log_over=False)
        self.table = SimpleNamespace(content_bytes=9000)
        self.damage: list[SimpleNamespace] = []
        self.settings = SimpleNamespace(segment_bytes=1000, log_bytes_max=8000)
        self.reads = 0
        self.dropped_before = 1

    @property
    def first_index(self) -> int:
        return min(self.kept, default=1)

    @property
    def last_index(self) -> int:
        return max(self.kept, default=0)

    def entry(self, index: int) -> Entry:
        return self.kept[index]

    def locate_record(self, number: int) -> tuple[Entry, int]:
        self.reads += 1
        for entry in self.kept.values():
            if entry.first_record <= number < entry.next_record:
                return entry, number - entry.first_record
        raise RecordNotFoundError(f"record {number}")

    def drop_before(self, index: int) -> None:
        self.dropped_before = index
        for each in [each for each in self.kept if each < index]:
            del self.kept[each]

    def previous(self, first_index: int) -> tuple[int, bytes, int]:
        before = self.kept.get(first_index - 1)
        if before is not None:
            return before.term, before.chain, before.next_record
        return 6, b"previous chain..", 60 + first_index

    def space_state(self, now: float) -> str:
        return self.space

    @property
    def last_base(self) -> int:
        return (max(self.kept) - 1) // 3 * 3 + 1

    def has_damage(self, first_index: int, last_index: int) -> bool:
        return any(first_index <= it.index <= last_index for it in self.damage)


class FakeDriver:
    """A driver that commits when it is told to."""

    def __init__(self, journal: FakeJournal) -> None:
        self.journal = journal
        self.is_leading = True
        self.is_serving = True
        self.is_witness = False
        self.term = 4
        self.commit_index = 0
        self.sure_index = -1
        self.taken_index = 0
        self.log_epoch = 0
        self.config_index = 1
        self.cramped = ""
        self.is_journal_a_copy = False
        self.cache_refusal = ""
        self.reclaim_limit = 1 << 60
        self.is_backlog_full = False
        self.calls: list[object] = []
        self.hello = Hello("a", "aa" * 16)

    @property
    def has_committed(self) -> bool:
        return self.commit_index > self.taken_index and not self.is_witness

    # These are the driver's own: what is decided there is tested here with the store above it.
    is_writing = DriverView.is_writing
    promotion = DriverView.promotion

    @property
    def _journal(self) -> FakeJournal:
        return self.journal

    @property
    def _state(self) -> FakeDriver:
        return self

    def refusal(self) -> str:
        return f"the disk of {self.cramped} is almost full" if self.cramped else ""

    def propose(self, parts, record_count, *, now, wall_microseconds) -> Entry:
        if not self.is_leading:
            raise NotLeaderError("other")
        kept = self.journal.kept
        last = kept[max(kept)] if kept else None
        entry = seal_entry(
            index=last.index + 1 if last else 1,
            term=self.term,
            kind=KIND_RECORDS,
            timestamp=wall_microseconds,
            first_record=last.next_record if last else 1,
            record_count=record_count,
            parts=parts,
            previous_chain=last.chain if last else FIRST_CHAIN,
        )
        kept[entry.index] = entry
        return entry

    def take_committed(self, bytes_max: int) -> list[Entry]:
        taken = [
            entry
            for index, entry in self.journal.kept.items()
            if self.taken_index < index <= self.commit_index
        ]
        self.taken_index = self.commit_index
        return taken

    def turn(self, now: float) -> None:
        self.calls.append(("turn", now))

    def stored(self, result: object) -> None:
        self.calls.append(("stored", result))

    def may_dispatch(self, now: float) -> bool:
        return now < 5

    def report_damage(self, index: int) -> None:
        self.calls.append(("damage", index))

    def repropose_config(self) -> None:
        self.calls.append("config")


@pytest.fixture
def journal() -> FakeJournal:
    return FakeJournal()


@pytest.fixture
def driver(journal) -> FakeDriver:
    return FakeDriver(journal)


@pytest.fixture
def store(driver, journal) -> ReplicatedStore:
    return ReplicatedStore(driver, journal)


def test_the_promotion_that_a_cluster_goes_on_by_is_told(driver, store) -> None:
    """Its generation and when it was begun; nothing where nobody was promoted by force."""
    assert "" == store.promotion
    driver.hello = replace(driver.hello, generation=2, lineage=(1700, 2048))
    assert "2-1700" == store.promotion


def append(store: ReplicatedStore, count: int = 1) -> None:
    for number in range(count):
        store.append(
            [DeleteQueueRecord(9), MessageRecord(1, number + 1, b"h:1\n", b"%d" % number, 5)],
            0.0,
            1000 + number,
        )


def test_records_become_one_entry(store, journal) -> None:
    """
    The batch is the unit: one entry with all its records.
    """
    append(store)
    (entry,) = journal.kept.values()
    assert entry.record_count == 2
    first, second = store.decode(entry, with_content=True)
    assert isinstance(first, DeleteQueueRecord)
    assert isinstance(second, MessageRecord)
    assert second.body == b"0"
    assert [r.body for r in store.decode(entry) if isinstance(r, MessageRecord)] == [None]


def test_a_follower_takes_no_records(store, driver) -> None:
    """
    The error says who leads.
    """
    driver.is_leading = False
    with pytest.raises(NotLeaderError, match="other"):
        append(store)


def test_it_is_writing_until_its_own_disk_has_it(store, journal) -> None:
    """
    Meanwhile the next batch gathers.
    """
    assert not store.is_writing
    append(store, 2)
    journal.stored_index = 1
    assert store.is_writing
    journal.stored_index = 2
    assert not store.is_writing


def test_a_quorum_without_this_disk_lets_the_next_batch_go(store, driver) -> None:
    """
    A leader whose disk hangs goes on as long as others store, until too much waits for it.
    """
    append(store, 1)
    driver.commit_index = 1
    assert not store.is_writing

    driver.is_backlog_full = True
    assert store.is_writing


def test_what_was_cut_off_is_not_waited_for(store, journal) -> None:
    """
    A leader deposed and elected again with a shorter log must not wait for its old proposals.
    """
    append(store, 5)
    del journal.kept[4], journal.kept[5]
    journal.stored_index = 3
    assert not store.is_writing


def test_committed_entries_are_given_once(store, driver) -> None:
    """
    In order; nothing to a witness.
    """
    append(store, 3)
    assert not store.has_committed()
    assert store.take_committed(100) == []
    driver.commit_index = 2
    assert store.has_committed()
    assert [entry.index for entry in store.take_committed(100)] == [1, 2]
    assert store.applied_index == 0
    assert store.is_applying
    driver.sure_index = 2
    assert not store.is_sure
    store.applied(store.entry(2), 0)
    assert store.applied_index == 2
    assert store.is_sure
    driver.sure_index = -1
    assert not store.is_sure
    assert not store.is_applying
    assert store.take_committed(100) == []
    driver.commit_index = 3
    driver.is_witness = True
    assert not store.has_committed()


def test_a_log_begun_anew_is_told_once(store, driver, journal) -> None:
    """
    What was read of the old log is forgotten with it.
    """
    append(store, 2)
    assert store.read(2).body == b"0"
    assert not store.is_begun_anew()
    driver.log_epoch += 1
    assert store.is_begun_anew()
    assert not store.is_begun_anew()
    store.read(2)
    assert journal.reads == 2


def test_a_backlog_is_read_entry_by_entry(store, journal) -> None:
    """
    One look-up for all messages of an entry.
    """
    store.append([MessageRecord(1, n, b"", b"%d" % n, 1) for n in range(5)], 0.0, 1)
    append(store)
    assert [store.read(number).body for number in range(1, 6)] == [b"%d" % n for n in range(5)]
    assert journal.reads == 1
    assert store.read(7).body == b"0"
    assert journal.reads == 2


def test_what_is_no_message_is_not_found(store) -> None:
    """
    A record of another kind, a number that is not in the log; good ones stay readable.
    """
    append(store)
    for number in (1, 99):
        with pytest.raises(RecordNotFoundError):
            store.read(number)
    assert store.read(2).body == b"0"


def test_what_moved_messages_is_read_back(store) -> None:
    """
    Of a durable subscription it names the topic in front, of a queue nothing.
    """
    for topic in (0, 6):
        run = [Run(1, 1, 1)]
        move = MoveRecord(7, 3, Cause.REJECTED, run, queue_name="q", topic_number=topic)
        store.append([move], 0.0, 1)
    found = [store.read_move(number) for number in (1, 2)]
    assert [(it.topic_number, it.queue_number, it.queue_name) for it in found] == [
        (0, 7, "q"),
        (6, 7, "q"),
    ]
    with pytest.raises(RecordNotFoundError):
        store.read_move(3)


def test_the_entry_of_what_was_read_is_known(store, journal) -> None:
    """
    Also of the one read before it, as of what was moved; any other is looked for.
    """
    for _ in range(3):
        append(store)
    found = [journal.locate_record(number)[0].index for number in (2, 4, 6)]
    for number in (2, 4):
        store.read(number)
    reads = journal.reads
    assert [store.entry_index(number) for number in (2, 4)] == found[:2]
    assert journal.reads == reads
    assert store.entry_index(6) == found[2]
    assert journal.reads == reads + 1
    with pytest.raises(RecordNotFoundError):
        store.entry_index(99)


def test_segments_go_when_that_is_durable_here(store, driver, journal) -> None:
    """
    Dropped before, a crash could bring back a log without its beginning and no word of why.
    """
    append(store, 9)
    store.applied(journal.kept[7], 0)
    store.applied(journal.kept[8], 3)
    journal.stored_index = 7
    store.turn(1.0)
    assert journal.first_index == 1
    journal.stored_index = 8
    store.turn(2.0)
    assert journal.first_index == 4
    store.applied(journal.kept[9], 3)
    journal.stored_index = 9
    journal.dropped_before = 0
    store.turn(3.0)
    assert journal.dropped_before == 0


def test_a_member_that_needs_the_log_keeps_it(store, driver, journal) -> None:
    """
    Reclaiming waits for it, and goes on when it has caught up.
    """
    append(store, 9)
    journal.stored_index = 9
    driver.reclaim_limit = 2
    store.applied(journal.kept[9], 6)
    store.turn(1.0)
    assert journal.dropped_before == 2
    driver.reclaim_limit = 100
    store.turn(2.0)
    assert journal.first_index == 7
    assert store.first_index == 7


def test_a_place_is_where_a_log_could_end(store, journal) -> None:
    """
    Term, chain and next record: what a checkpoint is bound to.
    """
    append(store, 4)
    assert store.place_of(2) == (4, journal.kept[2].chain, 5)
    journal.drop_before(4)
    assert store.place_of(3) == (6, b"previous chain..", 64)


def test_segments_and_damage(store, driver, journal) -> None:
    """
    What the cleaner plans with; damage is told to the replication where its entry is known.
    """
    append(store, 7)
    assert (store.segment_bytes, store.last_segment_base) == (1000, 7)
    journal.damage.append(SimpleNamespace(index=5))
    assert [store.has_damage(base, base + 2) for base in (1, 4, 7)] == [False, True, False]
    store.report_damage(CorruptEntryError("bad", index=5))
    store.report_damage(CorruptEntryError("bad"))
    assert driver.calls == [("damage", 5)]
    assert store.entry(3) is journal.kept[3]


def test_the_membership_is_kept(store, driver) -> None:
    """
    Proposed again before the only entry that holds it goes.
    """
    driver.config_index = 4
    store.keep_membership(3)
    assert driver.calls == []
    store.keep_membership(4)
    assert driver.calls == ["config"]


def test_a_disk_almost_full_refuses_publishing(store, journal) -> None:
    """
    With a sentence for the client.
    """
    assert store.refusal(0.0) is None
    journal.space = "low"
    assert "disk is almost full" in (store.refusal(0.0) or "")
    journal.space_watch.is_over_limit = True
    assert "at most 8,000 (log_bytes_max): publishing is refused" in (store.refusal(0.0) or "")


def test_a_full_disk_under_a_copy_of_the_log_refuses_nothing(store, driver, journal) -> None:
    """
    The log is elsewhere: only that place, its limit, and what cannot be kept up with count.
    """
    driver.is_journal_a_copy = True
    journal.space = "low"
    assert (store.is_space_low(0.0), store.is_full(0.0)) == (True, False)
    assert store.refusal(0.0) is None
    driver.cache_refusal = "no room for the copy"
    assert not store.is_full(0.0)
    assert store.refusal(0.0) == "no room for the copy"
    journal.space_watch.is_log_over = True
    assert store.is_full(0.0)
    assert "(log_bytes_max)" in (store.refusal(0.0) or "")
    driver.cramped = "w"
    assert "the disk of w" in (store.refusal(0.0) or "")


def test_roles_are_the_drivers(store, driver) -> None:
    """
    Nothing is decided here.
    """
    assert (store.is_serving, store.term) == (True, 4)
    assert (store.may_dispatch(4.0), store.may_dispatch(6.0)) == (True, False)
    store.stored("result")  # type: ignore[arg-type]
    assert driver.calls == [("stored", "result")]


def test_a_witness_whose_disk_is_almost_full_refuses_publishing(store, driver) -> None:
    """
    Where it is needed its log must not grow: the cleaner hurries, clients are told why they wait.
    """
    driver.cramped = "w"
    assert store.is_space_low(0.0)
    assert "the disk of w is almost full" in str(store.refusal(0.0))
