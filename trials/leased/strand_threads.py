"""
The threads of several databases, each of them a strand: what they wait for is virtual time.

So the lanes of the product run here as they are, one for each database and one beside it for what
takes long: what is asked of several at once is under way in all of them at the same time, and goes
on where nobody waits for it any more.

Invariants:
    Whoever hands something over goes on; who waits for it runs when the timeline comes to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import Empty
from random import Random
from typing import Any, Protocol

from trials.leased.strand import Strand

_HANDED_SECONDS = 1e-4
"""What is handed to another thread is taken up within this time."""


class Machine(Protocol):
    """What strands run on."""

    current: Strand
    """The one that runs now."""

    chance: Random
    rate: float
    """How fast its clock is."""

    def lease_clock(self) -> float:
        """Give the machine's seconds."""
        ...

    def post(self, seconds: float, action: Callable[..., object], *arguments: object) -> None:
        """Plan something for the process that runs now."""
        ...


class StrandThreads:
    """Those of one process."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._strands: list[Strand] = []

    @property
    def actions(self) -> tuple[Callable[..., object], ...]:
        """What is posted for threads, and not for the loop."""
        return (self._run, self._wake)

    def clock(self) -> float:
        """Give the machine's seconds."""
        return self._machine.lease_clock()

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Begin another one."""
        del name
        strand = Strand()
        self._strands.append(strand)
        self._machine.post(self._soon(), self._run, strand, work)

    def inbox(self) -> StrandInbox:
        """Give an empty one."""
        return StrandInbox(self)

    def cut(self) -> None:
        """The process is gone."""
        for strand in self._strands:
            strand.cut()

    def current(self) -> Strand:
        """Give the one that runs now, which may be none of these."""
        return self._machine.current

    def sleep(self, seconds: float | None) -> None:
        """Let the one that runs now wait until it is woken, or for so long by this machine."""
        strand = self._machine.current
        if seconds is not None:
            self._machine.post(seconds / self._machine.rate, self._wake, strand, strand.waits)
        strand.wait()

    def wake(self, strand: Strand) -> None:
        """Wake one that sleeps."""
        self._machine.post(self._soon(), self._wake, strand, strand.waits)

    def _soon(self) -> float:
        return self._machine.chance.uniform(0.0, _HANDED_SECONDS)

    def _run(self, strand: Strand, work: Callable[[], None]) -> None:
        self._machine.current = strand
        strand.run(work)

    def _wake(self, strand: Strand, waits: int) -> None:
        if strand.waits == waits:  # Else it was woken before.
            self._machine.current = strand
            strand.go_on()


class StrandInbox:
    """What strands hand to one of them."""

    def __init__(self, threads: StrandThreads) -> None:
        self._threads = threads
        self._items: deque[Any] = deque()
        self._waiting: Strand | None = None

    def put(self, item: Any) -> None:
        """Hand this over."""
        self._items.append(item)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._threads.wake(waiting)

    def get(self, *, timeout: float | None = None) -> Any:
        """Take the next one; virtual time passes until it is there."""
        if not self._items and timeout != 0:
            self._waiting = self._threads.current()
            self._threads.sleep(timeout)
            self._waiting = None
        if not self._items:
            raise Empty
        return self._items.popleft()
