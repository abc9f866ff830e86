"""
The contracts as suites: what every store must do, run on each implementation.

A test module gives its store to the suite by a subclass, which pytest collects:

    class TestMyStore(LogStoreContract):
        def start(self) -> StoreUnderTest: ...

The suite waits for nothing by the clock: `settle` lets the store come to rest. Nothing here needs
pytest; a failed promise is an AssertionError that names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Final

from holdfast.errors import (
    CorruptEntryError,
    JournalFailedError,
    NotLeaderError,
    RecordNotFoundError,
)
from holdfast.model.records import MessageRecord, Record
from holdfast.store.contract import CommittedEntry, LogStore
from holdfast.store.sealing import Sealing
from holdfast.testing.every_record import QUEUE, one_of_each, told_by

_PLENTY: Final = 1 << 30
_STEPS_MAX: Final = 6
"""After so many steps what was appended is on its way out of any store."""


class StoreUnderTest(ABC):
    """One store on this node's own medium, and the power it runs on."""

    store: LogStore
    now: float = 100.0
    """Seconds of the store's monotonic clock; `settle` moves it on as it needs."""

    given: list[CommittedEntry]
    """What the store gave on its way to serve, see `lead`."""

    @abstractmethod
    def settle(self) -> None:
        """Turn, and let the writer write, until nothing is on its way."""

    def step(self) -> None:
        """Do the least of that: one turn, or one write of the writer's."""
        self.store.turn(self.now)

    @abstractmethod
    def cut_power(self) -> None:
        """
        Lose all that is not durable, and open `store` anew on what is there.

        Nobody has kept any state: it gives what is committed from its first entry on.
        """

    @abstractmethod
    def fail_writes(self) -> None:
        """Let the medium refuse what is written next, until the power is cut."""

    @abstractmethod
    def damage(self, index: int) -> None:
        """Let an entry rot on the medium, so that it cannot be read any more."""

    def lead(self) -> LogStore:
        """Give the store once it serves; what is committed until then is applied."""
        self.given = []
        for _ in range(100):
            self.settle()
            self.given += apply_all(self.store)
            if self.store.is_serving:
                return self.store
        raise AssertionError("a store that is alone comes to serve")

    def append(self, *bodies: bytes) -> int:
        """Append an entry of messages; give its index."""
        return self.append_records([message(body) for body in bodies])

    def append_records(self, records: list[Record], *, is_sealed: bool = False) -> int:
        """Append an entry, `is_sealed` in steps before as a large one is; give its index."""
        self.now += 0.001
        body = None
        if is_sealed:
            sealing = Sealing(self.store.new_body(0), records)
            while sealing.step():
                pass
            body = sealing.body
        return self.store.append(records, self.now, int(self.now * 1e6), body)


def message(body: bytes) -> MessageRecord:
    """Make a message of one queue."""
    headers = b"name:value\n"
    return MessageRecord(QUEUE, 1, headers, body, len(headers) + len(body), None, 0)


def body_of(record: MessageRecord) -> bytes:
    """Give the body of a message that was read with its content."""
    assert record.body is not None, "its content was asked for"
    return bytes(record.body)


def apply_all(store: LogStore, bytes_max: int = _PLENTY) -> list[CommittedEntry]:
    """Take all that is committed, as the loop does."""
    taken: list[CommittedEntry] = []
    while store.has_committed():
        for entry in store.take_committed(bytes_max):
            taken.append(entry)
            store.applied(entry, 0)
    return taken


def bodies_of(store: LogStore, entries: list[CommittedEntry]) -> list[bytes]:
    """Give the bodies of all messages, in order."""
    # What holds no records is the store's own.
    full = (entry for entry in entries if entry.record_count)
    records = (it for entry in full for it in store.decode(entry, with_content=True))
    return [body_of(it) for it in records if isinstance(it, MessageRecord)]


class LogStoreContract(ABC):
    """What every store keeps; see `store.contract`."""

    @abstractmethod
    def start(self) -> StoreUnderTest:
        """Open an empty store."""

    def test_what_is_appended_is_given_once_and_in_order(self) -> None:
        """Entries come out as they went in, each once, the records within in order."""
        under = self.start()
        store = under.lead()
        for number in range(20):
            under.append(b"%d a" % number, b"%d b" % number)
            if number % 3 == 0:
                under.settle()
        under.settle()

        taken = apply_all(store)

        assert bodies_of(store, taken) == [b"%d %c" % (n, c) for n in range(20) for c in b"ab"]
        assert not store.has_committed(), "nothing is given twice"

    def test_indexes_and_record_numbers_have_no_gaps(self) -> None:
        """The index that `append` gave is the entry's; numbers go on where the last entry ended."""
        under = self.start()
        store = under.lead()
        indexes = [under.append(*[b"x"] * count) for count in (1, 3, 2)]
        under.settle()

        taken = [it for it in apply_all(store) if it.index >= indexes[0]]

        assert [it.index for it in taken] == indexes
        assert indexes == list(range(indexes[0], indexes[0] + 3))
        assert [it.record_count for it in taken] == [1, 3, 2]
        for one, following in pairwise(taken):
            assert following.first_record == one.first_record + one.record_count
            assert following.timestamp > one.timestamp
            assert following.term == one.term == store.term

    def test_what_an_entry_takes_of_the_log_is_known_before(self) -> None:
        """As foretold by its records' length, so by the entry, and so the log grows."""
        under = self.start()
        store = under.lead()
        before = store.log_bytes
        for size in (0, 1, 7, 8, 9, 1_000):
            under.append(b"x" * size)
        under.settle()

        taken = [it for it in apply_all(store) if it.record_count]

        for entry in taken:
            assert entry.bytes_in_log == store.entry_bytes(entry.body_length)
            assert entry.body_length == len(entry.body) < entry.bytes_in_log
        assert store.log_bytes == before + sum(it.bytes_in_log for it in taken)

    def test_nothing_is_given_before_it_is_durable(self) -> None:
        """What was given as committed at any moment is there after a power cut in that moment."""
        under = self.start()
        under.lead()
        told: list[bytes] = []
        for number in range(4 * _STEPS_MAX):
            under.append(b"%d" % number)
            for _ in range(number % _STEPS_MAX):
                under.step()
                told += bodies_of(under.store, apply_all(under.store))
            under.cut_power()
            under.lead()
            kept = self._all_bodies(under)
            assert [it for it in kept if it in told] == told, "given, and lost"
        assert told, "one step after the other nothing is ever given"

    def test_what_was_committed_is_given_again_after_a_power_cut(self) -> None:
        """Nothing that was committed is missing, changed or in another order."""
        under = self.start()
        under.lead()
        for number in range(30):
            under.append(b"%d" % number)
            under.settle()
        apply_all(under.store)
        for _ in range(3):
            under.cut_power()
            under.lead()
            appended = [b"%d" % number for number in range(30)]
            assert bodies_of(under.store, under.given) == appended, "a start is given all"
            assert self._all_bodies(under) == appended

    def test_records_of_each_kind_come_back_as_they_were(self) -> None:
        """A store changes nothing in what it is given, in one piece or sealed before."""
        under = self.start()
        store = under.lead()
        for is_sealed in (False, True):
            index = under.append_records(one_of_each(), is_sealed=is_sealed)
            under.settle()
            entry = next(it for it in apply_all(store) if it.index == index)

            came = list(store.decode(entry, with_content=True))

            assert list(map(told_by, came)) == list(map(told_by, one_of_each()))
            for number, record in enumerate(one_of_each(), entry.first_record):
                if isinstance(record, MessageRecord):
                    assert told_by(store.read(number)) == told_by(record)

    def test_after_a_failed_write_nothing_is_committed(self) -> None:
        """A turn raises from then on, each time; what was committed before is there again."""
        under = self.start()
        under.lead()
        under.append(b"kept")
        under.settle()
        apply_all(under.store)
        under.fail_writes()
        under.append(b"refused")
        for _ in range(3):
            try:
                under.settle()
            except JournalFailedError:
                pass
            else:
                raise AssertionError("it goes on after a failed write")
            assert b"refused" not in bodies_of(under.store, apply_all(under.store))
        under.cut_power()
        under.lead()
        assert self._all_bodies(under)[:1] == [b"kept"]

    def test_a_damaged_entry_is_told_with_its_place(self) -> None:
        """It is given before nothing that comes after it, and asked for again and again."""
        under = self.start()
        under.lead()
        indexes = []
        for number in range(5):
            indexes.append(under.append(b"%d" % number))
            under.settle()
            apply_all(under.store)
        under.damage(indexes[2])
        under.cut_power()

        for _ in range(3):
            assert self._damage_met(under).index == indexes[2]
            assert under.store.applied_index == indexes[1]
        try:
            under.store.entry(indexes[2])
        except CorruptEntryError:
            pass
        else:
            raise AssertionError("a damaged entry was read")

    @staticmethod
    def _damage_met(under: StoreUnderTest) -> CorruptEntryError:
        """Take what is committed until that fails, and give why."""
        for _ in range(100):
            under.settle()
            try:
                apply_all(under.store, 1)
            except CorruptEntryError as error:
                return error
        raise AssertionError("a damaged entry was passed over, or given")

    def test_a_message_is_read_by_its_number(self) -> None:
        """Any message is read back at any time; a number of none is told, not guessed."""
        under = self.start()
        store = under.lead()
        for number in range(5):
            under.append(b"%d a" % number, b"%d b" % number)
        under.settle()
        taken = apply_all(store)
        numbers = [n for it in taken for n in range(it.first_record, it.first_record + 2)]

        read = [body_of(store.read(number)) for number in reversed(numbers[-10:])]

        assert read == [b"%d %c" % (n, c) for n in range(4, -1, -1) for c in b"ba"]
        try:
            store.read(numbers[-1] + 1)
        except RecordNotFoundError:
            pass
        else:
            raise AssertionError("a record that is not there was read")

    def test_who_does_not_lead_may_not_append(self) -> None:
        """Before it leads a store refuses, and what was refused never comes."""
        under = self.start()
        if not under.store.is_leader:
            try:
                under.append(b"too early")
            except NotLeaderError:
                pass
            else:
                raise AssertionError("appended without the lead")
        under.lead()
        assert b"too early" not in self._all_bodies(under)

    def test_it_says_what_is_on_its_way_and_what_is_applied(self) -> None:
        """`is_writing` ends by itself; applied is what was told to be, entry by entry."""
        under = self.start()
        store = under.lead()
        index = under.append(b"x")
        assert not store.is_applied_whole, "what is in the log and not applied"
        under.settle()
        assert not store.is_writing

        (entry,) = store.take_committed(_PLENTY)

        assert entry.index == index and store.is_applying
        store.applied(entry, 0)
        assert store.applied_index == index
        assert not store.is_applying and store.is_applied_whole

    def test_a_bound_of_bytes_gives_one_entry_at_least(self) -> None:
        """Who asks for little is given one entry after the other, never nothing."""
        under = self.start()
        store = under.lead()
        for number in range(4):
            under.append(b"%d" % number * 1000)
        under.settle()

        sizes = []
        while store.has_committed():
            some = store.take_committed(1)
            sizes.append(len(some))
            for entry in some:
                store.applied(entry, 0)

        assert sizes == [1, 1, 1, 1]

    def test_terms_rise_and_tell_leaderships_apart(self) -> None:
        """Each leadership has a higher term, and no term is ever used again."""
        under = self.start()
        terms = []
        for _ in range(3):
            terms.append(under.lead().term)
            under.append(b"x")
            under.settle()
            apply_all(under.store)
            under.cut_power()

        assert terms == sorted(set(terms))

    def test_two_logs_are_told_apart_by_where_they_end(self) -> None:
        """The place of an entry has a chain value that no other entry has."""
        under = self.start()
        store = under.lead()
        indexes = [under.append(b"same") for _ in range(3)]
        under.settle()
        taken = apply_all(store)

        places = [store.place_of(index) for index in indexes]

        assert len({chain for _, chain, _ in places}) == 3
        last = taken[-1]
        assert places[-1][0] == last.term
        assert places[-1][2] == last.first_record + last.record_count

    def test_only_what_may_go_goes(self) -> None:
        """Cleaning drops nothing behind what was said to be dead, and what stays is read."""
        under = self.start()
        store = under.lead()
        indexes = [under.append(b"%d" % number * 2000) for number in range(40)]
        under.settle()
        taken = {it.index: it for it in apply_all(store)}
        dead = indexes[19]
        last = under.append(b"last")
        under.settle()
        for entry in store.take_committed(_PLENTY):
            store.applied(entry, dead if entry.index == last else 0)
        under.settle()
        under.settle()

        assert store.first_index <= dead + 1, "more went than was dead"
        assert set(indexes) <= set(taken), "an entry was left out"
        for index in indexes[20:]:
            assert store.entry(index).index == index
            read = store.read(taken[index].first_record)
            assert body_of(read) == b"%d" % indexes.index(index) * 2000

    @staticmethod
    def _all_bodies(under: StoreUnderTest) -> list[bytes]:
        """Give all messages in the log, as an own start reads them."""
        store = under.store
        entries = [store.entry(it) for it in range(store.first_index, store.applied_index + 1)]
        return bodies_of(store, entries)
