"""
What every medium keeps to which a log can be copied: mixed into `LeasedLogSuite`.

A copy has the source's entries, of several epochs and behind an anchor; what becomes of it is told
by whoever opens it as a broker does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, Entry, seal_entry, verify_chain
from holdfast.leases.contract import Claimant, Holding, LeasedLog, Outcome, Place
from holdfast.leases.copies import CopiedLog, CopyPlan, anchor_entry

SECONDS = 20.0
IDENTITY = "c0ffee" * 5 + "00"
ANCHOR = anchor_entry(index=40, term=3, chain=bytes(range(16)), next_record=101, timestamp=7)


def entries_behind(anchor: Entry | None, count: int = 6) -> list[Entry]:
    """What follows on an anchor: entries of three epochs, of a record each."""
    place = Place(0, FIRST_CHAIN) if anchor is None else Place(anchor.index, anchor.chain)
    record = 1 if anchor is None else anchor.next_record
    found: list[Entry] = []
    for number in range(count):
        entry = seal_entry(
            index=place.index + 1,
            term=(3, 3, 4, 4, 4, 9)[number % 6],
            kind=KIND_RECORDS,
            timestamp=1000 + number,
            first_record=record,
            record_count=1,
            parts=[b"body %d" % number * (number + 1)],
            previous_chain=place.chain,
        )
        found.append(entry)
        place, record = Place(entry.index, entry.chain), entry.next_record
    return found


def plan_of(
    entries: list[Entry], anchor: Entry | None = ANCHOR, *, identity: str = IDENTITY, epoch: int = 9
) -> CopyPlan:
    """The plan of a copy of these entries."""
    end = Place(entries[-1].index, entries[-1].chain)
    return CopyPlan(identity=identity, anchor=anchor, end=end, epoch=epoch)


def claimant(number: int) -> Claimant:
    """Who copies, each as nobody else."""
    return Claimant(holder=f"{number:032x}", name="copy", admin="", stomp="")


def take(log: LeasedLog, number: int = 1) -> Holding:
    """Take the lease as it is now, which succeeds."""
    holding = log.take(log.observe(SECONDS), claimant(number), SECONDS)
    assert holding is not None, "nobody was in between"
    return holding


def kept(log: LeasedLog) -> list[Entry]:
    """Everything that is kept, each entry following on the one before."""
    holding = log.observe(SECONDS)
    found = log.entries(holding.first_index - 1, holding.end.index, 1 << 30, SECONDS)
    for before, entry in pairwise(found):
        assert verify_chain(entry, before.chain)
    return found


class CopiedLogSuite(ABC):
    """A copy that is begun, broken off, gone on with, and finished."""

    @abstractmethod
    def another(self) -> LeasedLog:
        """One more way to the same medium, which is empty before the first `open`."""

    @pytest.fixture(autouse=True)
    def copies_are_closed(self) -> Iterator[None]:
        self._copies: list[CopiedLog] = []
        yield
        for log in self._copies:
            log.close()

    def copier(self) -> CopiedLog:
        """One more way to the medium, not opened; closed after the test."""
        log: CopiedLog = self.another()  # type: ignore[assignment]
        self._copies.append(log)
        return log

    def refusal(self, action: Callable[[], object]) -> str:
        """What a refused action says."""
        with pytest.raises(StoreError) as raised:
            action()
        assert not isinstance(raised.value, UnreachableError)
        return str(raised.value)

    def finished(self, entries: list[Entry], plan: CopyPlan) -> None:
        """Let a copy be made, all of it."""
        log = self.copier()
        log.begin_copy(plan)
        take(log)
        assert log.append(entries, SECONDS) is Outcome.STORED
        assert log.finish_copy(SECONDS) is Outcome.STORED

    def test_a_log_is_looked_for_and_not_made(self) -> None:
        """Where nothing is nothing is made; a log that is there is read beside who serves it."""
        for _ in range(2):
            assert "holds no log" in self.refusal(self.copier().open_existing)
        broker = self.copier()
        broker.open()
        entries = entries_behind(None, 2)
        other = self.copier()
        seen = other.open_existing()
        assert (seen.epoch, other.identity()) == (0, broker.identity())
        half = plan_of(entries, None, identity=broker.identity())
        assert not broker.is_half_copy
        assert self.copier().begin_copy(half).end == Place(0, FIRST_CHAIN)

    @pytest.mark.parametrize("anchor", [ANCHOR, None], ids=["behind an anchor", "from entry 1"])
    def test_a_finished_copy_is_the_same_log(self, anchor: Entry | None) -> None:
        """Its id, its entries with their terms and its chain; its epochs begin behind them."""
        entries = entries_behind(anchor)
        plan = plan_of(entries, anchor)
        log = self.copier()
        begun = log.begin_copy(plan)
        assert (begun.first_index, begun.end) == (plan.first_index, plan.begins_behind)
        assert begun.claimant is None
        assert log.is_half_copy
        take(log)
        assert log.append(entries[:2], SECONDS) is Outcome.STORED
        assert log.append(entries[2:], SECONDS) is Outcome.STORED
        assert log.append(entries[2:], SECONDS) is Outcome.STORED, "sent again"
        assert log.renew(SECONDS) is Outcome.STORED
        assert log.finish_copy(SECONDS) is Outcome.STORED
        assert log.finish_copy(SECONDS) is Outcome.STORED, "asked again"
        assert not log.is_half_copy

        served = self.copier()
        holding = served.open()

        assert (served.identity(), holding.end) == (IDENTITY, plan.end)
        assert holding.is_released
        assert holding.epoch > plan.epoch
        assert kept(served) == [*([] if anchor is None else [anchor]), *entries]

    def test_a_finished_copy_goes_on_and_is_cleaned_like_any_log(self) -> None:
        """A broker takes it, stores behind its end, and drops the anchor and more."""
        entries = entries_behind(ANCHOR)
        self.finished(entries, plan_of(entries))
        log = self.copier()
        log.open()
        epoch = take(log, 2).epoch
        more = seal_entry(
            index=entries[-1].index + 1,
            term=epoch,
            kind=KIND_RECORDS,
            timestamp=5000,
            first_record=entries[-1].next_record,
            record_count=1,
            parts=[b"more"],
            previous_chain=entries[-1].chain,
        )
        assert log.append([more], SECONDS) is Outcome.STORED
        while log.drop_before(entries[1].index, SECONDS):
            pass

        other = self.copier()
        other.open()
        assert kept(other)[-5:] == [*entries[2:], more]
        assert other.observe(SECONDS).first_index <= entries[1].index

    def test_a_copy_that_was_broken_off_is_served_by_nobody(self) -> None:
        """However far it came: it says what it is, and is gone on with by the same command."""
        entries = entries_behind(ANCHOR)
        plan = plan_of(entries)
        for number, count in enumerate((0, 2, 6)):
            log = self.copier()
            log.begin_copy(plan)
            take(log, number + 1)
            done = log.observe(SECONDS).end.index
            rest = [it for it in entries[:count] if it.index > done]
            if rest:
                assert log.append(rest, SECONDS) is Outcome.STORED
            log.close()
            told = self.refusal(self.copier().open)
            # A way to the same medium may have another address.
            assert told[-100:] == self.refusal(self.copier().open_existing)[-100:]
            assert "a copy that is not whole" in told
            assert "'holdfast store copy'" in told

        log = self.copier()
        assert log.begin_copy(plan).end == plan.end
        take(log, 9)
        assert log.finish_copy(SECONDS) is Outcome.STORED
        served = self.copier()
        served.open()
        assert kept(served) == [ANCHOR, *entries]

    def test_a_copy_of_something_else_is_not_gone_on_with(self) -> None:
        """Of another log, or of this one with another end or beginning: nothing is changed."""
        entries = entries_behind(ANCHOR)
        plan = plan_of(entries)
        log = self.copier()
        log.begin_copy(plan)
        take(log)
        log.append(entries[:3], SECONDS)
        others = [plan_of(entries[:5]), plan_of(entries, None)]
        for other in others:
            assert "another copy" in self.refusal(lambda it=other: self.copier().begin_copy(it))
        foreign = plan_of(entries, identity="d" * 32)
        self.refusal(lambda: self.copier().begin_copy(foreign))

        assert log.append(entries[3:], SECONDS) is Outcome.STORED
        assert log.finish_copy(SECONDS) is Outcome.STORED

    def test_nothing_is_copied_over_a_log(self) -> None:
        """One of another id is refused; one of this id is opened, and said to be whole."""
        entries = entries_behind(ANCHOR)
        broker = self.copier()
        broker.open()
        found = broker.identity()
        told = self.refusal(lambda: self.copier().begin_copy(plan_of(entries)))
        assert f"another log ({found})" in told
        assert broker.observe(SECONDS).epoch == 0

        log = self.copier()
        own = plan_of(entries, identity=found)
        assert log.begin_copy(own).end == Place(0, FIRST_CHAIN)
        assert not log.is_half_copy
        assert log.finish_copy(SECONDS) is Outcome.STORED, "there is nothing to finish"

    def test_a_copy_is_whole_at_its_end_only(self) -> None:
        """What lacks an entry is not finished."""
        entries = entries_behind(ANCHOR)
        log = self.copier()
        log.begin_copy(plan_of(entries))
        take(log)
        log.append(entries[:-1], SECONDS)

        assert "should end with entry 46" in self.refusal(lambda: log.finish_copy(SECONDS))
        self.refusal(self.copier().open)

    def test_of_two_that_copy_one_goes_on(self) -> None:
        """The lease decides: the other one stores nothing more, and finishes nothing."""
        entries = entries_behind(ANCHOR)
        plan = plan_of(entries)
        one, other = self.copier(), self.copier()
        one.begin_copy(plan)
        other.begin_copy(plan)
        take(one, 1)
        one.append(entries[:2], SECONDS)
        take(other, 2)

        assert one.append(entries[2:], SECONDS) is Outcome.DEPOSED
        assert one.finish_copy(SECONDS) is Outcome.DEPOSED
        assert other.append(entries[2:], SECONDS) is Outcome.STORED
        assert other.finish_copy(SECONDS) is Outcome.STORED
        served = self.copier()
        served.open()
        assert kept(served) == [ANCHOR, *entries]

    def test_a_copy_and_a_broker_that_begin_at_once_are_not_both_well(self) -> None:
        """Either a broker lays out its own log, or a copy is begun: never one in the other."""
        from tests.stores.leased_log_suite import at_once

        entries = entries_behind(ANCHOR)
        plan = plan_of(entries)
        copier, broker = self.copier(), self.copier()

        results = at_once(lambda: copier.begin_copy(plan), broker.open)

        assert all(isinstance(it, Holding | StoreError) for it in results), results
        assert not all(isinstance(it, Holding) for it in results), results

    def test_a_copy_whose_epochs_were_used_up_is_not_finished(self) -> None:
        """A source's epoch that went past the copy's would make brokers say it went back."""
        entries = entries_behind(ANCHOR)
        first = self.copier()
        first.begin_copy(plan_of(entries))
        late = self.copier()
        late.begin_copy(plan_of(entries, epoch=10_000))
        take(late)
        late.append(entries, SECONDS)

        assert "begun again too often" in self.refusal(lambda: late.finish_copy(SECONDS))
