"""
Users and grants of one node, as its operators may ask for them and change them.

A change is a record of the log with who asked for it right behind it, and is answered when both are
stored (`broker.access_changes`).

Invariants:
    No password comes further than to the threads that hash it, and no token to here.
    Two changes of one user at once lose nothing of either: each begins with what is on its way.

Called on the node's loop. Cancelling a change stops the wait for it, not the change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from holdfast.admin.user_status import (
    Decision,
    GrantStatus,
    TokenStatus,
    UserStatus,
    grant_status,
)
from holdfast.broker.access_changes import AccessChanges
from holdfast.errors import AccessError, HoldfastError, NotLeaderError
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.destination import Destination
from holdfast.security.grants import Grant, Right, named, rights_of
from holdfast.security.passwords import KeptPassword
from holdfast.security.user_changes import with_password, with_roles, with_token, without_token
from holdfast.security.user_values import read_values
from holdfast.security.verdicts import judge
from holdfast.server.audit_trail import AuditTrail
from holdfast.server.belongings import Belongings
from holdfast.server.parts import Parts
from holdfast.server.requests import OperatorReply

Answer = TypeVar("Answer")

Change = Callable[[OperatorReply], Answer]
Values = Mapping[str, Any]

_UNKNOWN: Final = "it is not known yet whether it was done"


class UserAdministration:
    """Users and grants of one node."""

    __slots__ = ("_belongings", "_parts", "_require_serving", "_stored", "_trail")

    def __init__(
        self,
        parts: Parts,
        trail: AuditTrail,
        *,
        stored: Callable[[Change[Any]], Awaitable[Any]],
        require_serving: Callable[[], None],
    ) -> None:
        """
        Look at a node's users, and change them.

        Args:
            parts: The node.
            trail: Notes who changed what.
            stored: Asks the broker for something, and waits until it is stored.
            require_serving: Raises NotLeaderError where this node does not lead.
        """
        self._parts = parts
        self._trail = trail
        self._stored = stored
        self._require_serving = require_serving
        self._belongings = Belongings(parts.broker, self._change)

    @property
    def keeps_scram(self) -> bool:
        """Whether new passwords are kept for SCRAM as well."""
        return self._parts.config.sections.server.scram

    async def is_known(self) -> bool:
        """
        Whether it is sure who there is; else what this node's log has up to its end is told.

        Waits for that to be read, some seconds at most.
        """
        await self._parts.access.log_end.look()
        return self._parts.access.log_end.is_sure

    def users(self) -> Iterator[UserStatus]:
        """Give all users in the order of their names, each as it is when it is asked for."""
        users = self._parts.access.log_end.users()
        for name in sorted(users):
            record = users.get(name)
            if record is not None and record.values:
                yield _user_status(record)

    def grants(self) -> Iterator[GrantStatus]:
        """Give all grants in the order of roles and patterns."""
        grants = self._parts.broker.state.access.grants
        for key in sorted(grants):
            record = grants.get(key)
            if record is not None:
                yield _status_of(record)

    def decisions(self, name: str, destination: Destination) -> list[Decision]:
        """
        Say of each right whether a user has it there.

        Raises:
            AccessError: There is no such user.
        """
        book = self._parts.access.book
        principal = book.principal(name)
        if principal is None:
            if not book.is_sure():
                raise AccessError(
                    f"it is not known yet whether there is a user {name[:80]!r}, and what he may:"
                    f" ask again once there is a leader"
                )
            raise _no_user(name)
        access = book.access(principal)
        verdicts = [judge(access, right, destination) for right in Right]
        return [
            Decision(
                right=it.right.value,
                is_allowed=it.is_allowed,
                grants=tuple(map(grant_status, it.grants)),
            )
            for it in verdicts
        ]

    async def keep_password(self, name: str, password: str) -> KeptPassword:
        """
        Give what is kept of a user's new password; worked out off the loop.

        Raises:
            AccessError: It cannot be one, or this node can keep none.
        """
        return await self._parts.access.keep_password(name, password)

    async def add(self, name: str, roles: Sequence[str], kept: KeptPassword | None) -> int:
        """
        Make a user who is not there yet; gives how many there were before.

        Raises:
            AccessError: There is such a user, or none of that kind can be.
        """

        def made(values: Values | None) -> dict[str, Any]:
            if values is not None:
                raise AccessError(f"there is a user {name[:80]!r} already")
            found = with_roles({}, roles)
            return found if kept is None else with_password(found, *kept)

        count = len(self._parts.broker.state.access.users)
        await self._change_user("add user", name, f"{name} {','.join(sorted(roles))}", made)
        return count

    async def set_roles(self, name: str, roles: Sequence[str]) -> None:
        """
        Let a user have these roles and no others.

        Raises:
            AccessError: There is no such user, or one cannot be a role.
        """
        said = f"{name} {','.join(sorted(roles))}"
        await self._change_user(
            "set roles", name, said, lambda values: with_roles(_there(values, name), roles)
        )

    async def set_password(self, name: str, kept: KeptPassword) -> None:
        """
        Let a user have another password.

        Raises:
            AccessError: There is no such user, or this was kept of nothing that is one.
        """
        await self._change_user(
            "set password", name, name, lambda values: with_password(_there(values, name), *kept)
        )

    async def make_token(self, name: str, token: str, digest: str, expires_seconds: int) -> None:
        """
        Let a user have a token of this digest, which ends after so long; 0: never.

        Raises:
            AccessError: There is no such user, or one of his tokens is called that.
        """
        now_ms = self._parts.clock.wall_microseconds() // 1000
        expires_ms = now_ms + 1000 * expires_seconds if expires_seconds else 0

        def changed(values: Values | None) -> dict[str, Any]:
            there = _there(values, name)
            return with_token(there, token, digest, expires_ms=expires_ms, now_ms=now_ms)

        await self._change_user("make token", name, f"{name} {token}", changed)

    async def end_token(self, name: str, token: str) -> None:
        """
        Let a token be worth nothing any more.

        Raises:
            AccessError: There is no such user, or he has no such token.
        """
        await self._change_user(
            "end token",
            name,
            f"{name} {token}",
            lambda values: without_token(_there(values, name), token),
        )

    async def remove(
        self, name: str, *, is_last_meant: bool, ends_subscriptions: bool = False
    ) -> int:
        """
        Remove a user; the last one only if that is meant, as then everybody is let in.

        Gives how many durable subscriptions of his ended with him.

        Raises:
            AccessError: There is no such user, or he is the last one.
        """

        def removed(audit: AuditRecord, reply: OperatorReply) -> None:
            changes = self._changes
            if changes.user(name) is not None and not is_last_meant and self._is_last(name):
                raise AccessError(
                    f"{name!r} is the last user: without users everybody is let in, whatever he"
                    f" shows; say --last if that is meant"
                )
            changes.remove_user(name, audit, reply, b"")

        await self._change("remove user", name, removed)
        return await self._belongings.end(name) if ends_subscriptions else 0

    def left_by(self, name: str) -> int:
        """Give how many durable subscriptions are of this name, of whoever has it or had it."""
        return self._belongings.count(name)

    async def give_subscription(self, client_id: str, name: str, user: str) -> None:
        """
        Let a durable subscription be a user's from now on.

        Raises:
            DestinationError: There is none of that name, or somebody consumes from it.
            AccessError: There is no such user.
        """
        await self._belongings.give(client_id, name, user)

    async def grant(self, grant: Grant) -> frozenset[Right]:
        """
        Grant more of a pattern to a role; gives all that it has of it.

        Raises:
            LimitReachedError: There are too many grants.
        """
        return await self._change(
            "grant",
            _said(grant),
            lambda audit, reply: self._changes.grant(grant, audit, reply, b""),
        )

    async def revoke(self, grant: Grant) -> frozenset[Right]:
        """
        Take something back from a role; gives what it has left of the pattern.

        Raises:
            AccessError: That was not granted of this pattern.
        """
        return await self._change(
            "revoke",
            _said(grant),
            lambda audit, reply: self._changes.revoke(grant, audit, reply, b""),
        )

    @property
    def _changes(self) -> AccessChanges:
        return self._parts.broker.access_changes

    def _is_last(self, name: str) -> bool:
        users = self._parts.broker.state.access.users
        return all(other == name or self._changes.user(other) is None for other in users)

    async def _change_user(
        self, action: str, name: str, said: str, change: Callable[[Values | None], dict[str, Any]]
    ) -> None:
        def changed(audit: AuditRecord, reply: OperatorReply) -> None:
            changes = self._changes
            changes.put_user(name, change(changes.user(name)), audit, reply, b"")

        await self._change(action, said, changed)

    async def _change(
        self, action: str, said: str, change: Callable[[AuditRecord, OperatorReply], Answer]
    ) -> Answer:
        """Make a change with its record, and note what came of it."""
        self._require_serving()
        audit = self._trail.record(action, said)
        try:
            answer: Answer = await self._stored(lambda reply: change(audit, reply))
        except NotLeaderError:
            raise  # The leader will note it.
        except HoldfastError as error:
            self._trail.tell(action, said, f"refused: {error}")
            raise
        except TimeoutError:
            self._trail.tell(action, said, _UNKNOWN)
            raise
        self._trail.tell(action, said)
        return answer


def _there(values: Values | None, name: str) -> Values:
    if values is None:
        raise _no_user(name)
    return values


def _no_user(name: str) -> AccessError:
    return AccessError(f"there is no user {name[:80]!r}; see 'holdfast users list'")


def _said(grant: Grant) -> str:
    return f"{grant.role} {named(grant.rights)} {grant.pattern}"


def _user_status(record: UserRecord) -> UserStatus:
    values = read_values(record.values)
    tokens = (TokenStatus(name=it.name, expires_ms=it.expires_ms) for it in values.tokens)
    return UserStatus(
        name=record.name,
        roles=tuple(sorted(values.roles)),
        has_password=bool(values.password),
        has_scram=values.scram is not None,
        tokens=tuple(tokens),
        revision=record.revision,
    )


def _status_of(record: GrantRecord) -> GrantStatus:
    rights = rights_of(record.rights)
    named_rights = tuple(right.value for right in Right if right in rights)
    return GrantStatus(role=record.role, rights=named_rights, pattern=record.pattern)
