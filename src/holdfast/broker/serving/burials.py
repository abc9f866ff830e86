"""
On which queues dead letters stand, as the policies say it, and where they would come back to.

A dead-letter queue may be a composite one: its dead letters stand on each queue of its list that
has no selector, and on those of their lists. Topics and mirrors get none, nobody's headers are
read, and who is there makes no difference: it follows from the policies alone. Where that is no
queue, or more than there may be, they stand on the dead-letter queue itself.

Such a queue may have a dead-letter queue of its own, and that lead back. What is copied there on
each round would double for ever, so it is asked here before anything is copied.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.broker.serving.effective import Limits
from holdfast.model.destination import Kind
from holdfast.model.forwarding import Forwarding

FORWARDED_MAX: Final = 256
"""To so many destinations one message may be forwarded."""

_LOOKED_AT_MAX: Final = 512
"""So many places are followed to see if a way leads back: a few milliseconds. What comes further is
taken to lead back."""
_KEPT_COUNT_MAX: Final = 4_096


class Burials:
    """Where the dead letters of each dead-letter queue stand, worked out once."""

    __slots__ = ("_dead_letters_of", "_forwarding_of", "_places", "_returning")

    def __init__(
        self,
        forwarding_of: Callable[[Kind, str], Forwarding | None],
        dead_letters_of: Callable[[str], tuple[str, Limits | None]],
    ) -> None:
        """Take what policies say of a queue's forwarding, of its dead letters and its limits."""
        self._forwarding_of = forwarding_of
        self._dead_letters_of = dead_letters_of
        self._places: dict[str, tuple[str, ...]] = {}
        self._returning: dict[tuple[str, str, bool], bool] = {}

    def clear(self) -> None:
        """Forget what was worked out: the policies have changed."""
        self._places.clear()
        self._returning.clear()

    def places(self, dead_letter_queue: str) -> tuple[str, ...]:
        """Give the names of the queues where dead letters stand that go to one; none: nowhere."""
        found = self._places.get(dead_letter_queue)
        if found is None:
            if len(self._places) >= _KEPT_COUNT_MAX:
                self._places.clear()
            found = self._follow(dead_letter_queue) if dead_letter_queue else ()
            self._places[dead_letter_queue] = found
        return found

    def _follow(self, dead_letter_queue: str) -> tuple[str, ...]:
        found: list[str] = []
        seen = {dead_letter_queue}
        ahead = deque(seen)
        while ahead:
            name = ahead.popleft()
            rule = self._forwarding_of(Kind.QUEUE, name)
            forwards = () if rule is None else rule.forwards
            more = [
                it.destination.name
                for it in forwards
                if it.destination.kind is Kind.QUEUE and not it.selector
            ]
            if rule is None or not rule.is_only or (rule.keeps_unmatched and not more):
                found.append(name)
            ahead += [it for it in dict.fromkeys(more) if it not in seen]
            seen.update(more)
            if len(seen) > FORWARDED_MAX:
                return (dead_letter_queue,)
        return tuple(found) or (dead_letter_queue,)

    def lead_back(self, queue: str, dead_letter_queue: str, *, as_dropped: bool = False) -> bool:
        """
        Whether dead letters of a queue that go to that one may come to the queue again.

        Args:
            as_dropped: By nothing else than that each queue on the way drops what is too much.
        """
        key = (queue, dead_letter_queue, as_dropped)
        found = self._returning.get(key)
        if found is None:
            if len(self._returning) >= _KEPT_COUNT_MAX:
                self._returning.clear()
            found = self._returning[key] = self._look_back(*key)
        return found

    def _look_back(self, queue: str, dead_letter_queue: str, as_dropped: bool) -> bool:
        seen: set[str] = set()
        followed = {dead_letter_queue}
        ahead = deque(followed)
        effort = 0
        while ahead:
            for place in self.places(ahead.popleft()):
                if place == queue:
                    return True
                effort += 1
                if effort > _LOOKED_AT_MAX:
                    return True
                if place in seen:
                    continue
                seen.add(place)
                then, limits = self._dead_letters_of(place)
                goes_on = not as_dropped or (limits is not None and limits.drops and limits.buries)
                if goes_on and then not in followed and place not in (then, *self.places(then)):
                    followed.add(then)
                    ahead.append(then)
        return False
