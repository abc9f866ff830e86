"""
When scheduled messages are due, by the committed log, read by who does not trust the broker.

Invariants (each violation is raised with its name):
    M9: each time of each message is sent once, in one entry with its next time, in its rhythm, and
        in the end as often as was asked for. (That it is not too early is shown elsewhere: here
        clocks are set.)
    S18: a copy by the cleaner says when the message is due, as it is behind what the log says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.history import ViolationError

if TYPE_CHECKING:
    from holdfast.model.records import FiredRecord, MessageRecord
    from trials.simulation.history import History

Place = tuple[int, int]


class Calendars:
    """What is scheduled, as far as the log is committed."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.dues: dict[Place, tuple[int, int]] = {}
        """Of what waits for its time, when that is, and how often it is sent after that."""
        self._wanted: dict[Place, int] = {}
        """How often each is to be sent, from the beginning."""
        self._sent: dict[Place, list[int]] = {}
        """For which times each was sent."""
        self._open: set[Place] = set()
        """What is sent in the present entry, which has not said yet what comes after."""

    def put(self, place: Place, record: MessageRecord) -> None:
        """Take a message that is scheduled."""
        facts = record.facts
        assert facts is not None and facts.due_ms is not None, "it is scheduled"
        self.dues[place] = facts.due_ms, facts.repeats
        self._wanted[place] = facts.repeats + 1

    def check_copy(self, place: Place, token: str, record: MessageRecord) -> None:
        """S18: look at what the cleaner says of one."""
        facts = record.facts
        said = (0, 0) if facts is None else (facts.due_ms or 0, facts.repeats)
        if said != self.dues.get(place):
            raise ViolationError(
                "S18", f"{token} is due {self.dues.get(place)} and was written again with {said}"
            )

    def fires(self, place: Place, token: str, *, ends: bool) -> None:
        """M9: take it that one is sent for the time that it was due; `ends`: for the last time."""
        if place not in self.dues:
            raise ViolationError("M9", f"{token} was sent, and was not scheduled any more")
        due_ms = self.dues[place][0]
        times = self._sent.setdefault(place, [])
        if due_ms in times:
            raise ViolationError("M9", f"{token} was sent twice for {due_ms}")
        times.append(due_ms)
        self._open.add(place)
        if ends:
            self._open.discard(place)
            del self.dues[place]

    def again(self, place: Place, token: str, record: FiredRecord) -> None:
        """M9: take it that one is due again."""
        if place not in self.dues:
            raise ViolationError("M9", f"{token} is due again, and was not scheduled any more")
        if place not in self._open:
            raise ViolationError("M9", f"{token} is due again in an entry that does not send it")
        self._open.discard(place)
        due_ms, repeats = self.dues[place]
        period_ms = self._history.periods[token]
        is_in_rhythm = record.due_ms > due_ms and not (record.due_ms - due_ms) % period_ms
        if not is_in_rhythm or record.repeats != repeats - 1:
            raise ViolationError(
                "M9", f"{token} is due {record.due_ms} after {due_ms}, of {period_ms} ms"
            )
        self.dues[place] = record.due_ms, record.repeats

    def end_entry(self, index: int) -> None:
        """M9: what is sent in an entry says there what comes after."""
        if self._open:
            raise ViolationError("M9", f"entry {index} sends {self._open} and does not end it")

    def check_end(self) -> None:
        """M9: look at everything once more, after all is sent."""
        for place, count in self._wanted.items():
            sent = len(self._sent.get(place, ()))
            if place in self.dues or sent != count:
                raise ViolationError("M9", f"{place} was sent {sent} times, and not {count}")
