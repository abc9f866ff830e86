"""
The bodies of requests about users and grants, checked by pydantic; imported when one comes.

Invariants:
    No password is shown by anything here, nor by what is said of a body that cannot be read.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from holdfast.security.names import NAME_BYTES_MAX, OTHERS_NAME_BYTES_MAX
from holdfast.security.passwords import PASSWORD_BYTES_MAX, KeptPassword
from holdfast.security.user_changes import ROLE_COUNT_MAX

_EXPIRES_SECONDS_MAX = 100 * 366 * 86_400
_PATTERN_LETTERS_MAX = 4096
_CLIENT_ID_LETTERS_MAX = 4096

_Name = Annotated[str, Field(min_length=1, max_length=NAME_BYTES_MAX)]
_Roles = Annotated[list[_Name], Field(max_length=ROLE_COUNT_MAX)]
_Short = Annotated[str, Field(max_length=256)] | int
_Password = Annotated[str, Field(max_length=PASSWORD_BYTES_MAX, repr=False)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class Named(_Body):
    """Which user."""

    name: _Name


class WithPassword(Named):
    """Which user, and with which password, or what was kept of it by the node that asks."""

    password: _Password = ""
    kept: Annotated[str, Field(max_length=256, repr=False)] = ""
    scram: Annotated[dict[str, _Short] | None, Field(max_length=16, repr=False)] = None
    """Of the same password."""

    @property
    def kept_password(self) -> KeptPassword | None:
        """What is to be kept; None: nothing was said."""
        return KeptPassword(self.kept, self.scram) if self.kept else None


class AddUser(WithPassword):
    """A new user."""

    roles: _Roles = []


class SetRoles(Named):
    """All roles of a user."""

    roles: _Roles


class MakeToken(Named):
    """A new token of a user, by its digest: who draws it tells it to nobody else."""

    token: _Name
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    expires_seconds: int = Field(default=0, ge=0, le=_EXPIRES_SECONDS_MAX)
    """0: it never ends."""


class EndToken(Named):
    """Which token of a user ends."""

    token: _Name


class RemoveUser(Named):
    """Which user goes."""

    last: bool = False
    """That he is the last one is known: everybody is let in from then on."""
    subscriptions: bool = False
    """What he has subscribed to for good ends with him."""


class GiveSubscription(_Body):
    """Whose a durable subscription is from now on."""

    client_id: Annotated[str, Field(max_length=_CLIENT_ID_LETTERS_MAX)]
    name: Annotated[str, Field(min_length=1, max_length=_CLIENT_ID_LETTERS_MAX)]
    user: Annotated[str, Field(min_length=1, max_length=OTHERS_NAME_BYTES_MAX)]


class ChangeGrant(_Body):
    """What is granted to a role, or revoked."""

    role: _Name
    rights: Annotated[str, Field(min_length=1, max_length=100)]
    pattern: Annotated[str, Field(min_length=1, max_length=_PATTERN_LETTERS_MAX)]
