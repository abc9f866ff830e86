"""
A thread for each database, so that the same is done in all at once and none holds up others.

What is asked of a member is done on its own thread, one thing after the other. Who asks several at
once waits for all of them within a bound; one that has not answered by then is an unknown outcome,
and is asked nothing more until it has come back.

Invariants:
    A member is used by its own thread only.
    What a member still does when it was given up comes to nobody's ears.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from holdfast.errors import StoreError, UnreachableError

Act = Callable[[float], Any]
"""What is to be done, within so many seconds."""

GRACE_SECONDS: Final = 0.25
"""What a call may take beyond its bound before its member is asked nothing more."""


class Lanes(Protocol):
    """Does something in several members; each is known by a key."""

    def run(
        self, acts: Mapping[str, Act], seconds_max: float, patience: float | None = None
    ) -> dict[str, Any]:
        """
        Do each of these, and give what came of each: a result, or the StoreError that was raised.

        Args:
            patience: Once one has answered, others are waited for only so long.
        """
        ...

    def close(self) -> None:
        """End all threads that are not hanging."""
        ...


def attempt(act: Act, seconds_max: float) -> Any:
    """Do it, and give what came of it."""
    try:
        return act(seconds_max)
    except StoreError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a bug or a driver's own error ends no thread
        return StoreError(f"the store broke: {type(error).__name__}: {error}")


class _Job:
    """What was asked of one member."""

    __slots__ = ("act", "deadline", "is_done", "outbox")

    def __init__(self, act: Act, deadline: float, outbox: SimpleQueue[tuple[str, Any]]) -> None:
        self.act, self.deadline, self.outbox = act, deadline, outbox
        self.is_done = False


class _Lane:
    """One member's thread."""

    def __init__(self, key: str) -> None:
        self.inbox: SimpleQueue[_Job | None] = SimpleQueue()
        self.key = key
        self.given_up: _Job | None = None
        """The last job that nobody waits for any more."""
        thread = threading.Thread(target=self._run, name=f"store-{key[:8]}", daemon=True)
        thread.start()

    @property
    def is_hanging(self) -> bool:
        """Whether what was given up is still under way."""
        return self.given_up is not None and not self.given_up.is_done

    def _run(self) -> None:
        while (job := self.inbox.get()) is not None:
            outcome = attempt(job.act, max(job.deadline - time.monotonic(), 0.05))
            job.is_done = True
            job.outbox.put((self.key, outcome))
            del job, outcome


class ThreadLanes:
    """A thread for each member; may be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}

    def run(
        self, acts: Mapping[str, Act], seconds_max: float, patience: float | None = None
    ) -> dict[str, Any]:
        """Do each of these at the same time."""
        outbox: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        found: dict[str, Any] = {}
        deadline = time.monotonic() + seconds_max
        jobs: dict[str, _Job] = {}
        for key, act in acts.items():
            lane = self._lane(key)
            if lane.is_hanging:
                found[key] = UnreachableError("it has not answered what was asked before")
            else:
                jobs[key] = _Job(act, deadline, outbox)
                lane.inbox.put(jobs[key])
        until = deadline + GRACE_SECONDS
        try:
            while len(found) < len(acts):
                key, outcome = outbox.get(timeout=max(until - time.monotonic(), 0))
                found[key] = outcome
                if patience is not None and not isinstance(outcome, StoreError):
                    until = min(until, time.monotonic() + patience)
        except Empty:
            for key in acts.keys() - found.keys():
                self._lane(key).given_up = jobs[key]
                found[key] = UnreachableError(f"it did not answer within {seconds_max:.1f} s")
        return found

    def close(self) -> None:
        """End all threads that are not hanging."""
        with self._lock:
            lanes = list(self._lanes.values())
            self._lanes.clear()
        for lane in lanes:
            lane.inbox.put(None)

    def _lane(self, key: str) -> _Lane:
        with self._lock:
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane(key)
        return lane


class InTurn:
    """The same without threads, for tests and simulations: one after the other."""

    def __init__(self, shuffle: Callable[[list[str]], None] = lambda _keys: None) -> None:
        """`shuffle` puts the keys into an order."""
        self._shuffle = shuffle

    def run(
        self, acts: Mapping[str, Act], seconds_max: float, patience: float | None = None
    ) -> dict[str, Any]:
        """Do each of these in turn, each with its share of the time."""
        keys = sorted(acts)
        self._shuffle(keys)
        found: dict[str, Any] = {}
        share = seconds_max / max(len(keys), 1)
        for key in keys:
            found[key] = attempt(acts[key], share)
            if patience is not None and not isinstance(found[key], StoreError):
                share = min(share, patience)
        return found

    def close(self) -> None:
        """There is nothing to end."""
