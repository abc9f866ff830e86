"""
What must hold of scheduled messages, by the clients' word alone.

* Each time once: what is to come N times comes under N ids. More of them were fired twice. Fewer,
  of a message that was confirmed or came at all, were never fired: what nobody could send in time
  is sent later, and counts as one of the times.
* Never early: the first time comes no sooner than it is due after the send, each further one no
  sooner than so many periods after that.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """When a message is to come; milliseconds. Without a delay it is not scheduled."""

    delay_ms: int = 0
    period_ms: int = 0
    repeats: int = 0
    """How often it comes again after the first time."""

    @property
    def times(self) -> int:
        """How often it comes in all."""
        return 1 + self.repeats

    @property
    def last_ms(self) -> int:
        """When it comes the last time, if everything is in time."""
        return self.due_ms(self.repeats)

    def due_ms(self, number: int) -> int:
        """When the time with this number is due, from 0."""
        return self.delay_ms + number * self.period_ms

    def early_ms(self, place: int, others: Collection[int], elapsed_ms: float) -> float:
        """
        By how much a message is too early; not above 0: it is not.

        Args:
            place: Where it stands on its queue.
            others: Where those of its times stand that came before.
            elapsed_ms: Since it was sent.
        """
        # At least as many of its times are before it; one that is still on its way may be, too.
        number = sum(other < place for other in others)
        return self.due_ms(number) - elapsed_ms

    def wrong_count(self, count: int, *, is_stored: bool) -> str:
        """Tell which rule is broken by so many times, if one is: lost, or stored_twice."""
        if count > self.times:
            return "stored_twice"
        is_missed = count < self.times and (is_stored or count)
        return "lost" if is_missed else ""
