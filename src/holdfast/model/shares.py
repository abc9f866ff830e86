"""
What each user has of something that all share, and whether he may have more of it.

What cannot be taken back from who has it has to be left over for who comes: a user may have up to
three times what nobody has. So one alone has three quarters at most, who comes next three quarters
of the rest, and so on. Whoever comes late may have more than that: as much as each would have if
all had the same, as long as something is left. Where nobody is somebody there are no shares, and
the bound is for all.

Users to whom nothing is granted have one small share together, however many they are: a name alone
is worth no more than none.

Pure.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 3
"""So many times what is left may a user have."""
STRANGERS: Final = "\n"
"""Who all are to whom nothing is granted; no user has such a name."""
_STRANGERS_PART: Final = 9
"""They may have what is left divided by this: a tenth of all, where nobody else has anything. One
thing where that is less than one."""
_KEPT_PART: Final = 16
"""This part of all stays for who comes, where somebody has more than three times what is left."""


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

    def has_room(self, user: str | None, more: int, left: int, of: int = 0) -> bool:
        """
        Whether a user may have so much more where so much is left after that.

        Args:
            of: All that there is: he may have as much of it as each of those would have who have
                any. 0: only what is left counts.
        """
        if user is None:
            return True
        his = self.of(user) + more
        if user == STRANGERS:
            return his <= max(1, left // _STRANGERS_PART) and left > 0
        if his <= MOST * left:
            return True
        others = len(self._by_user) - (user in self._by_user) - (STRANGERS in self._by_user)
        shared = of * (_KEPT_PART - 1)
        is_fair = his * (others + 1) * _KEPT_PART <= shared
        return others > 0 and is_fair and left * _KEPT_PART >= of

    def has_room_whoever_else(self, user: str | None, more: int, of: int) -> bool:
        """
        Whether a user may have so much more of all that there is, whatever others have.

        That is as much as he may have where nobody else has any: of what has been given to him
        nothing is taken because of others, and yet nobody has it all.
        """
        if user is None:
            return True
        his = self.of(user) + more
        if user == STRANGERS:
            return his <= max(1, of // (_STRANGERS_PART + 1))
        return his * (MOST + 1) <= of * MOST

    def most(self, user: str, left: int, of: int) -> int:
        """Give how much a user may have at most where so much is left of all that there is."""
        his = left + self.of(user)
        if user == STRANGERS:
            return his // (_STRANGERS_PART + 1)
        others = len(self._by_user) - (user in self._by_user) - (STRANGERS in self._by_user)
        if not others:
            return his * MOST // (MOST + 1)
        fair = of * (_KEPT_PART - 1) // (_KEPT_PART * (others + 1))
        return max(his * MOST // (MOST + 1), min(fair, his + -of // _KEPT_PART))


def part_of(user: str, left: int) -> int:
    """Give how much a user may have of something of which so much is left after that."""
    return left // _STRANGERS_PART if user == STRANGERS else MOST * left


def refusal_of(user: str | None, what: str, of: str, *, whoever_else: bool = False) -> str:
    """
    Say that a user has so much, and may have no more.

    Args:
        of: What all may have, in words.
        whoever_else: What others have was not asked, see `Shares.has_room_whoever_else`.
    """
    if user == STRANGERS:
        return f"users to whom nothing is granted have {what} together, at most a tenth of {of}"
    if whoever_else:
        return f"this user has {what}, at most three quarters of {of}"
    return f"this user has {what}, at most {MOST} times what is left of {of}"
