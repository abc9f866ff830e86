"""Who somebody is."""

from __future__ import annotations

from holdfast.security.principal import ANONYMOUS, Principal


def test_who_nobody_knows_has_no_name_and_no_role() -> None:
    """So nothing that is granted is ever granted to everybody by chance."""
    assert ANONYMOUS.name == ""
    assert ANONYMOUS.roles == frozenset()
    assert Principal("me", frozenset({"sales"})) != Principal("me")


def test_what_somebody_was_found_by_is_not_shown() -> None:
    """It is what passwords are compared with (S14)."""
    assert "argon2" not in f"{Principal('me', frozenset({'sales'}), kept='$argon2id$')!r}"
    assert "sales" in repr(Principal("me", frozenset({"sales"})))
