"""
What the admin port needs of a node to tell of users and grants, and to change them.

Every change is stored with who asked for it before it is answered.

Called on the node's loop. Cancelling a change stops the wait for it, not the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from holdfast.admin.user_status import Decision, GrantStatus, UserStatus
from holdfast.model.destination import Destination
from holdfast.security.grants import Grant, Right
from holdfast.security.passwords import KeptPassword


class UserAdministration(Protocol):
    """
    Users and grants of one node.

    Its changes raise NotLeaderError where it does not lead, LevelNotReachedError before every
    member can read them, LimitReachedError where there are too many, and AccessError where that
    cannot be said of that user or role.
    """

    @property
    def keeps_scram(self) -> bool:
        """Whether new passwords are kept for SCRAM as well."""
        ...

    async def is_known(self) -> bool:
        """Whether it is sure who there is; else what this node's own log has is told."""
        ...

    def users(self) -> Iterable[UserStatus]:
        """Give all users in the order of their names, each as it is when it is asked for."""
        ...

    def grants(self) -> Iterable[GrantStatus]:
        """Give all grants in the order of roles and patterns."""
        ...

    def decisions(self, name: str, destination: Destination) -> list[Decision]:
        """
        Say of each right whether a user has it there.

        Raises:
            AccessError: There is no such user.
        """
        ...

    async def keep_password(self, name: str, password: str) -> KeptPassword:
        """
        Give what is kept of a user's new password; worked out off the loop.

        Raises:
            AccessError: It cannot be one, or this node can keep none.
        """
        ...

    async def add(self, name: str, roles: Sequence[str], kept: KeptPassword | None) -> int:
        """Make a user who is not there yet; gives how many there were before."""
        ...

    async def set_roles(self, name: str, roles: Sequence[str]) -> None:
        """Let a user have these roles and no others."""
        ...

    async def set_password(self, name: str, kept: KeptPassword) -> None:
        """Let a user have another password."""
        ...

    async def make_token(self, name: str, token: str, digest: str, expires_seconds: int) -> None:
        """Let a user have a token of this digest, which ends after so long; 0: never."""
        ...

    async def end_token(self, name: str, token: str) -> None:
        """Let a token be worth nothing any more."""
        ...

    async def remove(
        self, name: str, *, is_last_meant: bool, ends_subscriptions: bool = False
    ) -> int:
        """
        Remove a user; the last one only if that is meant, as then everybody is let in.

        Gives how many durable subscriptions of his ended with him.
        """
        ...

    def left_by(self, name: str) -> int:
        """Give how many durable subscriptions are of this name, of whoever has it or had it."""
        ...

    async def give_subscription(self, client_id: str, name: str, user: str) -> None:
        """
        Let a durable subscription be a user's from now on.

        Raises:
            DestinationError: There is none of that name, or somebody consumes from it.
        """
        ...

    async def grant(self, grant: Grant) -> frozenset[Right]:
        """Grant more of a pattern to a role; gives all that it has of it."""
        ...

    async def revoke(self, grant: Grant) -> frozenset[Right]:
        """Take something back from a role; gives what it has left of the pattern."""
        ...
