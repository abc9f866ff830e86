"""
Where the same is done on several mirrors at the same time, and who is not waited for any longer.

Each thread that writes has, for each mirror, a lane of its own: a thread that does one thing after
another. So a mirror that hangs holds nobody up for longer than it is allowed to, and what is slow
for one caller (zeros for the next file) does not stand in the way of another (a batch).

Invariants:
    What one caller asks of one mirror is done in the order asked.
    Nobody is given up before another one is done: if all are slow, all are waited for.
    A lane that was given up is never asked again; what it still does comes to nobody's ears.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from holdfast.environment.bounded import BoundedCalls
from holdfast.environment.bounded_disk import Calls, CallsInTurn, HangingError
from holdfast.environment.descriptors import is_out_of_descriptors
from holdfast.environment.kept_errors import without_frames

T = TypeVar("T")
Outcome = tuple[Any, BaseException | None]
"""What came of it, or what was raised."""


class Lanes(Protocol):
    """Does the same on several mirrors; each is known by a key."""

    def run(self, acts: Sequence[tuple[str, Callable[[], Any]]]) -> list[Outcome]:
        """Do each of these, and give what came of each, in the same order."""
        ...

    def ask(self, acts: Sequence[tuple[str, Callable[[], Any]]]) -> list[tuple[int, Outcome]]:
        """
        Do the first of these; where it fails or takes long, the next; until one comes out well.

        Gives what came back so far, with its place; the last of them is the one that came out well,
        if any did. What is slow is left to itself.
        """
        ...

    def within(
        self, seconds: float, acts: Sequence[tuple[str, Callable[[], Any]]]
    ) -> list[Outcome]:
        """
        Do each of these at the same time, and wait for them so long, whoever is done.

        One that is not done by then has a HangingError, and goes on being done.
        """
        ...

    def leave(self, key: str, act: Callable[[], Any]) -> None:
        """Have this done after all that was asked there before, and wait for nothing."""
        ...

    def is_slow(self, key: str) -> bool:
        """Whether something is being done there that takes long."""
        ...

    def is_stuck(self, key: str) -> bool:
        """Whether something is being done there for so long that it is to be given up."""
        ...

    def is_hanging(self, key: str) -> bool:
        """Whether something that was given up is still under way there."""
        ...

    def calls(self, key: str) -> Calls:
        """Give what makes calls to one directory of which it is not known whether it answers."""
        ...

    def close(self) -> None:
        """End all threads that are not hanging."""
        ...


def attempt(act: Callable[[], Any]) -> Outcome:
    """Do it, and give what came of it; an error of a disk has nothing in its hands any more."""
    try:
        return act(), None
    except OSError as error:
        return None, without_frames(error)
    except Exception as error:  # noqa: BLE001 - it is the caller's to judge
        return None, error


def _is_final(outcome: Outcome) -> bool:
    """Whether nobody else is to be asked: it came out well, or it is no disk that failed."""
    error = outcome[1]
    return not isinstance(error, OSError) or is_out_of_descriptors(error)


class InTurn:
    """One after the other in the caller's thread: for tests, and where there is but one mirror."""

    def run(self, acts: Sequence[tuple[str, Callable[[], Any]]]) -> list[Outcome]:
        """Do each of these, and give what came of each, in the same order."""
        return [attempt(act) for _, act in acts]

    def ask(self, acts: Sequence[tuple[str, Callable[[], Any]]]) -> list[tuple[int, Outcome]]:
        """Do the first, and the next where one fails, until one comes out well."""
        answers: list[tuple[int, Outcome]] = []
        for place, (_, act) in enumerate(acts):
            answers.append((place, attempt(act)))
            if _is_final(answers[-1][1]):
                break
        return answers

    def within(
        self, seconds: float, acts: Sequence[tuple[str, Callable[[], Any]]]
    ) -> list[Outcome]:
        """Do each of these."""
        del seconds
        return self.run(acts)

    def leave(self, key: str, act: Callable[[], Any]) -> None:
        """Do it now."""
        del key
        attempt(act)

    def is_slow(self, key: str) -> bool:
        """Never: it is waited for."""
        del key
        return False

    def is_stuck(self, key: str) -> bool:
        """Never: it is waited for."""
        del key
        return False

    def is_hanging(self, key: str) -> bool:
        """Never: it is waited for."""
        del key
        return False

    def calls(self, key: str) -> Calls:
        """They are made here: it is waited for."""
        del key
        return CallsInTurn()

    def close(self) -> None:
        """Nothing is to be ended."""


_SLOW_SECONDS = 0.5
"""A mirror that takes longer to read from is passed over for the next one."""


class _Lane:
    """One thread."""

    __slots__ = ("begun", "inbox", "thread")

    def __init__(self, key: str) -> None:
        self.inbox: SimpleQueue[tuple[Callable[[], Any], int, SimpleQueue[Any]] | None] = (
            SimpleQueue()
        )
        self.begun = 0.0
        """When what it does was begun, by the monotonic clock; 0: it does nothing."""
        self.thread = threading.Thread(target=self._run, name=f"mirror-{key[:8]}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        get = self.inbox.get
        while (wanted := get()) is not None:
            act, place, outbox = wanted
            self.begun = time.monotonic()
            outcome = attempt(act)
            self.begun = 0.0
            outbox.put((place, outcome))
            del wanted, act, outbox, outcome


class ThreadLanes:
    """A thread for each mirror and each thread that asks."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._local = threading.local()
        self._lock = threading.Lock()
        self._lanes: dict[str, list[_Lane]] = {}
        self._given_up: dict[str, list[_Lane]] = {}

    def run(self, acts: Sequence[tuple[str, Callable[[], Any]]]) -> list[Outcome]:
        """
        Do each of these at the same time, and give what came of each, in the same order.

        One that has not come back so long after the first one is given up with HangingError.
        """
        if len(acts) == 1:
            return [attempt(acts[0][1])]
        outbox: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
        lanes = [self._lane(key) for key, _ in acts]
        for place, (lane, (_, act)) in enumerate(zip(lanes, acts, strict=True)):
            lane.inbox.put((act, place, outbox))
        found: dict[int, Outcome] = {}
        place, outcome = outbox.get()
        found[place] = outcome
        if len(acts) > 1:
            deadline = time.monotonic() + self._timeout
            try:
                while len(found) < len(acts):
                    place, outcome = outbox.get(timeout=max(deadline - time.monotonic(), 0))
                    found[place] = outcome
            except Empty:
                for place, (key, _) in enumerate(acts):
                    if place not in found:
                        found[place] = None, HangingError(self._timeout)
                        self._give_up(key, lanes[place])
        return [found[place] for place in range(len(acts))]

    def ask(self, acts: Sequence[tuple[str, Callable[[], Any]]]) -> list[tuple[int, Outcome]]:
        """
        Do the first of these; where it fails or takes long, the next; until one comes out well.

        If all are slow, all are waited for, as of a single disk.
        """
        if len(acts) == 1:
            return [(0, attempt(acts[0][1]))]
        outbox: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
        answers: list[tuple[int, Outcome]] = []
        asked = 0
        while len(answers) < len(acts):
            if asked < len(acts):
                key, act = acts[asked]
                self._lane(key).inbox.put((act, asked, outbox))
                asked += 1
            try:
                answers.append(outbox.get(timeout=_SLOW_SECONDS if asked < len(acts) else None))
            except Empty:
                continue
            if _is_final(answers[-1][1]):
                break
        return answers

    def within(
        self, seconds: float, acts: Sequence[tuple[str, Callable[[], Any]]]
    ) -> list[Outcome]:
        """Do each of these at the same time, and wait for them so long, whoever is done."""
        outbox: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
        for place, (key, act) in enumerate(acts):
            self._lane(key).inbox.put((act, place, outbox))
        found: list[Outcome] = [(None, HangingError(seconds)) for _ in acts]
        deadline = time.monotonic() + seconds
        for _ in acts:
            try:
                place, outcome = outbox.get(timeout=max(deadline - time.monotonic(), 0))
            except Empty:
                break
            found[place] = outcome
        return found

    def leave(self, key: str, act: Callable[[], Any]) -> None:
        """Have this done after all that was asked there before, and wait for nothing."""
        self._lane(key).inbox.put((act, 0, SimpleQueue()))

    def is_slow(self, key: str) -> bool:
        """Whether something is being done there that takes long."""
        return self._is_at_it_for(key, _SLOW_SECONDS)

    def is_stuck(self, key: str) -> bool:
        """Whether something is being done there for so long that it is to be given up."""
        return self._is_at_it_for(key, self._timeout)

    def _is_at_it_for(self, key: str, seconds: float) -> bool:
        now = time.monotonic()
        # What begins or ends in between is not what takes long.
        begun = [lane.begun for lane in list(self._lanes.get(key, ()))]
        return any(it and now - it > seconds for it in begun)

    def is_hanging(self, key: str) -> bool:
        """Whether something that was given up is still under way there."""
        return any(lane.begun for lane in self._given_up.get(key, ()))

    def calls(self, key: str) -> Calls:
        """Give a thread of its own."""
        return BoundedCalls(f"mirror-{key[-8:]}")

    def close(self) -> None:
        """End all threads that are not hanging."""
        with self._lock:
            lanes = [lane for found in self._lanes.values() for lane in found]
            self._lanes.clear()
        for lane in lanes:
            lane.inbox.put(None)
        self._local = threading.local()

    def _lane(self, key: str) -> _Lane:
        mine: dict[str, _Lane] | None = getattr(self._local, "lanes", None)
        if mine is None:
            mine = self._local.lanes = {}
        lane = mine.get(key)
        if lane is None:
            lane = mine[key] = _Lane(key)
            with self._lock:
                self._lanes.setdefault(key, []).append(lane)
        return lane

    def _give_up(self, key: str, lane: _Lane) -> None:
        self._local.lanes.pop(key, None)
        with self._lock:
            self._lanes[key].remove(lane)
            self._given_up.setdefault(key, []).append(lane)
        lane.inbox.put(None)


def answer(answers: Sequence[tuple[int, Outcome]]) -> Any:
    """Give what came out well; else raise what the first one failed with, or what is no disk's."""
    result, error = answers[-1][1] if answers else (None, nobody_left())
    if error is None:
        return result
    if isinstance(error, OSError) and not is_out_of_descriptors(error):
        error = first_failure(outcome for _, outcome in answers)
    raise error


def first_failure(outcomes: Iterable[Outcome]) -> BaseException:
    """Give what the first one that failed met."""
    return next((error for _, error in outcomes if error is not None), nobody_left())


def nobody_left() -> OSError:
    """Say that there is nobody to ask."""
    return OSError(
        errno.EIO,
        "no mirror is left that has everything: the log tells how each failed; repair one, and"
        " start again",
    )
