"""
Does what the driver orders, on the medium: the one thread that waits for it.

`perform` is a plain function of one order, so that a simulator can run it; `WorkerThread` gives it
a thread. What is read is verified here, off the loop's thread: each entry follows on the one before
it by index, record numbers and chain.

Invariants:
    Whatever a medium raises comes out as a report with an error, and never ends the thread.
    What is noted as seen is final: stored under a lease that was judged, or told to be so.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from holdfast.errors import MissingEntriesError, StoreError, UnreachableError
from holdfast.journal.entry import Entry, verify_chain
from holdfast.leases.contract import ENTRIES_BYTES_MAX, Holding, LeasedLog, Outcome, Place
from holdfast.leases.namesakes import Namesakes
from holdfast.leases.orders import (
    Drop,
    Fetch,
    Join,
    Look,
    Order,
    Project,
    Release,
    Renew,
    Report,
    Store,
    Take,
    Tell,
)
from holdfast.leases.projection import Projection
from holdfast.leases.seen import SeenFile

logger = logging.getLogger("holdfast.leases")

_FAREWELL_SECONDS = 2.0
_LOOKS_MAX = 5
"""So often it is looked again where what was to be read was dropped meanwhile."""


class LogWorker:
    """Performs one order after the other."""

    def __init__(
        self,
        log: LeasedLog,
        seen: SeenFile,
        clock: Callable[[], float],
        *,
        name: str,
        namesakes: Namesakes | None = None,
    ) -> None:
        """
        Work on this medium for the broker of this name.

        Args:
            clock: The lease clock.
            namesakes: Who judges whether another one has the name; nobody if it is None.
        """
        self._name = name
        self._namesakes = namesakes
        self._has_told = namesakes is None
        self._log = log
        self._seen = seen
        self._clock = clock
        self._epoch = 0
        self._is_open = False

    def perform(self, order: Order) -> Report:
        """Do what is ordered; what the medium raises is in the report."""
        began = self._clock()
        found: dict[str, Any] = {}
        try:
            found = self._do(order)
        except StoreError as error:
            found = {"error": error}
        except Exception as error:  # a bug or a driver's own error must not end the thread
            logger.exception("the store broke")
            found = {"error": broke(error)}
        return Report(order=order, began=began, seconds=self._clock() - began, **found)

    def close(self) -> None:
        """Give back the lease if it is ours, say good-bye, and let the medium go."""
        self._seen.save()
        log = self._log
        try:
            if self._is_open:
                if self._epoch:
                    log.release(_FAREWELL_SECONDS)
                if self._has_told:
                    log.forget(self._name, _FAREWELL_SECONDS)
        except StoreError as error:
            logger.warning("the store does not answer at the end: %s", error)
        finally:
            log.close()

    def _do(self, order: Order) -> dict[str, Any]:
        log = self._log
        match order:
            case Join():
                return self._join(order)
            case Look():
                return self._look(order)
            case Take(seen, claimant, seconds_max):
                holding = log.take(seen, claimant, seconds_max)
                if holding is not None:
                    self._epoch = holding.epoch
                    self._note(holding)
                return {"holding": holding}
            case Store(entries, seconds_max, final_until):
                outcome = log.append(entries, seconds_max)
                if outcome is Outcome.STORED and self._clock() < final_until:
                    self._seen.note(
                        log.identity(),
                        self._epoch,
                        Place(entries[-1].index, entries[-1].chain),
                        self._clock(),
                    )
                return {"outcome": outcome}
            case Renew(seconds_max):
                return {"outcome": log.renew(seconds_max)}
            case Release(seconds_max):
                log.release(seconds_max)
                return {}
            case Drop(before, seconds_max):
                return {"is_more": log.drop_before(before, seconds_max)}
            case Fetch(index, seconds_max):
                return self._fetch(index, seconds_max)
            case Tell(waiter, seconds_max, forgets):
                for name in forgets:
                    log.forget(name, seconds_max)
                namesake = None
                if self._namesakes is not None:
                    namesake = self._namesakes.meet(log.waiters(seconds_max), log.facts().place)
                self._has_told = True
                log.tell(waiter, seconds_max)
                return {"waiters": log.waiters(seconds_max), "namesake": namesake}
            case Project(changes, seconds_max):
                assert isinstance(log, Projection), "only such a one is asked"
                found: dict[str, Any] = {"outcome": log.project(changes, seconds_max)}
                if changes.keys_after is not None:
                    found["keys"] = log.shown_keys(changes.keys_after, seconds_max)
                return found

    def _fetch(self, index: int, seconds_max: float) -> dict[str, Any]:
        """The entry; if it was dropped, from where the log is to be read anew by who needs it."""
        if self._log.observe(seconds_max).first_index > index:
            return self._begin_anew(seconds_max)
        return {"entries": self._log.entries(index - 1, index, 1, seconds_max)}

    def _join(self, order: Join) -> dict[str, Any]:
        """Whether what is in the cache is the beginning of what is here."""
        log = self._log
        if not self._is_open:
            log.open(may_lay_out=self._seen.last is None and not order.last_index)
            self._is_open = True
        holding = log.observe(order.seconds_max)
        if self._namesakes is not None:
            try:
                self._namesakes.judge(log.waiters(order.seconds_max), log.facts().place)
            except UnreachableError as error:
                # While a line is watched the lease is, too: neither waits for the other.
                return {"holding": holding, "error": error}
        seen = self._seen.last
        is_ours = seen is not None and seen.identity == log.identity()
        if log.is_fence and seen is not None and is_ours and order.last_index > seen.place.index:
            # What is noted is up to a second old; with a fence the cache has only what is final.
            place = Place(order.last_index, order.chain)
            self._seen.note(
                seen.identity, seen.epoch, place, self._clock(), holding.epoch, is_earlier=True
            )
        self._judge_in_full(holding, order.seconds_max)
        self._note(holding)
        found: dict[str, Any] = {"holding": holding}
        holder = "" if holding.claimant is None else holding.claimant.holder
        if self._namesakes is not None and self._namesakes.ran_here(holder):
            found["gone"] = holder
        there = self._chain_at(holding, order.last_index, order.seconds_max)
        if there != order.chain:
            found |= self._begin_anew(order.seconds_max)
        return found

    def _judge_in_full(self, holding: Holding, seconds_max: float) -> None:
        """
        Refuse a log that has another entry where this broker saw one for sure, however long it is.
        """
        seen, chain = self._seen.last, None
        if seen is not None and seen.identity == self._log.identity():
            chain = self._chain_at(holding, seen.place.index, seconds_max)
        self._seen.judge(self._log.identity(), holding, chain)

    def _begin_anew(self, seconds_max: float) -> dict[str, Any]:
        """From where the log is to be read by who knows nothing of it."""
        for _ in range(_LOOKS_MAX):
            holding = self._log.observe(seconds_max)
            first = holding.first_index
            if first <= 1:
                return {"is_other": True}
            # The oldest entry that is kept says what the next one follows on, by its chain value.
            found = self._read(holding, first - 1, first, 1, seconds_max)
            if found:
                return {"is_other": True, "anchor": found[0]}
        raise UnreachableError("the store drops entries as fast as this broker reads them")

    def _chain_at(self, holding: Holding, index: int, seconds_max: float) -> bytes | None:
        """The chain value of the log there; None if it does not say."""
        if index == 0:
            return bytes(16) if holding.first_index <= 1 else None
        if index == holding.end.index:
            return holding.end.chain
        if not holding.first_index <= index <= holding.end.index:
            return None
        found = self._read(holding, index - 1, index, 1, seconds_max)
        return found[0].chain if found else None

    def _read(
        self, holding: Holding, after: int, through: int, bytes_max: int, seconds_max: float
    ) -> list[Entry]:
        """
        Read entries; none if they were dropped, or cut off, since the lease was read.

        Raises:
            MissingEntriesError: They should be there.
        """
        try:
            found = self._log.entries(after, through, bytes_max, seconds_max)
            if not found:
                raise MissingEntriesError(after + 1, through, "the store")
        except MissingEntriesError:
            now = self._log.observe(seconds_max)
            # A take that was won and not begun may have begun since, and have cut off what was
            # never sure: in the very epoch that was seen.
            due = max(holding.sure.index, now.end.index)
            if now.first_index <= after + 1 <= due and now.epoch == holding.epoch:
                raise
            return []
        if found[0].index != after + 1:
            raise _broken(after + 1)
        return found

    def _look(self, order: Look) -> dict[str, Any]:
        holding = self._log.observe(order.seconds_max)
        self._seen.judge(self._log.identity(), holding, None)
        try:
            seconds_max = max(order.seconds_max, order.read_seconds_max)
            return {"holding": holding} | self._look_behind(order, holding, seconds_max)
        except UnreachableError as error:
            return {"holding": holding, "error": error}

    def _look_behind(self, order: Look, holding: Holding, seconds_max: float) -> dict[str, Any]:
        """What is there behind the last entry that is known; each reading has so long."""
        log = self._log
        found: dict[str, Any] = {}
        # With a fence nothing is followed that might be undone.
        last, end = order.last_index, (holding.sure if log.is_fence else holding.end).index
        # An end that was seen before a take may have been cut off by it.
        if last >= end or last + 1 < holding.first_index:
            if self._chain_at(holding, last, seconds_max) != order.chain:
                self._judge_in_full(holding, seconds_max)
                found |= self._begin_anew(seconds_max)
            self._note(holding)
            return found
        entries = self._read(holding, last, end, ENTRIES_BYTES_MAX, seconds_max)
        if not entries:
            return found | {"is_more": True}  # Gone just now: the next look begins anew.
        if not verify_chain(entries[0], order.chain):
            if self._chain_at(holding, last, seconds_max) == order.chain:
                raise _broken(last + 1)
            self._judge_in_full(holding, seconds_max)
            return found | self._begin_anew(seconds_max)
        _require_unbroken(entries, last)
        self._note(holding)
        return found | {"entries": entries, "is_more": entries[-1].index < end}

    def _note(self, holding: Holding) -> None:
        # An epoch without a beat was won and not begun: whoever won it may be gone without a trace.
        epoch = holding.epoch if holding.beat else max(holding.epoch - 1, 0)
        if not holding.is_begun:
            epoch = 0 if self._seen.last is None else self._seen.last.epoch
        self._seen.note(
            self._log.identity(), epoch, holding.sure, self._clock(), max(epoch, holding.epoch)
        )


def _require_unbroken(entries: list[Entry], last_index: int) -> None:
    """
    See that each entry follows on the one before it; the first one's chain was looked at.

    Raises:
        StoreError: One does not.
    """
    before: Entry | None = None
    for entry in entries:
        last_index += 1
        is_next = entry.index == last_index
        if is_next and before is not None:
            is_next = entry.first_record == before.next_record and entry.term >= before.term
            is_next = is_next and verify_chain(entry, before.chain)
        if not is_next:
            raise _broken(last_index)
        before = entry


def broke(error: Exception) -> StoreError:
    """Give the error of a failure that nobody has thought of."""
    return StoreError(
        f"the store broke: {type(error).__name__}: {error}: this is a fault of Holdfast or of a"
        f" driver, and the log tells where; restart this broker, and report it"
    )


def _broken(index: int) -> StoreError:
    return StoreError(
        f"entry {index:,} of the store does not follow on the one before it: the log was changed by"
        f" hand, or its rows are of two logs; nothing was changed by this broker, compare with"
        f" another copy ('holdfast store verify')"
    )


class WorkerThread:
    """Gives a worker a thread; its reports go to `notify`, on that thread."""

    def __init__(self, worker: LogWorker, notify: Callable[[Report], None]) -> None:
        """Nothing runs before `start`."""
        self._worker = worker
        self._notify = notify
        self._queue: SimpleQueue[Order | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="store-worker", daemon=True)
        self._thread.start()

    def submit(self, order: Order) -> None:
        """Have this done, after what was submitted before."""
        self._queue.put(order)

    def close(self, seconds_max: float) -> bool:
        """Do what was submitted, then end; whether it did so in time. The thread is left if not."""
        if self._thread is None:
            return True
        self._queue.put(None)
        self._thread.join(seconds_max)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (order := self._queue.get()) is not None:
            self._notify(self._worker.perform(order))
        try:
            self._worker.close()
        except Exception:  # what is being closed is of no use to anybody any more
            logger.exception("the store could not be closed")
