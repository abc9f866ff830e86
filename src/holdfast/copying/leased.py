"""
A log in a database or a shared directory, as the source of a copy and as where one is made.

Invariants:
    A source is held by its lease: whoever would serve it waits, or has taken it, which is noticed.
    A target is opened by no broker before it is finished, and written under its lease as well.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.copying.contract import CHUNK_BYTES
from holdfast.copying.held_log import CALL_SECONDS_MAX, NAME, HeldLog, Waits
from holdfast.errors import NoLogError, StoreError, StoreLockedError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Holding, Place
from holdfast.leases.copies import CopiedLog, CopyPlan, SourceLog, anchor_entry

Hold = Callable[[SourceLog], HeldLog]


def require_empty(log: CopiedLog) -> None:
    """
    See that a copy can be begun in a medium, not opened, before there is one; lets it go again.

    Raises:
        StoreError: A log is there, or a part of a copy; or it cannot be reached.
    """
    try:
        log.open_existing()
    except NoLogError:
        return
    finally:
        log.close()
    raise StoreError(
        f"{log.facts().place} holds a log already: nothing was changed; name an empty place"
    )


class LeasedSource:
    """A `Source` on a medium that several reach."""

    def __init__(self, held: HeldLog, plan: CopyPlan) -> None:
        """Take a log whose lease is held; use `open`."""
        self._held = held
        self.place = held.place
        self.plan = plan

    @classmethod
    def open(
        cls, log: SourceLog, waits: Waits = lambda *_: None, hold: Hold = HeldLog
    ) -> LeasedSource:
        """
        Open a log that nobody serves, and take its lease.

        Args:
            waits: Told who is waited for.
            hold: How a lease is held.

        Raises:
            StoreLockedError: It is in use.
            StoreError: There is none, or an empty one, or it cannot be read.
        """
        try:
            log.open_existing()
            held = hold(log)
            holding = held.take(waits)
        except BaseException:
            log.close()
            raise
        try:
            return cls(held, _plan(held, holding))
        except BaseException:
            held.close()
            raise

    def entries(self, after: int) -> list[Entry]:
        """Read what follows on entry `after`."""
        return _entries(self._held, after, self.plan.end.index)

    def keep(self, *, at_once: bool = False) -> None:
        """Hold it still."""
        self._held.keep(at_once=at_once)

    def close(self) -> None:
        """Give the lease back."""
        self._held.close()


def _plan(held: HeldLog, holding: Holding) -> CopyPlan:
    if not holding.end.index:
        raise StoreError(f"{held.place} is empty: there is nothing to copy")
    first, anchor = holding.first_index, None
    if first > holding.end.index:
        raise StoreError(f"{held.place} keeps no entry: there is nothing to copy")
    if first > 1:
        kept = _entries(held, first - 1, first)[0]
        anchor = anchor_entry(
            index=kept.index,
            term=kept.term,
            chain=kept.chain,
            next_record=kept.next_record,
            timestamp=kept.timestamp,
        )
    return CopyPlan(
        identity=held.log.identity(), anchor=anchor, end=holding.end, epoch=holding.epoch
    )


def _entries(held: HeldLog, after: int, through: int) -> list[Entry]:
    return held.again(lambda: held.log.entries(after, through, CHUNK_BYTES, CALL_SECONDS_MAX))


class LeasedTarget:
    """A `Target` on a medium that several reach."""

    def __init__(
        self,
        log: CopiedLog,
        start: str,
        waits: Waits = lambda *_: None,
        hold: Hold = HeldLog,
    ) -> None:
        """Take the medium, not opened; `start` says how a broker is started on it."""
        self._log = log
        self._start = start
        self._waits = waits
        self._hold = hold
        self._held: HeldLog | None = None
        self.place = log.facts().place
        self.is_whole = False
        self._end = 0

    def begin(self, plan: CopyPlan) -> Place:
        """Lay the medium out, or go on with what was begun."""
        begun = self._log.begin_copy(plan)
        self.is_whole = not self._log.is_half_copy
        self._end = plan.end.index
        if self.is_whole:
            if begun.claimant is not None and begun.claimant.name == NAME and not begun.is_released:
                raise StoreLockedError(
                    f"{self.place} is the log that is copied, or is being copied at this moment:"
                    f" name an empty place"
                )
            if begun.end != plan.end:
                raise StoreError(
                    f"{self.place} is a log already, through entry {begun.end.index:,}, and no copy"
                    f" in the making: nothing was changed; name an empty place"
                )
            self._held = self._hold(self._log)
            return plan.end
        held = self._hold(self._log)
        end = held.take(self._waits).end
        self._held = held
        return end

    def append(self, entries: list[Entry]) -> None:
        """Store what follows."""
        held = self._ours
        held.require(held.again(lambda: held.log.append(entries, CALL_SECONDS_MAX)))

    def entries(self, after: int) -> list[Entry]:
        """Read back what follows on entry `after`."""
        return _entries(self._ours, after, self._end)

    def keep(self) -> None:
        """Hold it still."""
        if not self.is_whole:
            self._ours.keep()

    def finish(self, last_look: Callable[[], None]) -> str:
        """Let brokers open it."""
        held = self._ours
        last_look()
        if not self.is_whole:
            held.require(held.again(lambda: self._log.finish_copy(CALL_SECONDS_MAX)))
            held.is_held = False
        return self._start

    def close(self) -> None:
        """Give the lease back, if it is held yet."""
        if self._held is not None:
            self._held.close()
        else:
            self._log.close()

    @property
    def _ours(self) -> HeldLog:
        assert self._held is not None, "a copy is begun first"
        return self._held
