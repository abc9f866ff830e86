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

from holdfast.errors import NotLeaderError, RecordNotFoundError
from holdfast.model.records import (
    AcknowledgeRecord,
    MessageRecord,
    QueueRecord,
    Record,
)
from holdfast.store.contract import CommittedEntry, LogStore

_PLENTY = 1 << 30
_QUEUE = 7


class StoreUnderTest(ABC):
    """One store on this node's own medium, and the power it runs on."""

    store: LogStore
    now: float = 100.0
    """Seconds of the store's monotonic clock; `settle` moves it on as it needs."""

    @abstractmethod
    def settle(self) -> None:
        """Turn, and let the writer write, until nothing is on its way."""

    @abstractmethod
    def cut_power(self) -> None:
        """Lose all that is not durable, and open `store` anew on what is there."""

    def lead(self) -> LogStore:
        """Give the store once it serves; what is committed until then is applied."""
        for _ in range(100):
            self.settle()
            apply_all(self.store)
            if self.store.is_serving:
                return self.store
        raise AssertionError("a store that is alone comes to serve")

    def append(self, *bodies: bytes) -> int:
        """Append an entry of messages; give its index."""
        return self.append_records([message(body) for body in bodies])

    def append_records(self, records: list[Record]) -> int:
        """Append an entry; give its index."""
        self.now += 0.001
        return self.store.append(records, self.now, int(self.now * 1e6))


def message(body: bytes) -> MessageRecord:
    """Make a message of one queue."""
    headers = b"name:value\n"
    return MessageRecord(_QUEUE, 1, headers, body, len(headers) + len(body), None, 0)


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
    records = (it for entry in entries for it in store.decode(entry, with_content=True))
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

    def test_nothing_is_given_before_it_is_durable(self) -> None:
        """What was given as committed at any moment is there after a power cut in that moment."""
        under = self.start()
        under.lead()
        for number in range(12):
            under.append(b"%d" % number)
            under.store.turn(under.now)
            given = bodies_of(under.store, apply_all(under.store))
            under.cut_power()
            under.lead()
            kept = self._all_bodies(under)
            assert kept[-len(given) :] == given if given else True, "given, and lost"

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
            assert self._all_bodies(under) == [b"%d" % number for number in range(30)]

    def test_records_of_each_kind_come_back_as_they_were(self) -> None:
        """A store changes nothing in what it is given."""
        under = self.start()
        store = under.lead()
        sent = MessageRecord(_QUEUE, 5, b"a:b\n", b"\x00body\xff", 10, "producer", 9)
        index = under.append_records(
            [QueueRecord(_QUEUE, "orders", 1, 1), sent, AcknowledgeRecord(_QUEUE, [1, 2, 4])]
        )
        under.settle()
        entry = next(it for it in apply_all(store) if it.index == index)

        queue, came, settled = store.decode(entry, with_content=True)

        assert isinstance(queue, QueueRecord) and queue.name == "orders"
        assert isinstance(came, MessageRecord)
        assert (came.sequence, came.headers, body_of(came)) == (5, b"a:b\n", sent.body)
        assert (came.producer_id, came.producer_sequence) == ("producer", 9)
        assert isinstance(settled, AcknowledgeRecord) and list(settled.sequences) == [1, 2, 4]

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
        return bodies_of(store, [it for it in entries if it.record_count])
