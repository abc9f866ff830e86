"""
What a medium refused for its size, and for how long nothing as large is tried again.

A medium may have a limit of its own for what it takes at once, or have no room for what is large.
Such an entry is given up, which costs the lease, and what is half as large or more is refused to
its sender then, unless as much was ever stored. Only time lifts that: that smaller ones are stored
says nothing of it, as they were before. A medium that refuses all it is given is another matter:
nothing is won by giving anything up. Pure, by its owner's clock.
"""

from __future__ import annotations

from typing import Final

SECONDS_MAX: Final = 3600.0
"""What is refused again and again is tried so seldom in the end."""
_GATHERED_SHARE: Final = 7
"""What is gathered is so much less than the largest message, as one may come on top of it."""


class Refusals:
    """What one medium refused."""

    __slots__ = ("_bytes", "_has_chance", "_has_stored", "_largest", "_least", "_seconds", "_until")

    def __init__(self, least: int) -> None:
        """Never refuse what has so many bytes, or less."""
        self._least = least
        self._bytes = 0
        """As many are not tried; 0: nothing was refused yet."""
        self._until = self._seconds = 0.0
        self._has_stored = True
        """Whether anything was, since something was given up."""
        self._has_chance = True
        """Whether what is much smaller may be given up without that: once."""
        self._largest = 0
        """The most that was ever stored at once."""

    def may_give_up(self, count: int) -> bool:
        """Whether smaller ones may be taken, as far as is known: nothing is won otherwise."""
        is_smaller = self._has_chance and 2 * count <= self._bytes
        return count > self._least and (self._has_stored or is_smaller)

    def gave_up(self, count: int, now: float, seconds: float) -> None:
        """
        An entry of so many bytes was given up: nothing as large is tried for so many seconds.

        What is refused anew soon after that is tried twice as late the next time.
        """
        # Between what it was seen to take and what it refused each size would be tried at the price
        # of the lease. The message in an entry has somewhat less than that.
        count = max(self._least + 1, count // 2, min(self._largest, count * 7 // 8))
        if self._bytes and now <= self._until:
            self._bytes = min(self._bytes, count)
        else:
            is_again = self._bytes and now <= self._until + self._seconds
            self._seconds = min(2 * self._seconds, SECONDS_MAX) if is_again else seconds
            self._bytes = count
        self._until = max(self._until, now + max(self._seconds, seconds))
        self._has_chance = self._has_stored
        self._has_stored = False

    def stored(self, count: int) -> None:
        """Note that so many bytes were stored at once."""
        self._has_stored = True
        self._largest = max(self._largest, count)

    def message_max(self, now: float) -> int:
        """The most that one message may have; 0: nothing is known that forbids any."""
        return self._bytes - 1 if self._bytes and now <= self._until else 0

    def gathered_max(self, now: float) -> int:
        """The most that is to be gathered before a last message is put to it; 0: as above."""
        return self.message_max(now) // _GATHERED_SHARE
