"""
The way between a broker and a medium that several reach, and what may happen on it.

A statement is sent, takes effect at the medium some time later, or never, and its reply comes later
still, or never. Who sent it may be dead by then: what is under way takes effect all the same.

Invariants:
    A statement takes effect once at most, at one instant, and all of it.
    Who waits longer than the bound of the call has learned nothing: the outcome is not known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError

LOST = float("inf")


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one statement."""

    before: float = 0.0
    """After so many seconds it takes effect; `LOST`: never."""

    after: float = 0.0
    """So many seconds later its reply is there; `LOST`: never."""

    refusal: str = ""
    """The medium keeps nothing of it, and says so."""

    is_quick: bool = False
    """That it was not reached is known at once, as where a connection is refused."""


class Sent:
    """A statement on its way."""

    __slots__ = ("_error", "_result", "_statement", "is_done", "sending_seconds")

    def __init__(self, statement: Callable[[], Any], sending_seconds: float = 0.0) -> None:
        self._statement = statement
        self.sending_seconds = sending_seconds
        """So long its bytes take to be sent: who dies meanwhile has sent nothing."""
        self._result: Any = None
        self._error: StoreError | None = None
        self.is_done = False

    def take_effect(self) -> None:
        """Do it, here and now."""
        assert not self.is_done, "a statement takes effect once"
        self.is_done = True
        try:
            self._result = self._statement()
        except StoreError as error:
            self._error = error

    def reply(self) -> Any:
        """What came of it."""
        assert self.is_done, "its reply cannot come before it"
        if self._error is not None:
            raise self._error
        return self._result


class Passage(Protocol):
    """One broker's way to the medium."""

    def fate(self, statement: str) -> Fate:
        """Draw what becomes of a statement of this kind."""
        ...

    def send(self, seconds: float, sent: Sent) -> None:
        """Let it take effect so much later, whatever becomes of who sent it."""
        ...

    def wait(self, seconds: float) -> None:
        """Let the caller wait."""
        ...


def ask(
    passage: Passage,
    kind: str,
    seconds_max: float,
    statement: Callable[[], Any],
    seconds: float = 0.0,
) -> Any:
    """
    Send one statement, whose bytes take so many seconds, and give what came of it.

    Raises:
        AppendRefusedError: The medium keeps nothing of it.
        UnreachableError: Nothing was heard in time.
    """
    fate = passage.fate(kind)
    if seconds:
        fate = replace(fate, before=fate.before + seconds)
    if fate.refusal:
        passage.wait(min(fate.before, seconds_max))
        raise AppendRefusedError(fate.refusal)
    sent = Sent(statement, seconds)
    if fate.before < LOST:
        passage.send(fate.before, sent)
    if fate.before + fate.after >= seconds_max:
        passage.wait(0.001 if fate.is_quick else seconds_max)
        raise UnreachableError(f"the medium did not answer {kind} within {seconds_max:.2f} s")
    passage.wait(fate.before + fate.after)
    return sent.reply()


class DirectPassage:
    """One without a simulator: time passes where a statement waits, and where a test lets it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.fates: deque[Fate] = deque()
        """Of the statements to come; those after them are done at once."""
        self.asked: list[str] = []
        """The kind of each statement so far."""
        self.while_waiting: Callable[[], None] = lambda: None
        """Somebody else is at work between two statements."""
        self._under_way: list[tuple[float, Sent]] = []

    def clock(self) -> float:
        """The time of this passage."""
        return self.now

    def fate(self, statement: str) -> Fate:
        """Give the next fate of those that a test has laid down."""
        self.while_waiting()
        self.asked.append(statement)
        return self.fates.popleft() if self.fates else Fate()

    def send(self, seconds: float, sent: Sent) -> None:
        """It takes effect while time passes."""
        self._under_way.append((self.now + seconds, sent))

    def wait(self, seconds: float) -> None:
        """Let time pass, and let take effect what is due."""
        self.now += seconds
        due = [sent for when, sent in self._under_way if when <= self.now]
        self._under_way = [it for it in self._under_way if it[0] > self.now]
        for sent in due:
            sent.take_effect()


class EvenChance:
    """Chance that always falls in the middle."""

    def uniform(self, low: float, high: float) -> float:
        """Give the middle."""
        return (low + high) / 2

    def bytes(self, count: int) -> bytes:
        """Give zeros."""
        return bytes(count)
