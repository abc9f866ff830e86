"""
What every leased log must do, run on each medium: a subclass gives the medium.

    class TestMyMedium(LeasedLogSuite):
        def another(self) -> LeasedLog: ...

`another` gives one more way to the same empty medium, as another process would have it. Nothing is
waited for: a lease is taken from what was just observed, as the driver does after a silence.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count, pairwise

import pytest

from holdfast.errors import CorruptEntryError, MissingEntriesError, StoreError, UnreachableError
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, Entry, seal_entry, verify_chain
from holdfast.leases.contract import Claimant, Holding, LeasedLog, Outcome, Place, Waiter

SECONDS = 20.0
KNOWN_SECONDS_MAX = 60.0
PLENTY = 1 << 30
_holders = count(1)


def claimant(name: str = "a") -> Claimant:
    """A process of the broker of this name, as nobody was before."""
    holder = f"{next(_holders):032x}"
    return Claimant(
        holder=holder,
        name=name,
        admin="127.0.0.1:8161",
        stomp="127.0.0.1:61613",
        lease_seconds=2.5,
    )


class Writer:
    """A process with the log: it keeps what it stored, and seals what follows on it."""

    def __init__(self, log: LeasedLog, name: str = "a") -> None:
        self.log = log
        self.claimant = claimant(name)
        self.epoch = 0
        self.end = Place(0, FIRST_CHAIN)
        self.next_record = 1
        self.stored: list[Entry] = []

    def take(self, seen: Holding | None = None, seconds: float = SECONDS) -> Holding:
        """Take the lease as it is now, or as it was seen, which succeeds."""
        seen = self.log.observe(seconds) if seen is None else seen
        holding = self.log.take(seen, self.claimant, seconds)
        assert holding is not None, "nobody was in between"
        self.epoch, self.end = holding.epoch, holding.end
        if holding.end.index >= holding.first_index:
            last = self.log.entries(holding.end.index - 1, holding.end.index, 1, SECONDS)[0]
            self.next_record = last.next_record
        return holding

    def sealed(self, *bodies: bytes) -> list[Entry]:
        """Entries that follow on the end, one for each body; nothing is stored."""
        entries: list[Entry] = []
        end, record = self.end, self.next_record
        for body in bodies:
            entry = seal_entry(
                index=end.index + 1,
                term=self.epoch,
                kind=KIND_RECORDS,
                timestamp=1_000_000 + end.index,
                first_record=record,
                record_count=1,
                parts=[body],
                previous_chain=end.chain,
            )
            entries.append(entry)
            end, record = Place(entry.index, entry.chain), record + 1
        return entries

    def send(self, entries: list[Entry], seconds: float = SECONDS) -> Outcome:
        """Append these; what is stored is the end from now on."""
        outcome = self.log.append(entries, seconds)
        if outcome is Outcome.STORED:
            self.end = Place(entries[-1].index, entries[-1].chain)
            self.next_record = entries[-1].next_record
            self.stored += [it for it in entries if it not in self.stored]
        return outcome

    def send_until_known(self, entries: list[Entry], seconds: float = SECONDS) -> Outcome:
        """Send the same until it is known what became of it, as the driver does."""
        until = time.monotonic() + KNOWN_SECONDS_MAX
        while True:
            try:
                return self.send(entries, seconds)
            except UnreachableError:
                assert time.monotonic() < until, "it is never known"

    def append(self, *bodies: bytes) -> list[Entry]:
        """Store an entry for each body, in one append, sent until it is known."""
        entries = self.sealed(*bodies)
        assert self.send_until_known(entries) is Outcome.STORED
        return entries


def read_all(log: LeasedLog, bytes_max: int = PLENTY) -> list[Entry]:
    """Everything that is kept, read in steps, each entry following on the one before."""
    holding = log.observe(SECONDS)
    found: list[Entry] = []
    after = holding.first_index - 1
    while after < holding.end.index:
        entries = log.entries(after, holding.end.index, bytes_max, SECONDS)
        assert entries, "at least one, as there is one"
        found += entries
        after = entries[-1].index
    assert [it.index for it in found] == list(range(holding.first_index, holding.end.index + 1))
    for before, entry in pairwise(found):
        assert verify_chain(entry, before.chain)
        assert entry.term >= before.term, "epochs only grow"
    if found:
        assert Place(found[-1].index, found[-1].chain) == holding.end
    return found


def at_once(*actions: Callable[[], object]) -> list[object]:
    """Do all of these at the same time, each on a thread; what each gave or raised."""
    barrier = threading.Barrier(len(actions))
    results: list[object] = [None] * len(actions)

    def run(place: int, action: Callable[[], object]) -> None:
        barrier.wait()
        try:
            results[place] = action()
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            results[place] = error

    threads = [threading.Thread(target=run, args=it) for it in enumerate(actions)]
    for it in threads:
        it.start()
    for it in threads:
        it.join(60)
    return results


class LeasedLogSuite(ABC):
    """What every medium keeps; see `leases.contract`."""

    may_keep_unconfirmed = False
    """Whether who takes the lease may find what was being stored, although it was deposed."""

    @abstractmethod
    def another(self) -> LeasedLog:
        """One more way to the same medium, which is empty before the first `open`."""

    def lose_entry(self, index: int) -> None:
        """Let an entry vanish from the medium, past the log."""
        pytest.skip(f"this medium loses no single entry such as {index}")

    def rot_entry(self, index: int) -> None:
        """Let a byte in the body of an entry change on the medium."""
        pytest.skip(f"this medium does not rot in a single entry such as {index}")

    def lose_lease(self) -> None:
        """Let what says who holds the lease vanish."""
        pytest.skip("this medium has no single thing that says who holds the lease")

    @pytest.fixture(autouse=True)
    def opened_are_closed(self) -> Iterator[None]:
        self._opened: list[LeasedLog] = []
        yield
        for log in self._opened:
            log.close()

    def opened(self) -> LeasedLog:
        """One more way to the medium, opened; closed after the test."""
        log = self.another()
        self._opened.append(log)
        log.open()
        return log

    def writer(self, name: str = "a") -> Writer:
        """A process that holds nothing yet."""
        return Writer(self.opened(), name)

    # Opening ------------------------------------------------------------------------------------

    def test_a_new_log_is_empty_and_nobodys(self) -> None:
        """Epoch 0, no holder, no entry, and the first entry will be number 1."""
        holding = self.opened().observe(SECONDS)

        assert (holding.epoch, holding.claimant, holding.first_index) == (0, None, 1)
        assert holding.end == holding.sure == Place(0, FIRST_CHAIN)
        assert read_all(self.opened()) == []

    def test_all_that_open_at_the_same_time_find_the_same(self) -> None:
        """L43: four that lay it out at once have one log, and it works for each of them."""
        logs = [self.another() for _ in range(4)]
        self._opened += logs
        results = at_once(*(it.open for it in logs))

        assert all(isinstance(it, Holding) for it in results), results
        assert len({it.identity() for it in logs}) == 1
        assert len(logs[0].identity()) == 32
        assert int(logs[0].identity(), 16)
        Writer(logs[2]).take()
        assert [it.observe(SECONDS).epoch for it in logs] == [1, 1, 1, 1]

    def test_who_knows_a_log_begins_none(self) -> None:
        """An empty medium is left as it is: what is brought back into it must find it so."""
        late = self.another()
        self._opened.append(late)
        for _ in range(2):
            with pytest.raises(StoreError, match="has no log, and this broker belongs to"):
                late.open(may_lay_out=False)
        first = self.opened()

        assert late.open(may_lay_out=False) == first.observe(SECONDS)
        assert late.identity() == first.identity()

    def test_what_was_stored_is_there_when_it_is_opened_again(self) -> None:
        """Entries, end, epoch and holder are as they were; the log's id stays."""
        writer = self.writer()
        writer.take()
        entries = writer.append(b"one", b"two")
        identity = writer.log.identity()
        writer.log.close()

        log = self.opened()

        assert log.identity() == identity
        holding = log.observe(SECONDS)
        assert (holding.epoch, holding.claimant) == (1, writer.claimant)
        assert not holding.is_released
        assert read_all(log) == entries

    # Taking, renewing and giving back -----------------------------------------------------------

    def test_the_epoch_grows_by_one_with_each_take(self) -> None:
        """Also if the same process takes it again; entries carry the epoch they were stored in."""
        one, other = self.writer("a"), self.writer("b")
        terms = []
        for writer in (one, other, other, one):
            holding = writer.take()
            assert holding.claimant == writer.claimant
            terms.append(writer.append(b"x")[0].term)

        assert terms == [1, 2, 3, 4]
        assert [it.term for it in read_all(one.log)] == terms

    def test_of_two_that_take_what_both_saw_one_wins(self) -> None:
        """L5: the second one changes nothing, and learns that it is not its own."""
        one, other = self.writer("a"), self.writer("b")
        seen = one.log.observe(SECONDS)

        assert one.log.take(seen, one.claimant, SECONDS) is not None
        assert other.log.take(seen, other.claimant, SECONDS) is None

        holding = other.log.observe(SECONDS)
        assert (holding.epoch, holding.claimant) == (1, one.claimant)

    def test_of_many_that_take_at_the_same_time_one_wins(self) -> None:
        """L5: each round has one winner, whichever it is, and one more epoch."""
        writers = [self.writer(name) for name in "abcd"]
        for epoch in range(1, 6):
            seen = writers[0].log.observe(SECONDS)
            results = at_once(*(partial(it.log.take, seen, it.claimant, SECONDS) for it in writers))
            winners = [it for it in results if isinstance(it, Holding)]
            assert len(winners) == 1, results
            assert all(it is None or isinstance(it, Holding | StoreError) for it in results)
            holding = writers[0].log.observe(SECONDS)
            assert (holding.epoch, holding.claimant) == (epoch, winners[0].claimant)

    def test_a_sign_of_life_since_it_was_seen_keeps_the_lease(self) -> None:
        """A renewal, and an append as well, is a beat: what was seen before does not take it."""
        holder, waiter = self.writer("a"), self.writer("b")
        holder.take()
        for give_sign in (lambda: holder.log.renew(SECONDS), lambda: holder.append(b"x")):
            seen = waiter.log.observe(SECONDS)
            give_sign()
            assert waiter.log.observe(SECONDS).beat != seen.beat
            assert waiter.log.take(seen, waiter.claimant, SECONDS) is None
        assert holder.log.renew(SECONDS) is Outcome.STORED

    def test_what_is_observed_is_never_what_was_read_before(self) -> None:
        """Each change of another process is seen by the very next look."""
        holder, waiter = self.writer("a"), self.writer("b")
        holder.take()
        for number in range(1, 20):
            entry = holder.append(b"%d" % number)[0]
            assert waiter.log.observe(SECONDS).end == Place(entry.index, entry.chain)

    def test_a_lease_that_was_given_back_says_so_and_stores_nothing_more(self) -> None:
        """L6: it may be taken at once; the one that gave it back is deposed from then on."""
        holder, waiter = self.writer("a"), self.writer("b")
        holder.take()
        holder.append(b"kept")
        late = holder.sealed(b"late")

        holder.log.release(SECONDS)

        assert waiter.log.observe(SECONDS).is_released
        assert holder.send(late) is Outcome.DEPOSED
        assert holder.log.renew(SECONDS) is Outcome.DEPOSED
        assert not waiter.take().is_released
        holder.log.release(SECONDS)  # of what is another's by now: nothing happens
        assert waiter.log.renew(SECONDS) is Outcome.STORED
        assert read_all(waiter.log) == holder.stored

    def test_who_never_took_it_stores_nothing(self) -> None:
        """Without a lease there is no append, no renewal, and nothing to give back."""
        holder, other = self.writer("a"), self.writer("b")
        holder.take()
        other.epoch = 1

        assert other.send(other.sealed(b"x")) is Outcome.DEPOSED
        assert other.log.renew(SECONDS) is Outcome.DEPOSED
        other.log.release(SECONDS)
        assert not holder.log.observe(SECONDS).is_released

    # The fence ----------------------------------------------------------------------------------

    def test_a_zombie_stores_nothing_once_a_later_epoch_began(self) -> None:
        """L2: its append is DEPOSED, is never seen, and does not harm what is stored after it."""
        zombie, holder = self.writer("a"), self.writer("b")
        zombie.take()
        zombie.append(b"before")
        late = zombie.sealed(b"late", b"later")
        assert holder.take().end == zombie.end

        assert zombie.send(late) is Outcome.DEPOSED
        assert zombie.log.renew(SECONDS) is Outcome.DEPOSED
        assert read_all(holder.log) == zombie.stored
        holder.append(b"after")
        assert zombie.send(late) is Outcome.DEPOSED, "also where the index is another's by now"
        assert read_all(self.opened()) == zombie.stored + holder.stored

    def test_a_zombie_of_the_same_name_is_fenced_too(self) -> None:
        """L8: a broker that was started twice under one name is two processes."""
        zombie, holder = self.writer("a"), self.writer("a")
        zombie.take()
        holder.take()

        assert zombie.send(zombie.sealed(b"late")) is Outcome.DEPOSED
        assert holder.append(b"x")

    def test_the_same_append_is_stored_once(self) -> None:
        """Sent again after its reply was lost, it is STORED, and there once."""
        writer = self.writer()
        writer.take()
        entries = writer.append(b"one", b"two")

        assert writer.send(entries) is Outcome.STORED
        before = writer.log.observe(SECONDS).beat
        assert writer.send(entries) is Outcome.STORED
        is_seen = writer.log.observe(SECONDS).beat != before
        assert is_seen or not writer.log.is_fence, "its holder counts the lease from there"
        assert read_all(writer.log) == entries
        writer.append(b"three")
        assert [bytes(it.body) for it in read_all(writer.log)] == [b"one", b"two", b"three"]

    def test_the_same_append_after_a_take_of_another_is_deposed(self) -> None:
        """Whether it was stored or not: whoever took it has it, or it will never be there."""
        zombie, holder = self.writer("a"), self.writer("b")
        zombie.take()
        entries = zombie.append(b"one")
        holder.take()

        assert zombie.send(entries) is Outcome.DEPOSED
        assert read_all(holder.log) == entries

    def test_an_append_that_does_not_follow_on_the_end_is_refused(self) -> None:
        """Neither another epoch nor our end: nothing may go on, and nothing was stored."""
        writer = self.writer()
        writer.take()
        writer.append(b"one")
        skipped = writer.sealed(b"two", b"three")[1:]

        with pytest.raises(StoreError):
            writer.log.append(skipped, SECONDS)
        assert [bytes(it.body) for it in read_all(self.opened())] == [b"one"]

    def test_appends_and_a_take_at_the_same_time_leave_one_history(self) -> None:
        """L48: what was STORED before the take is there; nothing of the old epoch comes after."""
        for _ in range(5):
            zombie, holder = self.writer("a"), self.writer("b")
            zombie.take()

            unknown: list[UnreachableError] = []

            def storm(zombie: Writer = zombie, unknown: list[UnreachableError] = unknown) -> int:
                for number in range(200):
                    entries = zombie.sealed(b"%d" % number)
                    while True:
                        try:
                            outcome = zombie.send(entries)
                        except UnreachableError as error:  # a lock, on a machine with much to do
                            unknown.append(error)
                        else:
                            break
                    if outcome is Outcome.DEPOSED:
                        return number
                return 200

            def usurp(holder: Writer = holder) -> Holding:
                while True:
                    seen = holder.log.observe(SECONDS)
                    with suppress(UnreachableError):
                        holding = holder.log.take(seen, holder.claimant, SECONDS)
                        if holding is not None:
                            return holding

            sent, holding = at_once(storm, usurp)
            assert isinstance(sent, int), sent
            assert isinstance(holding, Holding), holding
            ours = [it for it in read_all(self.opened()) if it.term == zombie.epoch]
            assert len(zombie.stored) == sent
            assert ours[:sent] == zombie.stored, "what was confirmed"
            # On files an entry may be there when the taker reads, and nobody was told of it.
            may_be_more = bool(unknown) or not holder.log.is_fence or self.may_keep_unconfirmed
            assert len(ours) <= sent + may_be_more, "and nothing else"

    # Entries ------------------------------------------------------------------------------------

    def test_an_append_of_several_entries_is_whole(self) -> None:
        """A hundred of them are there as they were sealed, byte for byte."""
        writer = self.writer()
        writer.take()
        entries = writer.append(*(bytes([number]) * (number * 97) for number in range(100)))

        assert read_all(self.opened()) == entries

    def test_large_entries_come_back_as_they_were(self) -> None:
        """L41: 20 MiB, and others around one MiB, alone and with small ones in one append."""
        writer = self.writer()
        writer.take()
        mib = 1 << 20
        pattern = bytes(range(256)) * 4096
        sizes = (mib - 64, mib - 63, mib, mib + 1, 2 * mib - 64, 3)
        entries = writer.append(*((pattern * 2)[:size] for size in sizes))
        entries += writer.append(pattern * 20)
        entries += writer.append(b"small", pattern * 5, b"")

        assert read_all(self.opened(), bytes_max=4 * mib) == entries

    def test_as_much_is_read_at_once_as_is_asked_for(self) -> None:
        """At least one entry however large, then no more than there is room for."""
        writer = self.writer()
        writer.take()
        writer.append(*(b"x" * 1000 for _ in range(10)))
        log = self.opened()

        assert [it.index for it in log.entries(0, 10, 1, SECONDS)] == [1]
        assert [it.index for it in log.entries(3, 10, 3500, SECONDS)] == [4, 5, 6]
        assert [it.index for it in log.entries(3, 5, PLENTY, SECONDS)] == [4, 5]
        assert log.entries(10, 10, PLENTY, SECONDS) == []

    def test_an_entry_that_is_gone_is_missed_by_name(self) -> None:
        """L38: what follows it is not given as if it came next."""
        writer = self.writer()
        writer.take()
        writer.append(b"one", b"two", b"three", b"four")
        self.lose_entry(3)
        log = self.opened()

        with pytest.raises(MissingEntriesError) as raised:
            log.entries(2, 4, PLENTY, SECONDS)
        assert raised.value.index == 3
        assert [it.index for it in log.entries(0, 2, PLENTY, SECONDS)] == [1, 2]

    def test_an_entry_that_rots_is_named(self) -> None:
        """L38: its checksum is wrong, and the error says which one it is."""
        writer = self.writer()
        writer.take()
        writer.append(b"one", b"two" * 100, b"three")
        self.rot_entry(2)
        log = self.opened()

        with pytest.raises(CorruptEntryError) as raised:
            log.entries(1, 3, PLENTY, SECONDS)
        assert raised.value.index == 2
        assert [it.index for it in log.entries(2, 3, PLENTY, SECONDS)] == [3]

    def test_a_lease_that_vanished_stops_everything(self) -> None:
        """L42: nobody may look, take, renew or append on what does not say who writes it."""
        writer = self.writer()
        seen = writer.take()
        entries = writer.sealed(b"x")
        self.lose_lease()

        for call in (
            lambda: writer.log.observe(SECONDS),
            lambda: writer.log.take(seen, writer.claimant, SECONDS),
            lambda: writer.log.renew(SECONDS),
            lambda: writer.log.append(entries, SECONDS),
            self.opened,
        ):
            with pytest.raises(StoreError, match="gone"):
                call()

    # Cleaning -----------------------------------------------------------------------------------

    def test_what_is_dropped_is_gone_and_the_rest_stays(self) -> None:
        """`first_index` says where the log begins now; the log goes on."""
        writer = self.writer()
        writer.take()
        entries = writer.append(*(b"%d" % number for number in range(10)))
        while writer.log.drop_before(6, SECONDS):
            pass

        log = self.opened()
        assert log.observe(SECONDS).first_index <= 6
        assert read_all(log)[-5:] == entries[5:]
        writer.append(b"more")
        assert not writer.log.drop_before(3, SECONDS), "it never goes back"
        assert read_all(log)[-6:] == writer.stored[5:]

    def test_a_zombie_drops_nothing(self) -> None:
        """L12: what it still wanted to clean stays where it is."""
        zombie, holder = self.writer("a"), self.writer("b")
        zombie.take()
        entries = zombie.append(*(b"%d" % number for number in range(10)))
        holder.take()
        for _ in range(3):
            zombie.log.drop_before(8, SECONDS)

        assert read_all(holder.log) == entries

    # Who is there -------------------------------------------------------------------------------

    def test_brokers_tell_of_themselves(self) -> None:
        """One line for each name, the last one told, in the order of the names, until forgotten."""
        log, other = self.opened(), self.opened()

        def waiter(name: str, beat: int) -> Waiter:
            who = replace(claimant(name), lease_seconds=0.0)
            return Waiter(claimant=who, known_level=3, beat=beat, applied_index=beat * 7)

        first, second, third = waiter("b", 1), waiter("a", 1), waiter("b", 2)
        assert log.waiters(SECONDS) == []
        log.tell(first, SECONDS)
        other.tell(second, SECONDS)
        assert log.waiters(SECONDS) == [second, first]
        other.tell(third, SECONDS)
        other.tell(third, SECONDS)
        assert log.waiters(SECONDS) == [second, third]
        log.forget("a", SECONDS)
        log.forget("nobody", SECONDS)
        assert other.waiters(SECONDS) == [third]
