"""
The set of a running store: who is in it, changed and written before anything more is confirmed.

Invariants:
    `change` returns when the new set stands: it is durable on every active member.
    Who failed once is not written to again by this process, but for being filled anew.

Safe to use from any thread: one change at a time.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import MirrorsLostError
from holdfast.mirrors.away import done_once_one_is_back
from holdfast.mirrors.mirror_set import Holding, MirrorSet, MirrorState
from holdfast.mirrors.set_file import WrittenSet, write_set

if TYPE_CHECKING:
    from holdfast.mirrors.away import Told
    from holdfast.mirrors.lanes import Lanes
    from holdfast.mirrors.mirror import Mirror

logger = logging.getLogger("holdfast.mirrors")


class SetKeeper:
    """Holds the set of these mirrors."""

    def __init__(self, mirrors: list[Mirror], holding: Holding, lanes: Lanes) -> None:
        self.mirrors = mirrors
        """All that were found, in the order given by the operator."""
        self.holding = holding
        self.lanes = lanes
        self.targets: tuple[Mirror, ...] = ()
        """Who is written to: the active ones, and those that are joining."""
        self.places: dict[str, str] = {}
        self.failed_total = 0
        self.is_lost = False
        """So few were left that nothing more may be confirmed."""
        self.on_lost: Callable[[MirrorsLostError], None] = lambda _error: None
        """Told at once: the process is to end."""
        self.on_change: Callable[[], None] = lambda: None
        self.rest: Callable[[float], None] = time.sleep
        """Lets seconds pass while the last mirror is away."""
        self._lock = threading.RLock()
        self._take_targets()

    @property
    def active(self) -> tuple[Mirror, ...]:
        """Those that have all that was confirmed."""
        return tuple(it for it in self.targets if it.state == "active")

    def fail(self, failed: Mapping[Mirror, BaseException | str]) -> None:
        """
        Go on without these; returns when that is durable on all others.

        Raises:
            OSError: Too few are left, or none: nothing more may be confirmed.
        """
        with self._lock:
            self._require_enough()
            new = [it for it in failed if it in self.targets]
            for mirror in new:
                was_active = mirror.state == "active"
                mirror.state, mirror.reason = "failed", str(failed[mirror])
                self.failed_total += was_active
                logger.critical(
                    "mirror %s failed and is not written any more: %s; repair it and enable it"
                    " ('holdfast mirror enable'), or give another directory in its place ('holdfast"
                    " mirror replace')",
                    mirror.directory,
                    mirror.reason,
                )
            if new:
                self.change({it.member: "failed" for it in new})

    def change(self, changes: Mapping[str, MirrorState | None]) -> None:
        """
        Make the set so; returns when that is durable where it must be.

        Raises:
            OSError: Too few are left to go on.
        """
        with self._lock:
            try:
                self.holding.change(changes)
                self._write_until_it_stands()
            except MirrorsLostError as error:
                self.is_lost = True
                named = self._named(error)
                self.on_lost(named)
                raise OSError(errno.EIO, str(named)) from error
            self._take_targets()
            self.settle()
        self.on_change()

    def settle(self) -> None:
        """Write once more that the set stands, so that nobody needs to ask who was before."""
        with self._lock:
            self._write(self.holding.settled())
            # One that refused this is found out by the next write to it: the set stands anyhow.

    def write_until_it_stands(self) -> None:
        """
        Write the set that a start begins with.

        Raises:
            OSError: Too few are left to go on.
        """
        with self._lock:
            try:
                self._write_until_it_stands()
            except MirrorsLostError as error:
                raise OSError(errno.EIO, str(self._named(error))) from error
            self._take_targets()
            self.settle()

    def add(self, mirror: Mirror) -> None:
        """Take up a mirror that is joining; it is told of in the set by a change that follows."""
        with self._lock:
            self.mirrors = [it for it in self.mirrors if it.directory != mirror.directory]
            self.mirrors.append(mirror)
            self.places[mirror.member] = str(mirror.directory)

    def _write_until_it_stands(self) -> None:
        while not self.holding.is_standing:
            # The last one is waited for: whatever else failed, what is confirmed is there.
            told = done_once_one_is_back(lambda: self._tell(self.holding.current), self.rest)
            failed = _failed(told)
            states = dict(self.holding.current.states)
            lost = [it for it in failed if states.get(it.member) in ("active", "joining")]
            for mirror in lost:
                mirror.state, mirror.reason = "failed", str(failed[mirror])
                logger.critical("mirror %s failed: %s", mirror.directory, mirror.reason)
            if lost:
                self.holding.change({it.member: "failed" for it in lost})

    def _write(self, known: MirrorSet) -> dict[Mirror, BaseException]:
        """Write this on every mirror that is not failed; give those that did not take it."""
        return _failed(self._tell(known))

    def _tell(self, known: MirrorSet) -> Told:
        states = dict(known.states)
        told = tuple(
            it for it in self.mirrors if it.state in ("active", "joining") and it.member in states
        )
        acts = []
        for mirror in told:
            mirror.sequence += 1
            written = WrittenSet(mirror.member, known, dict(self.places), mirror.sequence)
            acts.append((mirror.member, partial(write_set, mirror.directory, mirror.disk, written)))
        outcomes = self.lanes.run(acts) if acts else []
        found = (told, outcomes)
        errors = _failed(found)
        self.holding.written(it.member for it in told if it not in errors)
        return found

    def _take_targets(self) -> None:
        states = dict(self.holding.current.states)
        for mirror in self.mirrors:
            if mirror.state != "failed":
                mirror.state = states.get(mirror.member, "failed")
        self.targets = tuple(it for it in self.mirrors if it.state in ("active", "joining"))

    def _require_enough(self) -> None:
        if self.is_lost:
            failed = ", ".join(f"{it.directory} ({it.reason})" for it in self.mirrors if it.reason)
            raise OSError(
                errno.EIO,
                f"too few mirrors are left to go on, of which failed {failed or 'some'}: repair"
                f" them, and start again",
            )

    def _named(self, error: MirrorsLostError) -> MirrorsLostError:
        """The same error with directories in place of members."""
        directories = {it.member: str(it.directory) for it in self.mirrors}
        places = self.places | directories
        lost, left = ([places.get(it, it) for it in ids] for ids in (error.lost, error.left))
        return MirrorsLostError(lost, left)


def _failed(told: Told) -> dict[Mirror, BaseException]:
    return {mirror: error for mirror, (_, error) in zip(*told, strict=True) if error}
