"""
How somebody shows on the admin port who he is, and who knows whether that is so.

    Authorization: Basic …          a user's name and password, or his token as the password
    Authorization: Bearer hf_…      a token, or a JSON Web Token

By SCRAM-SHA-256 he shows that he knows his password, in two steps: see `scram_http`.

Invariants:
    Whatever stands in the header, it is a login or none: nothing of it is an error.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from enum import Enum
from typing import Final, Protocol

from holdfast.security.checking import Shown
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.security.scram_exchanges import Begun, Proven
from holdfast.security.tokens import is_any_token

NOT_KNOWN: Final = (
    "This node does not know yet who its users are: since it was started no leader has told it how"
    " far its log is committed"
)
AT_A_WITNESS: Final = (
    "this node is a witness, which knows no users: ask another member as a user; here only the"
    " node's own user on its machine is answered, and who knows the cluster's secret"
    " (--secret-file)"
)
ITS_LOG_IS_ASKED: Final = "its own log is asked, up to its end"

_BASIC: Final = b"basic "
_BEARER: Final = b"bearer "
_HEADER_BYTES_MAX: Final = 12 << 10


class Users(Enum):
    """Whether anybody can log in."""

    NONE = "none"
    """Nobody can, and nobody is asked who he is."""

    SOME = "some"

    NOT_KNOWN = "not known yet"
    """The node has not read its log to an end that is sure: there may be anybody."""

    ELSEWHERE = "at other members"
    """It is a witness, which applies nothing: whoever there is, nobody can log in here."""


class Scram(Protocol):
    """Who lets people in by SCRAM."""

    @property
    def is_offered(self) -> bool:
        """Whether they may log in so."""
        ...

    async def look(self) -> None:
        """Find out whether they may."""
        ...

    def name_of(self, sid: str) -> str:
        """Give whose exchange this is; empty: there is none."""
        ...

    async def begin(self, message: bytes, address: str) -> Begun:
        """
        Take somebody's first message.

        Raises:
            AuthenticationError: It cannot be begun.
        """
        ...

    async def finish(self, sid: str, message: bytes, address: str) -> Proven:
        """
        Take his last message.

        Raises:
            AuthenticationError: He is not let in, and it is time to tell him.
        """
        ...


class People(Protocol):
    """Who knows the users. All of it is called on the node's loop."""

    @property
    def scram(self) -> Scram | None:
        """Who lets them in by SCRAM; None: nobody does."""
        ...

    @property
    def users(self) -> Users:
        """Whether there are any."""
        ...

    async def look(self) -> str:
        """
        Where it is not known yet, find out whom the node's own log has, up to its end.

        Gives why that cannot be told now; empty: `principal` and `authenticate` know it.
        """
        ...

    async def catch_up(self) -> str:
        """
        Wait until what the node has heard to be committed counts for its users.

        Gives why it cannot; empty: who may what is known as well as it can be here.
        """
        ...

    def principal(self, name: str) -> Principal | None:
        """Give a user as the log has him; None: there is none of that name."""
        ...

    def mark_of(self, found: Principal) -> str:
        """Give a mark of what a user of the log was found by; empty: he is not there any more."""
        ...

    def has_mark(self, name: str, mark: str) -> bool:
        """Whether a user can be found still by what he was found by on another node."""
        ...

    async def authenticate(self, shown: Shown) -> Principal:
        """
        Say who somebody is.

        Raises:
            AuthenticationError: He is not let in, and it is time to tell him.
        """
        ...


class Nobody:
    """The people of a node that knows no users."""

    scram = None
    users = Users.NONE

    async def look(self) -> str:
        """Know all there is."""
        return ""

    async def catch_up(self) -> str:
        """Know all there is."""
        return ""

    def principal(self, _name: str) -> Principal | None:
        """Give none."""
        return None

    def mark_of(self, _found: Principal) -> str:
        """Give none."""
        return ""

    def has_mark(self, _name: str, _mark: str) -> bool:
        """Know of none."""
        return False

    async def authenticate(self, _shown: Shown) -> Principal:
        """Let nobody in as one."""
        return ANONYMOUS


def read_login(header: bytes, address: str) -> Shown | None:
    """Read an `Authorization` header; None: it has neither a user's password nor a token."""
    if len(header) > _HEADER_BYTES_MAX:
        return None
    scheme = header[: len(_BEARER)].lower()
    if scheme == _BEARER:
        token = header[len(_BEARER) :].strip().decode("latin-1")
        return Shown("", token, address=address) if is_any_token(token) else None
    if not scheme.startswith(_BASIC):
        return None
    try:
        said = b64decode(header[len(_BASIC) :].strip(), validate=True).decode()
    except (Error, ValueError):
        return None
    name, colon, secret = said.partition(":")
    return Shown(name, secret, address=address) if colon and name and secret else None
