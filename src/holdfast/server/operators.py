"""
The users of a node as its admin port asks for them.

Operators and clients are the same users, found out in one place; see `access`.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.admin.logins import AT_A_WITNESS, Users
from holdfast.errors import AuthenticationError
from holdfast.security.checking import Shown
from holdfast.security.principal import Principal
from holdfast.security.user_values import mark_of, marks_of, read_values
from holdfast.server.access import NodeAccess
from holdfast.server.rights_age import RightsAge
from holdfast.server.scram_logins import ScramLogins


class Operators:
    """Who may ask the admin port, by what the log says."""

    __slots__ = ("_access", "_is_witness", "_rights_age")

    def __init__(
        self,
        access: NodeAccess,
        *,
        is_witness: Callable[[], bool] = lambda: False,
        rights_age: RightsAge | None = None,
    ) -> None:
        """
        Ask for them at a node.

        Args:
            is_witness: Whether it keeps some of the log and applies nothing: what it still has of
                users is what it happens not to have dropped yet, and nobody is known by that.
            rights_age: How far what is known of them is true; None: it is.
        """
        self._rights_age = rights_age
        self._access = access
        self._is_witness = is_witness

    @property
    def users(self) -> Users:
        """Whether anybody can log in: as a user, or as one for whom somebody else vouches."""
        if self._is_witness():
            return Users.ELSEWHERE
        if not self._access.log_end.is_sure:
            return Users.NOT_KNOWN
        return Users.SOME if self._access.logins.is_needed else Users.NONE

    async def look(self) -> str:
        """Read the rest of the log where that counts; gives why it cannot be told from it."""
        if self._is_witness():
            return AT_A_WITNESS
        await self._access.log_end.look()
        return self._access.log_end.trouble

    @property
    def scram(self) -> ScramLogins | None:
        """Logins without the password itself; none as long as it is not known who there is."""
        return self._access.scram if self._access.log_end.is_sure else None

    async def catch_up(self) -> str:
        """Wait until what is heard of them is known here; gives why it cannot be, or nothing."""
        return "" if self._rights_age is None else await self._rights_age.catch_up()

    def principal(self, name: str) -> Principal | None:
        """Give a user as the log has him; None: there is none of that name."""
        record = None if self._is_witness() else self._access.log_end.record_of(name)
        return None if record is None else Principal(name, read_values(record.values).roles)

    def mark_of(self, found: Principal) -> str:
        """Give a mark of what a user of the log was found by; empty: he is not there any more."""
        record = self._access.log_end.record_of(found.name)
        return "" if record is None else mark_of(found.kept, read_values(record.values))

    def has_mark(self, name: str, mark: str) -> bool:
        """Whether a user can be found still by what he was found by on another node."""
        record = self._access.log_end.record_of(name)
        return record is not None and mark in marks_of(read_values(record.values))

    async def authenticate(self, shown: Shown) -> Principal:
        """
        Say who somebody is.

        Raises:
            AuthenticationError: He is not let in, and it is time to tell him.
        """
        if self._is_witness():
            raise AuthenticationError(AT_A_WITNESS)
        return await self._access.authenticate(shown)
