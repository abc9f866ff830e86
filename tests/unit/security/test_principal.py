"""Who somebody is."""

from __future__ import annotations

from holdfast.security.principal import ANONYMOUS, Principal


def test_who_nobody_knows_has_no_name_and_no_role() -> None:
    """So nothing that is granted is ever granted to everybody by chance."""
    assert ANONYMOUS.name == ""
    assert ANONYMOUS.roles == frozenset()
    assert Principal("me", frozenset({"sales"})) != Principal("me")
