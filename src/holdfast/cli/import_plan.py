"""
What is to be made here of ActiveMQ's users, groups and rights: users, roles and grants.

A group becomes the role of its name. Three names mean something on the admin port here, so who has
a group of that name says what it is to be.

Invariants:
    Nothing is granted to a role that was granted to no group.
    The same files give the same plan.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.cli.activemq_users import EVERYBODY, ForeignEntry, ForeignUser, Found, Place
from holdfast.errors import AccessError
from holdfast.security.grants import Grant, Right, named, read_grant
from holdfast.security.names import require_name
from holdfast.security.passwords import PASSWORD_BYTES_MAX
from holdfast.security.roles import ADMIN, OPERATOR, VIEWER

RESERVED: Final = frozenset({ADMIN, OPERATOR, VIEWER})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUser:
    """A user to be made."""

    name: str
    roles: tuple[str, ...]
    password: str = field(default="", repr=False)


@dataclass(slots=True)
class Plan:
    """What is to be made, and what is not."""

    users: list[PlannedUser] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    left_out: list[tuple[Place, str]] = field(default_factory=list)


def plan_of(found: Found, role_of: Mapping[str, str]) -> Plan:
    """
    Say what is to be made of what was read.

    Args:
        found: All users and rights.
        role_of: The roles of groups that are not to be called as they are.
    """
    planning = _Planning(found, role_of)
    for entry in found.entries:
        planning.grant(entry)
    for user in found.users:
        planning.add(user)
    planning.plan.grants = sorted(
        planning.grants.values(), key=lambda it: (it.role, str(it.pattern))
    )
    return planning.plan


class _Planning:
    def __init__(self, found: Found, role_of: Mapping[str, str]) -> None:
        self._role_of = role_of
        self._refused: set[str] = set()
        self.plan = Plan(left_out=list(found.left_out))
        self.grants: dict[tuple[str, str], Grant] = {}
        in_entries = (
            group for entry in found.entries for groups in entry.groups.values() for group in groups
        )
        of_users = (group for user in found.users for group in user.groups)
        self._groups = sorted({*of_users, *in_entries} - {EVERYBODY})
        self._names: set[str] = set()

    def add(self, user: ForeignUser) -> None:
        """Plan a user, if there can be one of the name."""
        try:
            require_name(user.name, "user")
        except AccessError as error:
            self._leave_out(user.place, str(error))
            return
        if user.name in self._names:
            self._leave_out(
                user.place, f"user {user.name}: it is there twice; the first one counts"
            )
            return
        self._names.add(user.name)
        roles = [self._role(group, user.place) for group in user.groups]
        password = user.password
        if len(password.encode(errors="surrogatepass")) > PASSWORD_BYTES_MAX:
            self._leave_out(user.place, f"user {user.name}: the password is too long; it gets none")
            password = ""
        self.plan.users.append(
            PlannedUser(
                name=user.name,
                roles=tuple(sorted({role for role in roles if role})),
                password=password,
            )
        )

    def grant(self, entry: ForeignEntry) -> None:
        """Plan what an entry grants, role by role."""
        for right, groups in entry.groups.items():
            meant = groups
            if EVERYBODY in groups:
                meant = tuple(self._groups)
                self._leave_out(
                    entry.place,
                    f"{right.value} of * is granted to each of the {len(meant)} groups that are"
                    f" named: who has none of them, or another one later, has it not",
                )
            for group in meant:
                role = self._role(group, entry.place)
                for pattern in entry.patterns if role else ():
                    self._add(role, right, pattern, entry.place)

    def _add(self, role: str, right: Right, pattern: str, place: Place) -> None:
        key = role, pattern
        known = self.grants.get(key)
        rights = {right} | (known.rights if known is not None else set())
        try:
            self.grants[key] = read_grant(role, named(rights), pattern)
        except AccessError as error:
            self._leave_out(place, str(error))

    def _role(self, group: str, place: Place) -> str:
        """Give a group's role; empty: it has none, which is said once."""
        role = self._role_of.get(group, group)
        if role in RESERVED and group not in self._role_of:
            why = (
                f"group {group}: that role opens the admin port here; say --role {group}={group} if"
                f" it is to, or --role {group}=ANOTHER"
            )
        else:
            try:
                return require_name(role, "role")
            except AccessError as error:
                why = str(error)
        if group not in self._refused:
            self._refused.add(group)
            self._leave_out(place, why)
        return ""

    def _leave_out(self, place: Place, why: str) -> None:
        self.plan.left_out.append((place, why))
