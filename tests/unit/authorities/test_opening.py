"""Whoever is asked, made of what the file says."""

from __future__ import annotations

from pathlib import Path

from holdfast.authorities.opening import open_authorities
from holdfast.authorities.options import (
    NO_AUTHORITIES,
    AuthorityOptions,
    JwtOptions,
    LdapOptions,
)


def test_tokens_are_asked_of_before_directories() -> None:
    """A directory would take a token for anybody's password."""
    issuer = JwtOptions(name="company", issuer="i", audience="a", keys="k")
    people = LdapOptions(
        name="people",
        url="ldaps://x",
        bind_dn="b",
        bind_password_file=Path("p"),
        people_base="p",
        group_base="g",
    )
    found = open_authorities(AuthorityOptions((issuer,), (people,)))
    assert [it.label for it in found] == ["jwt", "ldap.people"]
    assert found[0].recognises("carl", "eyJ.x.y", is_known=False)
    assert not found[1].recognises("carl", "pw", is_known=True)


def test_without_any_nobody_is_asked() -> None:
    """And nothing says that there were some."""
    assert open_authorities(NO_AUTHORITIES) == ()
    assert not NO_AUTHORITIES
