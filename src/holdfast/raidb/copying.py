"""
Comparing two logs by their chain values, and copying entries from one member into another.

The chain value of an entry stands for all that came before it: where two logs have the same one at
an index, they are the same up to there.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import CorruptEntryError, MissingEntriesError, UnreachableError
from holdfast.journal.entry import Entry, bytes_of, verify_chain
from holdfast.leases.contract import Outcome, Place
from holdfast.raidb.databases import Databases
from holdfast.raidb.member import NOTHING, ActOf, Member, Row, Token
from holdfast.raidb.rates import Rates


def require_unbroken(entries: list[Entry], before: Place, name: str) -> None:
    """
    See that each of these follows on the one before it, and the first one on this end of a log.

    A log that was emptied for one whose beginning is gone does not say what its first follows on.

    Raises:
        CorruptEntryError: One does not.
    """
    index, chain = before.index, before.chain
    is_known = index == 0 or chain != NOTHING.chain
    for entry in entries:
        index += 1
        if entry.index != index or (is_known and not verify_chain(entry, chain)):
            raise does_not_follow(index, name)
        is_known, chain = True, entry.chain


def read_on(found: list[Entry], after: int, last: Place | None, name: str) -> Place:
    """
    See that entries read behind an index follow on each other; gives the last one of them.

    They follow on what was read last as well, where that is the entry at this index.

    Raises:
        CorruptEntryError: One does not.
    """
    if last is None or last.index != after:
        last, rest = Place(found[0].index, found[0].chain), found[1:]
    else:
        rest = found
    require_unbroken(rest, last, name)
    return Place(found[-1].index, found[-1].chain)


def does_not_follow(index: int, name: str) -> CorruptEntryError:
    """Give the error of an entry that is whole, and of another history."""
    return CorruptEntryError(
        "the entry does not follow on the one before it, or not the next one on it",
        segment=f"of {name}",
        index=index,
    )


class Copier:
    """Reads and writes members within one deadline."""

    def __init__(
        self,
        databases: Databases,
        seconds_max: float,
        rates: Rates | None = None,
        *,
        beside: Mapping[str, Token] | None = None,
    ) -> None:
        """
        Each call takes so long at most; what is large is measured, if that is of use.

        Args:
            beside: What is read of these holds up nothing else in the same member; under what each
                is held.
        """
        self._databases = databases
        self._beside = {} if beside is None else beside
        self._rates = rates
        self.seconds = seconds_max

    def chain_at(self, row: Row, index: int) -> bytes | None:
        """
        The chain value of a member's log there; None where it does not reach.

        Raises:
            StoreError: It should be there, and cannot be read: that proves no difference.
        """
        if index == row.lease.end.index:
            return row.lease.end.chain
        if index == 0:
            return NOTHING.chain if row.lease.first_index <= 1 else None
        if not row.lease.first_index <= index < row.lease.end.index:
            return None
        return self.read(row.member, index - 1, index, 1)[0].chain

    def read(self, member: str, after: int, through: int, bytes_max: int) -> list[Entry]:
        """
        Read entries of a member, at least one.

        Raises:
            MissingEntriesError: It has them not.
        """
        return self._databases.entries(
            member,
            after,
            through,
            bytes_max,
            self.seconds,
            beside=self._beside.get(member),
            may_go_between=True,
        )

    def common_end(self, row: Row, source: Row) -> Place | None:
        """Through where a log is the source's own; None if they have nothing in common."""
        low = max(row.lease.first_index, source.lease.first_index) - 1
        high = min(row.lease.end.index, source.lease.end.index)
        found = self._place_if_same(row, source, high)
        if found is not None or high <= low:
            return found
        found = self._place_if_same(row, source, low)
        while high - low > 1:
            middle = (low + high) // 2
            same = self._place_if_same(row, source, middle)
            if same is None:
                high = middle
            else:
                low, found = middle, same
        return found

    def _place_if_same(self, row: Row, source: Row, index: int) -> Place | None:
        try:
            chain = self.chain_at(row, index)
        except (MissingEntriesError, CorruptEntryError):
            chain = None  # What is filled is to be made good: from before this on.
        there = self.chain_at(source, index)
        return None if chain is None or chain != there else Place(index, chain)

    def append(self, target: str, token: Token, entries: list[Entry], end: Place) -> Outcome:
        """
        Store entries, of whichever epoch, in one member that ends there.

        Raises:
            CorruptEntryError: They do not follow on that end.
        """
        require_unbroken(entries, end, self._databases.name(target))

        def store(it: Member, seconds: float) -> Outcome:
            return it.store(token, entries, end, seconds)

        act: ActOf = store
        if self._rates is not None:
            act = self._rates.measured(target, act, bytes_of(entries))
        outcome: Outcome = self._databases.ask(target, act, self.seconds)
        return outcome

    def require(self, outcome: Outcome) -> None:
        """
        Go on only with what was done.

        Raises:
            UnreachableError: Somebody else took the member meanwhile.
        """
        if outcome is not Outcome.STORED:
            raise UnreachableError("another broker has taken it")
