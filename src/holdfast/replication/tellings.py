"""
What was told of whom, so that what lasts is told once, and then seldom.

Two nodes that may not be linked find that out again with every attempt, some of them a second. An
operator needs the sentence when it is new, and again where whoever reads the end of a log finds it.
Pure: times are arguments.

Invariants:
    A sentence is told again after a pause that doubles each time, up to a longest one.
    At most `count_max` sentences are remembered; the one told longest ago is forgotten first.
"""

from __future__ import annotations


class Tellings:
    """Sentences by whom they are about, and when each was told last."""

    def __init__(self, seconds_min: float, seconds_max: float, count_max: int = 64) -> None:
        self._seconds_min = seconds_min
        self._seconds_max = seconds_max
        self._count_max = count_max
        self._told: dict[tuple[str, str], tuple[float, float]] = {}
        """By whom and what: when it is to be told again, and the pause that comes then."""

    def is_due(self, whom: str, sentence: str, now: float) -> bool:
        """Whether to tell this now; whoever asks tells it."""
        key = whom, sentence
        again_at, pause = self._told.get(key, (now, self._seconds_min))
        if now < again_at:
            return False
        self._told.pop(key, None)
        self._told[key] = now + pause, min(2 * pause, self._seconds_max)
        if len(self._told) > self._count_max:
            del self._told[next(iter(self._told))]
        return True

    def forget(self, whom: str) -> None:
        """All is well with this one: whatever comes next is news."""
        for key in [it for it in self._told if it[0] == whom]:
            del self._told[key]
