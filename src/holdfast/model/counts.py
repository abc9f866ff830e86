"""
Who has how many of something that all share: who has the most, and who has more than his share.

The rule is the same wherever there is room for so many only: who has the most gives way, and keeps
as many as the next one has. So nobody loses any to somebody who has more.

Invariants:
    What is asked for takes as long as there are different numbers, which are few: with 200,000 of
    something not more than 632.

Pure.
"""

from __future__ import annotations

from collections import defaultdict


class Counts:
    """Numbers by key, which change by one, and which key has the most."""

    __slots__ = ("_counts", "_keys", "most")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._keys: defaultdict[int, dict[str, None]] = defaultdict(dict)
        """Those that have so many."""
        self.most = 0

    def of(self, key: str) -> int:
        """Give how many a key has."""
        return self._counts.get(key, 0)

    @property
    def first(self) -> str:
        """One that has the most; there must be one."""
        return next(iter(self._keys[self.most]))

    def add(self, key: str, change: int) -> None:
        """Note that a key has one more, or one less."""
        before = self._counts.get(key, 0)
        now = before + change
        if before:
            del self._keys[before][key]
            if not self._keys[before]:
                del self._keys[before]
        if now:
            self._counts[key] = now
            self._keys[now][key] = None
        else:
            del self._counts[key]
        if now > self.most:
            self.most = now
        elif self.most not in self._keys:
            self.most = now  # It was the only one that had so many.

    def share(self, room: int) -> int:
        """Give how many each may keep so that all together have no more than there is room for."""
        left, keys_left = room, len(self._counts)
        for count in sorted(self._keys):
            if count * keys_left > left:
                return left // keys_left
            left -= count * len(self._keys[count])
            keys_left -= len(self._keys[count])
        return self.most

    def beyond(self, share: int) -> int:
        """Give how many there are in all beyond this share of each."""
        beyond = ((count - share) * len(keys) for count, keys in self._keys.items())
        return sum(it for it in beyond if it > 0)
