"""
A thread for each database, so that the same is done in all at once and none holds up others.

What is asked of a member is done on its own thread, one thing after the other. Who asks several at
once waits for all of them within a bound; one that has not answered by then is an unknown outcome,
and is asked nothing more until it has come back. Who needs some of them only says of how many
answers it has enough: the others go on, and are asked for theirs by the very same act.

Invariants:
    A member is used by its own thread only.
    What a member still does when it was given up comes to nobody's ears.
    Nothing waits but in a queue: where `Threads` are simulated, virtual time passes there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from holdfast.environment.kept_errors import without_frames
from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.worker import broke

logger = logging.getLogger("holdfast.raidb")

Act = Callable[[float], Any]
"""What is to be done, within so many seconds."""
IsEnough = Callable[[Mapping[str, Any]], bool]
"""Whether, with what has come so far, nobody else need be waited for."""

GRACE_SECONDS: Final = 0.25
"""What a call may take beyond its bound before its member is asked nothing more."""


class Lanes(Protocol):
    """Does something in several members; each is known by a key."""

    def run(
        self,
        acts: Mapping[str, Act],
        seconds_max: float,
        patience: float | None = None,
        is_enough: IsEnough | None = None,
        leave_after: float | None = None,
    ) -> dict[str, Any]:
        """
        Do each of these, and give what came of each: a result, or the StoreError that was raised.

        Args:
            patience: Once one has answered, others are waited for only so long.
            is_enough: Asked after each answer. Those that are not waited for are missing in what
                is given, and go on; what came of them is given to who asks the same by the same
                act again, which does nothing a second time while it is under way.
            leave_after: After so long nobody is waited for either, and likewise.
        """
        ...

    def close(self) -> None:
        """End all threads that are not hanging."""
        ...


class Inbox(Protocol):
    """What one thread hands to another; as `queue.SimpleQueue` has it."""

    def put(self, item: Any) -> None:
        """Hand this over; waits for nobody."""
        ...

    def get(self, *, timeout: float | None = None) -> Any:
        """
        Take the next one, and wait for it so long, or without an end.

        Raises:
            queue.Empty: None came in time.
        """
        ...


class Threads(Protocol):
    """Threads, how they hand things over, and their time: a simulation has its own."""

    def clock(self) -> float:
        """Give seconds that never go back."""
        ...

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Let this be done by a thread of its own, which keeps no process alive."""
        ...

    def inbox(self) -> Inbox:
        """Give an empty one."""
        ...


class SystemThreads:
    """Those of the machine."""

    def clock(self) -> float:
        """Give the seconds of the monotonic clock."""
        return time.monotonic()

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Start a daemon."""
        threading.Thread(target=work, name=name, daemon=True).start()

    def inbox(self) -> Inbox:
        """Give a queue that any thread may use."""
        return SimpleQueue()


def attempt(act: Act, seconds_max: float) -> Any:
    """Do it, and give what came of it; an error has nothing in its hands any more."""
    try:
        return act(seconds_max)
    except StoreError as error:
        return without_frames(error)
    except Exception as error:  # a bug or a driver's own error ends no thread
        logger.exception("the store broke")
        return broke(error)


class _Job:
    """What was asked of one member, and who is to hear what came of it."""

    __slots__ = ("_lock", "_outbox", "_outcome", "act", "deadline", "is_done", "key")

    def __init__(self, key: str, act: Act, deadline: float, outbox: Inbox) -> None:
        self.key, self.act, self.deadline = key, act, deadline
        self.is_done = False
        self._outcome: Any = None
        self._outbox = outbox
        self._lock = threading.Lock()

    def run(self, now: float) -> None:
        """Do it."""
        outcome = attempt(self.act, max(self.deadline - now, 0.05))
        with self._lock:
            self._outcome, self.is_done = outcome, True
            self._outbox.put((self.key, outcome))

    def hand_to(self, outbox: Inbox) -> None:
        """Let it be heard here from now on, also where it is done already."""
        with self._lock:
            self._outbox = outbox
            if self.is_done:
                outbox.put((self.key, self._outcome))


class _Lane:
    """One member's thread."""

    def __init__(self, key: str, threads: Threads) -> None:
        self.inbox = threads.inbox()
        self.key = key
        self.given_up: _Job | None = None
        """The last job that nobody waits for any more."""
        self.left: _Job | None = None
        """The one that went on when there was enough without it."""
        self._clock = threads.clock
        threads.start(f"store-{key[:8]}", self._run)

    @property
    def is_hanging(self) -> bool:
        """Whether what was given up is still under way."""
        return self.given_up is not None and not self.given_up.is_done

    def job(self, act: Act, deadline: float, outbox: Inbox) -> _Job | None:
        """Have it done, or wait for it again if it is what was left; None while it hangs."""
        left = self.left
        if left is not None and left.act is act:
            self.left = None
            left.hand_to(outbox)
            return left
        if self.is_hanging:
            return None
        made = _Job(self.key, act, deadline, outbox)
        self.inbox.put(made)
        return made

    def _run(self) -> None:
        while (job := self.inbox.get()) is not None:
            job.run(self._clock())
            del job


class ThreadLanes:
    """A thread for each member; may be used from several threads."""

    def __init__(self, threads: Threads | None = None) -> None:
        """`threads` are those of the machine, if none are given."""
        self._threads: Threads = SystemThreads() if threads is None else threads
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}

    def run(
        self,
        acts: Mapping[str, Act],
        seconds_max: float,
        patience: float | None = None,
        is_enough: IsEnough | None = None,
        leave_after: float | None = None,
    ) -> dict[str, Any]:
        """Do each of these at the same time."""
        clock = self._threads.clock
        outbox = self._threads.inbox()
        found: dict[str, Any] = {}
        deadline = clock() + seconds_max
        jobs: dict[str, _Job] = {}
        for key in sorted(acts):  # Not as a set has them: a simulated life is lived again.
            job = self._lane(key).job(acts[key], deadline, outbox)
            if job is None:
                found[key] = UnreachableError("it has not answered what was asked before")
            else:
                jobs[key] = job
        until = given_up_at = deadline + GRACE_SECONDS
        if leave_after is not None:
            until = min(until, clock() + leave_after)
        try:
            while len(found) < len(acts):
                key, outcome = outbox.get(timeout=max(until - clock(), 0))
                found[key] = outcome
                if patience is not None and not isinstance(outcome, StoreError):
                    until = min(until, clock() + patience)
                if is_enough is not None and is_enough(found):
                    self._leave(jobs, found)
                    break
        except Empty:
            if leave_after is not None and clock() < given_up_at:
                self._leave(jobs, found)
                return found
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

    def _leave(self, jobs: Mapping[str, _Job], found: Mapping[str, Any]) -> None:
        """Nobody waits for the others now; who asks for the same again hears of them."""
        for key in jobs.keys() - found.keys():
            self._lane(key).left = jobs[key]

    def _lane(self, key: str) -> _Lane:
        with self._lock:
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane(key, self._threads)
        return lane


_WHOLE_SHARE: Final = 0.9
"""What took so much of its time had too little of it."""


class InTurn:
    """The same without threads, for tests and simulations: one after the other."""

    def __init__(
        self,
        shuffle: Callable[[list[str]], None] = lambda _keys: None,
        is_left: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """
        `shuffle` puts the keys into an order.

        `is_left` says of one that need not be waited for whether it takes longer than the others:
        it is sent on its way then, and sent again, and waited for, with the same act.

        By `clock` it is told who had no time to answer where nobody is waited for so long; without
        one all are.
        """
        self._shuffle = shuffle
        self._is_left = is_left
        self._clock = clock
        self._left: dict[str, Act] = {}
        self._spent: dict[str, float] = {}
        """How long those were at work that were sent on their way: what they do goes on."""

    def run(
        self,
        acts: Mapping[str, Act],
        seconds_max: float,
        patience: float | None = None,
        is_enough: IsEnough | None = None,
        leave_after: float | None = None,
    ) -> dict[str, Any]:
        """Do each of these in turn, each with its share of the time."""
        keys = sorted(acts)
        self._shuffle(keys)
        found: dict[str, Any] = {}
        clock = self._clock
        is_cut_short = clock is not None and leave_after is not None and leave_after < seconds_max
        if is_cut_short and leave_after is not None:
            seconds_max = leave_after
        share = seconds_max / max(len(keys), 1)
        for key in keys:
            was_left = self._left.get(key) is acts[key]
            if is_enough is not None and not was_left and is_enough(found) and self._is_left():
                attempt(acts[key], 0.0)
                self._left[key] = acts[key]
                continue
            spent = self._spent.pop(key, 0.0) if was_left else 0.0
            if was_left:
                del self._left[key]
            began = 0.0 if clock is None else clock()
            outcome = attempt(acts[key], spent + share)
            is_late = clock is not None and clock() - began >= _WHOLE_SHARE * (spent + share)
            if is_cut_short and is_late and isinstance(outcome, UnreachableError):
                self._left[key] = acts[key]
                self._spent[key] = spent + share
                continue
            found[key] = outcome
            if patience is not None and not isinstance(found[key], StoreError):
                share = min(share, patience)
        return found

    def close(self) -> None:
        """There is nothing to end."""
