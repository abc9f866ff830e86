"""
Who there is, what roles were granted, and who changed that: records of the log, as values.

Invariants:
    Of a user, and of a role with a pattern, the last record holds all that is so; nothing of what
    an earlier one said is left.
    No password and no token stands in any of them: only what they can be compared with.
"""

from __future__ import annotations


class UserRecord:
    """
    A user, as a whole; no values: there is none of that name any more.

    `values` is JSON, an object: the roles, and what the user's credentials are compared with.
    """

    __slots__ = ("name", "revision", "values")

    def __init__(self, name: str, values: str, revision: int) -> None:
        self.name = name
        self.values = values
        self.revision = revision
        """Higher with each change, also of a user who was removed between."""


class GrantRecord:
    """What a role may do with the destinations that a pattern means; nothing: not any more."""

    __slots__ = ("pattern", "rights", "role")

    def __init__(self, role: str, pattern: str, rights: int) -> None:
        self.role = role
        self.pattern = pattern
        self.rights = rights
        """The sum of 1 to read, 2 to write, 4 to administer."""


class AuditRecord:
    """
    Who did what, which the entry does that holds it. It changes nothing and is not carried on.

    Whoever must keep them for longer than the log archives it.
    """

    __slots__ = ("action", "at_ms", "object", "outcome", "source", "who")

    def __init__(
        self, at_ms: int, who: str, source: str, action: str, object_: str, outcome: str
    ) -> None:
        self.at_ms = at_ms
        """In milliseconds since the epoch."""
        self.who = who
        self.source = source
        """From where: an address, or what else tells the way."""
        self.action = action
        self.object = object_
        """What it was done to."""
        self.outcome = outcome


AccessRecord = UserRecord | GrantRecord | AuditRecord
