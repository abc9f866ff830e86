"""
The suite of stores, on every store there is, and on stores that break it.

A contract that a broken store fulfils would promise nothing: each of the faults is found.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from holdfast.errors import (
    CorruptEntryError,
    HoldfastError,
    JournalFailedError,
    NotLeaderError,
    RecordNotFoundError,
)
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, Entry, entry_bytes, seal_entry
from holdfast.journal.entry_body import EntryBody
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.model.numbering import Numbering
from holdfast.model.records import MessageRecord, QueueRecord
from holdfast.replication.driver import Driver
from holdfast.replication.membership import Membership
from holdfast.replication.settings import ReplicationSettings
from holdfast.store.record_codec import decode_records, encode_records
from holdfast.store.replicated_store import ReplicatedStore
from holdfast.testing.contracts import LogStoreContract, StoreUnderTest
from trials.simulation.simulated_disk import SimulatedDisk
from trials.simulation.simulated_group import SeededRandomness

SEGMENT_ENTRIES = 8


class MemoryStore:
    """`platter` is what survives; what was appended is on it after the next `turn`."""

    promotion = ""
    is_handing_over = is_space_low = False
    format_level_of_all = 2
    numbering = Numbering()
    segment_bytes = 16384

    def __init__(self, platter: list[Entry], term: int, first_index: int = 1) -> None:
        self.platter, self.entries, self.term = platter, list(platter), term
        self.first_index = first_index
        self.taken_index = self.applied_index = first_index - 1
        self.is_leader = self.is_serving = False
        self._drop = 0
        self.failure: JournalFailedError | None = None
        self.rotten: set[int] = set()

    @property
    def last_index(self):
        return len(self.entries)

    def append(self, records, now, wall_microseconds, body=None):
        if not self.is_leader:
            raise NotLeaderError("nobody yet")
        last = self.entries[-1] if self.entries else None
        fields = {
            "index": self.last_index + 1,
            "term": self.term,
            "kind": KIND_RECORDS,
            "timestamp": max(wall_microseconds, last.timestamp + 1 if last else 0),
            "first_record": last.next_record if last else 1,
            "record_count": len(records),
            "previous_chain": last.chain if last else FIRST_CHAIN,
        }
        parts = encode_records(records)
        entry = seal_entry(parts=parts, **fields) if body is None else body.seal(**fields)
        self.entries.append(entry)
        return entry.index

    def new_body(self, bytes_expected):
        return EntryBody(bytes_expected)

    def entry_bytes(self, body_length):
        return entry_bytes(body_length)

    @property
    def is_writing(self):
        return len(self.platter) < self.last_index

    def stored(self, result):
        raise AssertionError("it has no writer")

    def turn(self, now):
        if self.failure is not None:
            raise self.failure
        self.platter += self.entries[len(self.platter) :]
        self.is_leader = True
        self.is_serving = self.applied_index == self.last_index or self.is_serving
        base = self.segment_base(self._drop + 1)
        self.first_index = max(self.first_index, base)

    def refusal(self, now):
        return None

    def has_committed(self):
        return self.taken_index < len(self.platter)

    def take_committed(self, bytes_max):
        size, some = 0, []
        for entry in self.platter[self.taken_index :]:
            if entry.index in self.rotten:
                if not some:
                    self.entry(entry.index)
                break
            size += len(entry.raw)
            if some and size > bytes_max:
                break
            some.append(entry)
        self.taken_index += len(some)
        return some

    def decode(self, entry, *, with_content=False):
        return decode_records(entry.body, with_content=with_content)

    def applied(self, entry, cleaned_through):
        self.applied_index = entry.index
        self._drop = max(self._drop, cleaned_through)

    @property
    def is_applying(self):
        return self.applied_index != self.taken_index

    @property
    def is_applied_whole(self):
        return self.applied_index == self.last_index

    def is_begun_anew(self):
        return False

    def read(self, record_number):
        for entry in self.entries[self.first_index - 1 :]:
            if entry.first_record <= record_number < entry.next_record:
                records = list(decode_records(entry.body, with_content=True))
                return records[record_number - entry.first_record]
        raise RecordNotFoundError(f"record {record_number} is not there")

    def entry(self, index):
        if not self.first_index <= index <= self.last_index:
            raise RecordNotFoundError(f"entry {index} is not there")
        if index in self.rotten:
            raise CorruptEntryError("it is rotten", index=index)
        return self.entries[index - 1]

    def tell_format_level(self, level):
        """Nobody else is there to be told."""

    def may_dispatch(self, now):
        return self.is_serving

    holds_lease = may_dispatch

    def is_lease_awaited(self, now):
        return False

    def segment_base(self, index):
        return max((index - 1) // SEGMENT_ENTRIES * SEGMENT_ENTRIES + 1, 1)

    @property
    def last_segment_base(self):
        return self.segment_base(self.last_index)

    @property
    def sealed_through(self):
        return self.last_segment_base - 1

    sealed_count = 0

    def oldest_segment(self):
        raise AssertionError("none is sealed")

    @property
    def log_bytes(self):
        return sum(len(entry.raw) for entry in self.entries[self.first_index - 1 :])

    def bytes_from(self, index):
        return sum(len(it.raw) for it in self.entries[index - 1 :])

    def place_of(self, index):
        entry = self.entry(index)
        return entry.term, entry.chain, entry.next_record

    def learner_matches(self):
        return {}

    def has_damage(self, first_index, last_index):
        return False

    def is_damaged_entry(self, index):
        return False

    def damaged_run(self, index):
        return None

    def report_damage(self, error):
        """There is no other copy."""

    def keep_membership(self, through_index):
        """It has none."""


class InMemory(StoreUnderTest):
    """The store in memory; a power cut leaves its platter."""

    kind: type[MemoryStore] = MemoryStore

    def __init__(self, kind: type[MemoryStore] = MemoryStore) -> None:
        self.kind, self.platter, self.term = kind, [], 0
        self.rotten = set()
        self.cut_power()

    def settle(self):
        self.now += 0.01
        for _ in range(3):
            self.store.turn(self.now)

    def cut_power(self):
        self.term += 1
        self.store = self.kind(self.platter, self.term)
        self.store.rotten = self.rotten

    def fail_writes(self):
        self.store.failure = JournalFailedError("the platter is broken")

    def damage(self, index):
        self.rotten.add(index)


class OnSimulatedDisk(StoreUnderTest):
    """The replicated store of a single node, on a disk that loses what was not synced."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(1)
        self._open()

    def _open(self):
        self._jobs, self._results = [], []
        settings = JournalSettings(segment_bytes=16384)
        self.journal = Journal.open(Path("/data"), self.disk, settings, resolve_unknown_tail=True)
        self.writer = JournalWriter(self.journal, self._results.append)
        self.driver = Driver(
            settings=ReplicationSettings(),
            name="a",
            journal=self.journal,
            ballot_file=self.journal.ballot_file,
            writer=self,
            links=self,
            randomness=SeededRandomness(1),
            bootstrap=Membership(()),
            on_fenced=pytest.fail,
        )
        self.driver.start(self.now)
        self.store = ReplicatedStore(self.driver, self.journal)

    def submit(self, job):
        self._jobs.append(job)

    def set_peers(self, addresses):
        """There are none."""

    def settle(self):
        self.now += 0.01
        self.store.turn(self.now)
        while self._jobs:
            jobs, self._jobs = self._jobs, []
            self.writer.turn(jobs)
            results, self._results[:] = self._results[:], []
            for result in results:
                self.store.stored(result)
            self.store.turn(self.now)

    def step(self):
        if not self._jobs:
            self.store.turn(self.now)
            return
        jobs, self._jobs = self._jobs, []
        self.writer.turn(jobs)
        results, self._results[:] = self._results[:], []
        for result in results:
            self.store.stored(result)

    def cut_power(self):
        self.disk.fail_next.clear()
        self.disk.power_cut()
        self._open()

    def fail_writes(self):
        self.disk.fail_next = {"write": errno.EIO, "sync": errno.EIO}

    def damage(self, index):
        place = self.journal.place_of(index)
        self.disk.flip_bit(place.path, (place.byte + place.size // 2) * 8)


class TestInMemory(LogStoreContract):
    """The throw-away store keeps the contract."""

    def start(self):
        return InMemory()


class TestReplicated(LogStoreContract):
    """So does the store of a single node."""

    def start(self):
        return OnSimulatedDisk()


class Forgetful(MemoryStore):
    """Leaves every seventh entry out."""

    def take_committed(self, bytes_max):
        return [it for it in super().take_committed(bytes_max) if it.index % 7]


class Hasty(MemoryStore):
    """Gives what is not on the platter."""

    def has_committed(self):
        return self.taken_index < self.last_index

    def take_committed(self, bytes_max):
        some = self.entries[self.taken_index :]
        self.taken_index = self.last_index
        return some

    def turn(self, now):
        on_platter = len(self.platter)
        super().turn(now)
        del self.platter[max(on_platter, self.last_index - 1) :]


class Disorderly(MemoryStore):
    """Gives the entries of one call the other way round."""

    def take_committed(self, bytes_max):
        return super().take_committed(bytes_max)[::-1]


class Greedy(MemoryStore):
    """Drops one segment more than is dead."""

    def segment_base(self, index):
        return super().segment_base(index + SEGMENT_ENTRIES)


class Lenient(MemoryStore):
    """Lets whoever does not lead append."""

    def append(self, records, now, wall_microseconds, body=None):
        self.is_leader = True
        return super().append(records, now, wall_microseconds, body)


class Early(MemoryStore):
    """Gives after one turn what is on the platter after three."""

    given_index = turns = 0

    def has_committed(self):
        return self.taken_index < self.given_index

    def take_committed(self, bytes_max):
        some = self.entries[self.taken_index : self.given_index][:1]
        self.taken_index += len(some)
        return some

    def turn(self, now):
        on_platter, self.turns = len(self.platter), self.turns + 1
        super().turn(now)
        if self.turns % 3:
            del self.platter[on_platter:]
        self.given_index = self.last_index


class Mute(MemoryStore):
    """Gives nothing of what was there when it was opened."""

    def __init__(self, platter, term, first_index=1):
        super().__init__(platter, term, first_index)
        self.taken_index = self.applied_index = self.last_index


class Plain(MemoryStore):
    """Keeps no facts."""

    def append(self, records, now, wall_microseconds, body=None):
        for record in records:
            if isinstance(record, MessageRecord):
                record.facts = None
        return super().append(records, now, wall_microseconds)


class Young(MemoryStore):
    """Forgets how often and when messages were there before."""

    def decode(self, entry, *, with_content=False):
        for record in super().decode(entry, with_content=with_content):
            if isinstance(record, MessageRecord):
                record.rewritten, record.redelivery_count, record.stored_at = False, 0, 0
            yield record


class Picky(MemoryStore):
    """Keeps messages and queues."""

    def decode(self, entry, *, with_content=False):
        records = super().decode(entry, with_content=with_content)
        return (it for it in records if isinstance(it, MessageRecord | QueueRecord))


class Impatient(MemoryStore):
    """Stores nothing of what was sealed before."""

    def append(self, records, now, wall_microseconds, body=None):
        return super().append([] if body else records, now, wall_microseconds)


class Stingy(MemoryStore):
    """Leaves out what stands around the records, where it is asked before."""

    def entry_bytes(self, body_length):
        return body_length


class Stubborn(MemoryStore):
    """Goes on after a failed write."""

    def turn(self, now):
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        super().turn(now)


class Blind(MemoryStore):
    """Passes over what is damaged."""

    def take_committed(self, bytes_max):
        if self.taken_index + 1 in self.rotten:
            self.taken_index += 1
        return super().take_committed(bytes_max)


CHANGING = [Plain, Young, Picky, Impatient]
BREAKING = [
    Forgetful,
    Hasty,
    Early,
    Disorderly,
    Greedy,
    Lenient,
    Mute,
    Stubborn,
    Blind,
    Stingy,
    *CHANGING,
]


@pytest.mark.parametrize("kind", BREAKING)
def test_a_store_that_breaks_the_contract_is_found(kind: type[MemoryStore]) -> None:
    """Each fault fails the suite, which fails none of the good ones."""

    class Suite(LogStoreContract):
        def start(self):
            return InMemory(kind)

    suite = Suite()
    failed = []
    for name in sorted(it for it in dir(suite) if it.startswith("test_")):
        try:
            getattr(suite, name)()
        except (AssertionError, HoldfastError):
            failed.append(name)

    assert failed
