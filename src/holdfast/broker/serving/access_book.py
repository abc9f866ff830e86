"""
What users and grants mean, worked out of what the log says.

Ten thousand grants take a tenth of a second, so they are gone through once, when the state is new
here; each that changes later is worked out by itself, as it is applied.

Invariants:
    Equal states give equal answers, on the leader, on a follower and after a replay.
    What this version cannot read of a grant or user gives nobody anything.

Nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.broker.lasting.access import GrantKey, LastingAccess
from holdfast.broker.lasting.state import BrokerState
from holdfast.errors import PolicyError
from holdfast.model.access_records import GrantRecord
from holdfast.model.owners import Owner
from holdfast.model.wildcards import parse_pattern
from holdfast.security.grants import Access, Grant, Grants, rights_of
from holdfast.security.principal import Principal
from holdfast.security.roles import Duty, duty_of
from holdfast.security.user_values import read_values


class AccessBook:
    """What everybody may."""

    __slots__ = (
        *("_grants", "_of", "_state"),
        *("anonymous", "has_authorities", "is_sure"),
    )

    def __init__(self, state: BrokerState, anonymous_role: str = "") -> None:
        """Say what the log says; who shows nothing has this role, or is not let in."""
        self._state = state
        self._of: LastingAccess | None = None
        self._grants = Grants()
        self.anonymous = Principal("", frozenset({anonymous_role})) if anonymous_role else None
        """Who somebody is who shows nothing, once there are users; None: nobody is let in so."""
        self.has_authorities = False
        """Whether somebody vouches for people whom the log does not know."""
        self.is_sure: Callable[[], bool] = lambda: True
        """Whether the state has all that it must have before nobody in it means that there is
        nobody: see `store.contract`."""
        self.follow()

    @property
    def change_count(self) -> int:
        """How often anything that a verdict rests on has changed."""
        return self._state.access.change_count

    @property
    def has_users(self) -> bool:
        """Whether anybody has a name here: as long as nobody has, nobody is asked for one."""
        return bool(self._state.access.users)

    @property
    def is_guarded(self) -> bool:
        """
        Whether somebody can log in: if nobody can, everybody may do everything.

        As long as it is not sure that nobody can, somebody may.
        """
        return self.has_authorities or bool(self._state.access.users) or not self.is_sure()

    def is_user(self, name: str) -> bool:
        """Whether the log knows somebody of this name."""
        return name in self._state.access.users

    def owner(self, name: str) -> Owner:
        """Give whose is what somebody of this name makes now; of who has none nobody's."""
        record = self._state.access.users.get(name)
        return Owner(name, 0 if record is None else read_values(record.values).life)

    def follow(self) -> None:
        """Work out what the state says, if that is another one, and be told what changes of it."""
        access = self._state.access
        if access is not self._of:
            self._of, self._grants = access, Grants()
            access.listeners.append(self._put)
            for key, record in access.grants.items():
                self._put(key, record)

    def principal(self, name: str) -> Principal | None:
        """Give a user with his roles; None: there is none of that name."""
        record = self._state.access.users.get(name)
        return None if record is None else Principal(name, read_values(record.values).roles)

    def schedules_from(self, name: str) -> tuple[int, int]:
        """Give from where on what is scheduled by a user of this name is his who has it now."""
        record = self._state.access.users.get(name)
        return (0, 0) if record is None else read_values(record.values).schedules_from

    def access(self, principal: Principal) -> Access:
        """Give what somebody may."""
        self.follow()
        return self._grants.of(principal.roles)

    def may_anything(self, principal: Principal) -> bool:
        """Whether anything at all was granted to somebody, or is his on the admin port."""
        self.follow()
        return self._grants.are_any_of(principal.roles) or duty_of(principal.roles) > Duty.NONE

    def _put(self, key: GrantKey, record: GrantRecord | None) -> None:
        self._grants.put(key, None if record is None else grant_of(record))


def grant_of(record: GrantRecord) -> Grant | None:
    """Give what a record grants; None: this version cannot read it."""
    try:
        pattern = parse_pattern(record.pattern)
    except PolicyError:
        return None
    return Grant(record.role, rights_of(record.rights), pattern)
