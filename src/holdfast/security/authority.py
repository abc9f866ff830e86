"""
What is asked of whoever vouches for people beside the log.

Invariants:
    Whoever is refused was looked at; who could not be looked at is told so, and counts as nothing.
    Nothing here runs on the loop: each call may wait for somebody else, within its bound.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable


class Vouched(NamedTuple):
    """Who somebody is, in the words of who vouches for him."""

    name: str
    roles: frozenset[str]
    valid_seconds: float
    """For so long the same is believed again without asking."""
    expires_ms: int = 0
    """When that ends, in milliseconds since the epoch; 0: not by itself."""


class Authority(Protocol):
    """One of them; may be used from several threads."""

    @property
    def label(self) -> str:
        """What operators call it: the table of the file that names it."""

    @property
    def is_guessable(self) -> bool:
        """Whether what is shown could be guessed, as passwords can and what is signed cannot."""

    def recognises(self, name: str, secret: str, *, is_known: bool) -> bool:
        """
        Whether what is shown is of the kind that is looked at here. Takes no time.

        `is_known`: the log has a user of that name, whose password is nobody else's business.
        """

    def look(self, name: str, secret: str) -> Vouched | None:
        """
        Find out who shows this; None: what is shown is wrong.

        Raises:
            AuthenticationError: It could not be found out; the reason is a sentence for whoever
                logs in, and names no secret.
        """


@runtime_checkable
class AskedAgain(Protocol):
    """One who can say later what is so of somebody by then, without what was shown."""

    @property
    def label(self) -> str:
        """What operators call it."""

    @property
    def again_seconds(self) -> float:
        """After so long it is asked again of who is connected."""

    def again(self, name: str, called: str) -> Vouched | None:
        """
        Say what is so of somebody by now who was vouched for earlier; None: nobody any more.

        `called`: by which name he came in, which may mean somebody else by now.

        Raises:
            AuthenticationError: It could not be found out.
        """
