"""
Whom a node believes beside its log, as an operator writes it.

Values only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SYMMETRIC: Final = "HS"
"""Algorithms by a secret that both sides have: whoever can check a token can make one."""

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""What an issuer may sign with (RFC 7518 section 3.1, RFC 8037 section 3.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtOptions:
    """An issuer of JSON Web Tokens (RFC 7519)."""

    name: str
    """What operators call it."""

    issuer: str
    """The claim `iss` of its tokens, letter by letter."""

    audience: str
    """What stands in the claim `aud` of tokens that are for this broker."""

    keys: str
    """Its keys, a JSON Web Key Set (RFC 7517 section 5): an https URL, or a file."""

    ca: Path | None = None
    """Whose word on the host of `keys` is taken; None: whom the system believes."""

    algorithms: tuple[str, ...] = ("RS256", "ES256")
    """By which its tokens may be signed, and by no other, whatever a token says."""

    name_claim: str = "sub"
    """Where the name is."""

    roles_claim: str = "roles"
    """Where the roles are: a claim, or a way through objects with dots, `realm_access.roles`."""

    keys_seconds: float = 3_600.0
    """After so long the keys are asked for again: one that is gone counts no more then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LdapOptions:
    """A directory of people (RFC 4511)."""

    name: str
    """What operators call it."""

    url: str
    """`ldaps://HOST[:PORT]`; `ldap://` on loopback, or with `start_tls`."""

    bind_dn: str
    """As whom the broker looks people and their groups up."""

    bind_password_file: Path
    """A file with that one's password, which only the node's user may read."""

    people_base: str
    """Below which entry people are."""

    group_base: str
    """Below which entry their groups are."""

    ca: Path | None = None
    """Whose word on the host is taken; None: whom the system believes."""

    start_tls: bool = False
    """Whether TLS begins on the plain port (RFC 4511 section 4.14)."""

    people_filter: str = "(uid={name})"
    """What finds one entry by the name that is said (RFC 4515)."""

    name_attribute: str = "uid"
    """The attribute of an entry that is the name here: filters find it in other letters, too."""

    group_filter: str = "(member={dn})"
    """What finds the groups of an entry: `{dn}` stands for it, `{name}` for its name."""

    role_attribute: str = "cn"
    """The attribute of a group that is a role here."""

    again_seconds: float = 300.0
    """After so long the groups of who is connected are read again, and passwords tried again."""

    timeout_seconds: int = 5
    """So long a directory has for an answer, in whole seconds."""


@dataclass(frozen=True, slots=True)
class AuthorityOptions:
    """All whom a node believes beside its log."""

    issuers: tuple[JwtOptions, ...] = ()
    directories: tuple[LdapOptions, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.issuers or self.directories)


NO_AUTHORITIES: Final = AuthorityOptions()
