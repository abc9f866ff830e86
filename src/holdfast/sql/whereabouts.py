"""
Whether what is at an address that is a file's is the file that this process has used.

Something may be mounted over its folder, or a copy be put in its place: for a moment, or for good.
What is there then is neither opened nor made: a broker that goes on in it would confirm into a file
that nobody reads once it is gone again. So that file is waited for. A database that is one of
several is filled from the others, so after a while it may be another one.

Invariants:
    What another file is at the address of is never written, nor anything beside it.
    Where a log is known to be none is made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from holdfast.errors import StoreError, UnreachableError
from holdfast.sql.session import Session
from holdfast.sql.url import StoreUrl

REPLACED_SECONDS: Final = 15.0
"""After so long one of several databases may be another file: it was replaced, and is filled."""


class Whereabouts:
    """What one link to a log knows of where it is."""

    def __init__(
        self,
        url: StoreUrl,
        session_type: type[Session],
        clock: Callable[[], float],
        *,
        may_be_replaced: bool,
    ) -> None:
        """Nothing is known yet; `may_be_replaced`: by an operator, while brokers run."""
        self._url = url
        self._type = session_type
        self._clock = clock
        self._may_be_replaced = may_be_replaced
        self._known: Hashable | None = None
        self._gone_since: float | None = None

    def keep(self, session: Session) -> None:
        """This connection leads to the log: from now on it is the file that is meant."""
        if self._type.is_in_file:
            self._known = session.file

    def approach(self, *, may_begin: bool) -> bool:
        """
        See what is there before anything is opened, and say whether it may be made where none is.

        Args:
            may_begin: Whether a log may be begun where there is none.

        Raises:
            UnreachableError: It is not what was there.
            StoreError: Nothing is, and none may be begun.
            OSError: It cannot be seen.
        """
        if not self._type.is_in_file:
            return True
        found = self._type.file_of(self._url)
        if self._known is None:
            if found is None and not may_begin:
                raise StoreError(
                    f"{self._url} has no log, and this broker belongs to one: see whether its file"
                    f" system is mounted, or bring it back; to begin a new one, give this broker an"
                    f" empty --data"
                )
            return may_begin
        if found == self._known:
            self._gone_since = None
            return False
        if self._gone_since is None:
            self._gone_since = self._clock()
        if self._may_be_replaced and self._clock() >= self._gone_since + REPLACED_SECONDS:
            self._known = self._gone_since = None
            return may_begin
        raise self._elsewhere(found)

    def greet(self, session: Session) -> None:
        """
        See that a new connection is one to it.

        Raises:
            UnreachableError: It is not.
        """
        if self._known is not None and session.file != self._known:
            raise self._elsewhere(session.file)

    def _elsewhere(self, found: Hashable | None) -> UnreachableError:
        if found is None:
            return UnreachableError(
                f"{self._url} is not there any more: see whether its file system is mounted, and"
                f" nothing else over its folder; it is waited for"
            )
        return UnreachableError(
            f"another file is at {self._url} than the one that was used: something is mounted over"
            f" its folder, or a copy was put there, which may lack what was stored since. Nothing"
            f" is stored in it, and the one that was there is waited for; if it is to be the log"
            f" from now on, start all brokers anew"
        )
