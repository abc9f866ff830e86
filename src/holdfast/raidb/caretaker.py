"""
Who looks after the databases while the lease is held: fills those that were left out or are new,
and mends what rotted in the others.

One thread of its own copies; what changes the set is the holder's to do, between two batches: it
does by `admit` what was filled and what an operator wants. A database that failed comes back by
itself; one that was disabled waits for its operator.

Invariants:
    Nothing is done for a tenure that is over.
    What was begun is one thread's: that of its own, or of whoever calls `step` and `scrub`. Two
    that read over the same would both find an entry damaged, and both write it anew.
    The set is changed by the holder's thread only, and not while an append is in flight.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from holdfast.errors import MirrorError, StoreError, UnreachableError
from holdfast.mirrors.mirror_set import MirrorState
from holdfast.raidb.databases import STRAGGLER_SECONDS, Databases
from holdfast.raidb.returning import Returning, Step
from holdfast.raidb.scrubbing import Scrubber
from holdfast.raidb.settings import RaidbSettings
from holdfast.raidb.tenure import Tenure

logger = logging.getLogger("holdfast.raidb")

LOOK_SECONDS: Final = 1.0
"""How often a database that is away is asked whether it is back."""
CALL_SECONDS_MAX: Final = 5.0
SCRUB_SECONDS_MAX: Final = 1.0
_SCRUB_SHARE: Final = 0.1
"""Of a database's time, for reading over what it holds."""
_WANT_SECONDS_MAX: Final = 15.0


class _Wanted:
    """What an operator wants of the set."""

    def __init__(self, changes: Mapping[str, MirrorState | None]) -> None:
        self.changes = changes
        self.is_done = threading.Event()
        self.error: StoreError | None = None


class Caretaker:
    """Looks after the members of one log."""

    def __init__(self, databases: Databases, settings: RaidbSettings) -> None:
        """Nothing runs before `start`; without it `step` is to be called."""
        self._databases = databases
        self._settings = settings
        self._tenure: Tenure | None = None
        self._returning: dict[str, Returning] = {}
        self._scrubber: Scrubber | None = None
        self._wanted: list[_Wanted] = []
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look after them on a thread of its own, if there is none yet."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="store-caretaker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what it was filling is filled by the next holder."""
        self._is_stopping = True
        self._wake.set()

    def begin(self, tenure: Tenure | None) -> None:
        """From now on this one is held, or none."""
        self._tenure = tenure
        self._returning = {}
        self._scrubber = None
        if tenure is not None:
            self._scrubber = Scrubber(self._databases, self._settings, tenure)
        for wanted in self._wanted:
            wanted.error = UnreachableError("the lease was lost meanwhile: ask whoever holds it")
            wanted.is_done.set()
        self._wanted = []
        self._wake.set()

    def state(self, member: str) -> str:
        """What is to be told of a member beside its state in the set; empty if nothing is."""
        found, scrubber = self._returning.get(member), self._scrubber
        if found is None and scrubber is not None and member in scrubber.lost:
            return f"active: entry {scrubber.lost[member]:,} is whole in no enabled database"
        if found is None and scrubber is not None and member in scrubber.late:
            index = scrubber.late[member]
            return f"active: entry {index:,} is damaged, and was not written anew in time"
        if found is None and scrubber is not None and member in scrubber.unread:
            return f"active: not read over: {scrubber.unread[member]}"
        if found is None:
            return ""
        if found.token is None:
            return f"failed: {found.trouble}" if found.trouble else ""
        told = f"joining: {found.copied:,} of {found.to_copy:,} entries"
        return f"{told}: {found.trouble}" if found.trouble else told

    def step(self) -> float:
        """Do one small piece of work; after how many seconds there may be more."""
        self._require_alone()
        tenure, returning = self._tenure, self._returning
        if tenure is None:
            return LOOK_SECONDS
        current = tenure.holding.current
        if len(current.active) >= len(self._databases.members):
            return LOOK_SECONDS
        if not any(it.token and not it.trouble for it in returning.values()):
            # Also where one does not get on: there may be another database at its address.
            try:
                self._databases.read(CALL_SECONDS_MAX, STRAGGLER_SECONDS)
            except StoreError as error:
                logger.error("%s", error)  # noqa: TRY400 - the sentence says it all
                return LOOK_SECONDS
            for gone in returning.keys() - set(self._databases.ids):
                del returning[gone]
        pause = LOOK_SECONDS
        for member in self._databases.ids:
            if member in current.active or current.state_of(member) == "disabled":
                returning.pop(member, None)
                continue
            found = returning.get(member)
            if found is None:
                found = returning[member] = Returning(
                    self._databases, self._settings, tenure, member
                )
            if not found.is_ready and found.step(CALL_SECONDS_MAX) is Step.MORE:
                pause = min(pause, self._settings.copy_bytes / self._settings.copy_bytes_per_second)
        return pause

    def met(self, member: str, index: int) -> None:
        """A read met an entry that is damaged or gone in a member; may be called by any thread."""
        scrubber = self._scrubber
        if scrubber is not None:
            scrubber.met(member, index)
            self._wake.set()

    @property
    def mended_count(self) -> int:
        """Entries that were written anew under the present lease."""
        return 0 if self._scrubber is None else self._scrubber.mended_count

    def scrub(self) -> float:
        """Read over a piece of what is held; after how many seconds the next one is due."""
        self._require_alone()
        scrubber, settings = self._scrubber, self._settings
        if scrubber is None:
            return LOOK_SECONDS
        count = scrubber.step(min(SCRUB_SECONDS_MAX, settings.member_timeout_seconds / 2))
        return count / settings.scrub_bytes_per_second if count else settings.scrub_round_seconds

    def _run(self) -> None:
        scrub_at = 0.0
        while not self._is_stopping:
            try:
                pause = self.step()
                began = time.monotonic()
                if began >= scrub_at or self._is_scrub_urgent():
                    due = self.scrub()
                    took = time.monotonic() - began
                    # What else is asked of a database waits for what is read there meanwhile.
                    scrub_at = began + max(due, took / _SCRUB_SHARE)
            except Exception:  # a bug must not end the thread: the database stays left out
                logger.exception("a database could not be filled")
                pause = LOOK_SECONDS
            self._wake.wait(min(pause, max(scrub_at - time.monotonic(), 0.01)))
            self._wake.clear()

    def _require_alone(self) -> None:
        own = self._thread
        assert own is None or own is threading.current_thread(), "its own thread does that"

    def _is_scrub_urgent(self) -> bool:
        return self._scrubber is not None and self._scrubber.is_urgent

    def admit(self, tenure: Tenure, seconds_max: float) -> None:
        """
        Between two batches: let what was filled count, and do what an operator wants.

        Raises:
            UnreachableError: The next set does not stand yet; nothing is stored before it does.
        """
        if tenure.is_in_flight or not tenure.holding.is_standing:
            return
        is_idle = not self._wanted and not any(it.is_ready for it in self._returning.values())
        if is_idle or not tenure.level(seconds_max / 2):
            return
        if self._wanted:
            self._do_wanted(tenure, seconds_max)
        for found in list(self._returning.values()):
            if not found.is_ready or found.tenure is not tenure:
                continue
            try:
                is_whole = found.finish(seconds_max)
            except StoreError as error:
                logger.info("%s is not filled: %s", self._databases.name(found.member), error)
                is_whole = False
            found.is_ready = False
            if is_whole and found.token is not None:
                self._returning.pop(found.member, None)
                tenure.admit(found.member, found.token, seconds_max)
                return

    def _do_wanted(self, tenure: Tenure, seconds_max: float) -> None:
        wanted = self._wanted.pop(0)
        try:
            self._refuse_what_is_done(tenure, wanted.changes)
            tenure.change(wanted.changes)
        except StoreError as error:
            wanted.error = error
        else:
            for member, state in wanted.changes.items():
                self._returning.pop(member, None)
                if state != "active":
                    tenure.tokens.pop(member, None)
        wanted.is_done.set()
        tenure.stand_within(seconds_max)

    def _refuse_what_is_done(
        self, tenure: Tenure, changes: Mapping[str, MirrorState | None]
    ) -> None:
        """A member that has everything is not to be filled."""
        for member, state in changes.items():
            is_active = member in tenure.holding.current.active
            if is_active and state == "joining":
                raise MirrorError(f"{self._databases.name(member)} is enabled already")

    def disable(self, place: str) -> None:
        """
        Go on without a database; it is not filled again before it is enabled.

        Raises:
            StoreError: It is none, or the others are too few.
        """
        self._want({self._find(place): "disabled"})

    def enable(self, place: str) -> None:
        """
        Fill a database that was disabled.

        Raises:
            StoreError: It is none.
        """
        member = self._find(place)
        tenure = self._held()
        if tenure.holding.current.state_of(member) != "active":
            self._want({member: "joining"})

    def replace(self, place: str, by: str) -> None:
        """
        Take a database out of the set for good; another one was given to all brokers in its place.

        Raises:
            StoreError: It is none, or still in use, or the other one is not known.
        """
        member = self._find(place)
        if by not in map(self._databases.name, self._databases.ids):
            raise MirrorError(
                f"{by} is none of the databases that this broker was started with: start the"
                f" brokers with it in place of {place} first, one after the other"
            )
        if member in self._held().holding.current.active:
            raise MirrorError(
                f"{place} is in use: disable it before it is taken out ('holdfast mirror disable')"
            )
        self._want({member: None})

    def _held(self) -> Tenure:
        tenure = self._tenure
        if tenure is None:
            raise MirrorError("this broker does not hold the lease: ask the one that does")
        return tenure

    def _find(self, place: str) -> str:
        names = dict(self._held().holding.current.states)
        for member in names:
            if place in (member, self._databases.name(member)):
                return member
        known = self._databases.named(names)
        raise MirrorError(f"{place} is none of the databases of this log, which are {known}")

    @property
    def is_holding(self) -> bool:
        """Whether there is a tenure."""
        return self._tenure is not None

    def want_soon(self, changes: Mapping[str, MirrorState | None]) -> _Wanted:
        """Ask for these changes, without waiting for them."""
        wanted = _Wanted(changes)
        self._wanted.append(wanted)
        return wanted

    def _want(self, changes: Mapping[str, MirrorState | None]) -> None:
        wanted = self.want_soon(changes)
        if not wanted.is_done.wait(_WANT_SECONDS_MAX):
            raise MirrorError(
                "the databases did not answer in time, so it may be done yet: 'holdfast mirror"
                " status' tells; if it is not, ask again"
            )
        if wanted.error is not None:
            raise wanted.error
