"""What is believed beside the log, as values: safe where nothing was said."""

from __future__ import annotations

from pathlib import Path

from holdfast.authorities.options import ALGORITHMS, AuthorityOptions, JwtOptions, LdapOptions


def test_nobody_signs_by_a_secret_that_both_sides_have() -> None:
    """Nor not at all; what is pinned by default is among what may be."""
    made = JwtOptions(name="company", issuer="i", audience="a", keys="k")
    assert set(made.algorithms) <= set(ALGORITHMS)
    assert not [it for it in ALGORITHMS if it.startswith("HS") or it == "none"]


def test_somebody_is_believed_or_nobody_is() -> None:
    """Either kind is enough for logins to be asked for."""
    issuer = JwtOptions(name="company", issuer="i", audience="a", keys="k")
    people = LdapOptions(
        name="people",
        url="ldaps://x",
        bind_dn="b",
        bind_password_file=Path("p"),
        people_base="p",
        group_base="g",
    )
    assert AuthorityOptions((issuer,))
    assert AuthorityOptions((), (people,))
    assert not AuthorityOptions()
