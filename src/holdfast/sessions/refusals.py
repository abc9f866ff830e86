"""
What clients were refused, and which rules they broke: counted by code, and told once for each.

An operator who is asked "why does my client not work" finds the reason without the client's help.
The first refusal of a connection says what is wrong with it; all that follow are counted.

Invariants:
    Codes are ours, so there is a bounded number of them, whatever clients send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.sessions.session import Session

IGNORED_OPTION: Final = "ignored-option"
"""An option of a destination that nobody here obeys."""

IGNORED_EXPIRY: Final = "ignored-expiry"
"""A message that is to expire later: nothing does yet."""

IGNORED_GROUP: Final = "ignored-group"
"""A message of a group, where not all nodes know groups yet."""

IGNORED_PRIORITY: Final = "ignored-priority"
"""A message has a priority before all members know what that is."""

IGNORED: Final = frozenset({IGNORED_OPTION, IGNORED_EXPIRY, IGNORED_GROUP, IGNORED_PRIORITY})
"""Counted and told as the others are, but nothing was refused."""

_REFUSED_BIT: Final = 1
_IGNORED_BIT: Final = 2


Tell = Callable[[Session, str, str], None]


def _nobody(_session: Session, _code: str, _text: str) -> None:
    """Is told and does nothing."""


class Refusals:
    """The count of one node."""

    __slots__ = ("by_code", "hear", "tell")

    def __init__(self) -> None:
        self.by_code: Counter[str] = Counter()
        self.tell: Tell = _nobody
        """Where the first of each connection goes, with its code and a sentence."""
        self.hear: Tell = _nobody
        """Where each goes."""

    def note(self, session: Session, code: str, text: str) -> None:
        """Count what this client is told, and tell the operator if it is its first of the kind."""
        self.by_code[code] += 1
        self.hear(session, code, text)
        kind = _IGNORED_BIT if code in IGNORED else _REFUSED_BIT
        if not session.told_kinds & kind:
            session.told_kinds |= kind
            self.tell(session, code, text)

    def note_ignored(self, session: Session, options: Iterable[str]) -> None:
        """Tell the operator of options that are cut off a destination and not obeyed."""
        for name in options:
            text = f"option {name[:80]!r} of a destination is not obeyed here"
            self.note(session, IGNORED_OPTION, text)

    def count(self, code: str) -> None:
        """Count what a client is told that is no answer to anything it sent."""
        self.by_code[code] += 1

    @property
    def total(self) -> int:
        """How many there were, of all codes."""
        return self.by_code.total() - sum(self.by_code[code] for code in IGNORED)
