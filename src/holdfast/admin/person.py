"""
Who asks the admin port just now, and from where.

What a request changes is noted with who asked for it, many calls further down, and nothing between
has any use for that. So it is not handed on but stands beside the request's own task (a context
variable): no other request sees it, and what nobody asked for has nobody's name.

A node that passes a request on tells the leader for whom, by a header. The leader believes that of
who knows the cluster's secret, and of nobody else.

Invariants:
    No user can have the name of the machine, of the secret or of other nodes: theirs have spaces.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Final, NamedTuple

from holdfast.security.roles import Duty

MACHINE: Final = "the node's machine"
"""Who showed what only the node's own user can read."""

CLUSTER: Final = "the cluster's secret"
"""Who knows that."""

MEMBERS: Final = "other nodes"
"""Who pass on what they were asked."""

ON_BEHALF_HEADER: Final = "holdfast-on-behalf"
_HEADER_BYTES_MAX: Final = 1024


class Person(NamedTuple):
    """Somebody, and what he may do on the admin port."""

    who: str
    """A user's name, or one of those above; empty: nobody in particular."""

    address: str
    """From where, without a port; of what was passed on from where it came first."""

    duty: Duty

    is_vouched: bool = False
    """Whether the log does not know him, but somebody whom this node asks."""

    mark: str = ""
    """Of what a user of the log was found by, see `security.user_values`."""

    @property
    def is_user(self) -> bool:
        """Whether the log knows him, not the machine or the secret."""
        return self.who not in ("", MACHINE, CLUSTER)


NOBODY: Final = Person("", "", Duty.NONE)

_ACTING: Final[ContextVar[Person]] = ContextVar("holdfast_person", default=NOBODY)


def acting() -> Person:
    """Give who asked for what is being done."""
    return _ACTING.get()


def act_for(person: Person) -> None:
    """Let what this task does from now on, and what it begins, be done for somebody."""
    _ACTING.set(person)


def on_behalf(person: Person) -> str:
    """Write for whom a request is passed on, as the header has it; empty: for nobody."""
    if not person.who:
        return ""
    more = [person.duty] if person.is_vouched else [person.mark] if person.mark else []
    return json.dumps([person.who, person.address, *more])


def read_on_behalf(header: str) -> Person | None:
    """
    Read for whom a request was passed on; None where that makes no sense.

    What he may is told of him only for whom somebody else vouches than the log.
    """
    if len(header) > _HEADER_BYTES_MAX:
        return None
    try:
        found = json.loads(header)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or len(found) not in (2, 3):
        return None
    who, address, more = [*found, ""][:3]
    if not isinstance(who, str) or not isinstance(address, str):
        return None
    if isinstance(more, str):
        return Person(who, address, Duty.NONE, mark=more)
    if more not in list(Duty):
        return None
    return Person(who, address, Duty(more), is_vouched=True)
