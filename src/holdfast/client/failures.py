"""
What was not stored and nobody has been told of yet; it belongs to the connection.

Whoever sends notes a failure here: a producer, or a single send whose caller has gone. The next
call of a producer tells its own and takes it off; what is left when the connection closes is told
by `close`, whether the object that sent it is still there or not. Pure.

Invariants:
    A source has one note: its first failure, and how many messages it stands for.
    What is taken off has been told.

Owned by the session of one connection.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Failure:
    """What one source could not have stored."""

    error: Exception
    """Why, for the first of them."""

    concerns: str
    """As "to /queue/orders", for a sentence."""

    count: int = 1

    def __str__(self) -> str:
        messages = "message" if self.count == 1 else "messages"
        return f"{self.count:,} {messages} {self.concerns}: {self.error}"


class Failures:
    """The failures of one connection that nobody has been told of."""

    def __init__(self) -> None:
        self._by_source: dict[object, Failure] = {}

    def __len__(self) -> int:
        return len(self._by_source)

    def __contains__(self, source: object) -> bool:
        return source in self._by_source

    def add(self, source: object, concerns: str, error: Exception, *, count: int = 1) -> None:
        """Note that messages of a source were not stored, or that this is unknown."""
        failure = self._by_source.get(source)
        if failure is None:
            self._by_source[source] = Failure(error, concerns, count)
        else:
            failure.count += count

    def take(self, source: object) -> Failure | None:
        """The failure of one source, which is about to be told."""
        return self._by_source.pop(source, None)

    def take_all(self) -> Exception | None:
        """
        Everything as one error, which is about to be told; None if there is nothing to tell.

        It is the first error itself; notes of it list what was not stored, by destination.
        """
        failures = list(self._by_source.values())
        if not failures:
            return None
        error = failures[0].error
        if len(failures) > 1 or failures[0].count > 1:
            self.tell_with(error)
        self._by_source.clear()
        return error

    def tell_with(self, error: BaseException) -> None:
        """Tell everything by notes of an error that is raised anyway."""
        for failure in self._by_source.values():
            error.add_note(f"not confirmed as stored: {failure}")
        self._by_source.clear()
