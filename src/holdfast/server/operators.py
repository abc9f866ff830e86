"""
The users of a node as its admin port asks for them.

Operators and clients are the same users, found out in one place; see `access`.

Owned by the loop.
"""

from __future__ import annotations

from holdfast.security.checking import Shown
from holdfast.security.principal import Principal
from holdfast.server.access import NodeAccess
from holdfast.server.scram_logins import ScramLogins


class Operators:
    """Who may ask the admin port, by what the log says."""

    __slots__ = ("_access",)

    def __init__(self, access: NodeAccess) -> None:
        self._access = access

    @property
    def has_users(self) -> bool:
        """Whether anybody can log in: as a user, or by whom somebody else vouches for."""
        return self._access.logins.is_needed

    @property
    def scram(self) -> ScramLogins:
        """Logins without the password itself."""
        return self._access.scram

    def principal(self, name: str) -> Principal | None:
        """Give a user as the log has him; None: there is none of that name."""
        return self._access.book.principal(name)

    async def authenticate(self, shown: Shown) -> Principal:
        """
        Say who somebody is.

        Raises:
            AuthenticationError: He is not let in, and it is time to tell him.
        """
        return await self._access.authenticate(shown)
