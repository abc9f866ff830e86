"""
What each user has of something that all share, and whether he may have more of it.

What cannot be taken back from who has it has to be left over for who comes: a user may have up to
three times what nobody has. So one alone has three quarters at most, who comes next three quarters
of the rest, and so on. Where nobody is somebody there are no shares, and the bound is for all.

Pure.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 3
"""So many times what is left may a user have."""


class Shares:
    """What each user has; None is for whom nothing is counted."""

    __slots__ = ("_by_user",)

    def __init__(self) -> None:
        self._by_user: dict[str, int] = {}

    def of(self, user: str | None) -> int:
        """Give what a user has."""
        return 0 if user is None else self._by_user.get(user, 0)

    def add(self, user: str | None, change: int) -> None:
        """Note that a user has so much more, or less."""
        if user is None:
            return
        now = self._by_user.get(user, 0) + change
        if now:
            self._by_user[user] = now
        else:
            self._by_user.pop(user, None)

    def has_room(self, user: str | None, more: int, left: int) -> bool:
        """Whether a user may have so much more where so much is left after that."""
        return user is None or self._by_user.get(user, 0) + more <= MOST * left
