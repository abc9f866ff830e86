"""
Asks the other hosts of one URL all at once, for no longer than there is time.

A driver waits for a host that is off longer than it is told to, and the system for its name: so
each is asked by a thread of its own, which is let go of when the time is over and ends by itself.

Invariants:
    There is at most one thread for each host.
    No answer was begun before it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from holdfast.environment.kept_errors import without_frames
from holdfast.errors import UnreachableError

if TYPE_CHECKING:
    from holdfast.environment.remote_server import Host

SPARED_SECONDS: Final = 10.0
"""For which a host that was silent is not asked again by who can do without its answer."""
_SILENT_SECONDS: Final = 0.5
"""An error that takes as long is no answer: nobody was there to give it."""

Answer = TypeVar("Answer")


class _Question(Generic[Answer]):
    """One host that is being asked."""

    def __init__(
        self, host: Host, look: Callable[[Host], Answer], clock: Callable[[], float]
    ) -> None:
        """Begin to ask."""
        self._host, self._look, self._clock = host, look, clock
        self._said: list[Answer] = []
        self._error: Exception | None = None
        self._began = clock()
        self._seconds = 0.0
        self._thread = Thread(target=self._run, name="holdfast-other-host", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._error = UnreachableError(f"{host}: it cannot be asked, {error}")

    @property
    def is_open(self) -> bool:
        """Whether it is not answered yet."""
        return self._thread.is_alive()

    @property
    def was_silent(self) -> bool:
        """Whether nobody answered in time; whoever refuses at once is there."""
        return self.is_open or (self._error is not None and self._seconds >= _SILENT_SECONDS)

    def answer(self, until: float) -> Answer:
        """
        Wait for it until then, by the clock.

        Raises:
            UnreachableError: There is none, or it came too late.
        """
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - self._clock()))
        if self.is_open:
            raise UnreachableError(f"{self._host}: no answer in time")
        if self._error is not None:
            raise self._error
        return self._said[0]

    def _run(self) -> None:
        try:
            self._said.append(self._look(self._host))
        except Exception as error:  # noqa: BLE001 - raised by who waits for it
            self._error = without_frames(error)
        self._seconds = self._clock() - self._began


class Asking(Generic[Answer]):
    """Asks hosts what they are; owned by the thread that calls."""

    def __init__(self, look: Callable[[Host], Answer], clock: Callable[[], float]) -> None:
        """
        Take how one host is asked.

        Args:
            look: Called by threads; bounded, and raises UnreachableError where there is no answer.
            clock: Monotonic, in seconds.
        """
        self._look = look
        self._clock = clock
        self._questions: dict[Host, _Question[Answer]] = {}
        self._spared_until: dict[Host, float] = {}

    def ask(
        self, hosts: Sequence[Host], seconds_max: float, *, spares_silent: bool
    ) -> list[tuple[Host, Answer | UnreachableError]]:
        """
        Ask all of them together, for so long; give what each says, in their order.

        Args:
            spares_silent: Do not ask those that were silent a moment ago; they are left out.
        """
        now = self._clock()
        asked = [it for it in hosts if not spares_silent or now >= self._spared_until.get(it, now)]
        late = [it for it in asked if it in self._questions and self._questions[it].is_open]
        for host in asked:
            if host not in late:
                self._questions[host] = _Question(host, self._look, self._clock)
        return [(it, self._said(it, now + seconds_max, is_late=it in late)) for it in asked]

    def _said(self, host: Host, until: float, *, is_late: bool) -> Answer | UnreachableError:
        question = self._questions[host]
        try:
            if is_late:
                return UnreachableError(f"{host}: no answer since it was asked before")
            return question.answer(until)
        except UnreachableError as error:
            return without_frames(error)
        finally:
            if is_late or question.was_silent:
                self._spared_until[host] = self._clock() + SPARED_SECONDS
