"""What is said of somebody by who vouches for him."""

from __future__ import annotations

from holdfast.security.authority import Vouched


def test_what_is_said_holds_for_a_while_and_ends_by_itself_only_if_that_is_said() -> None:
    """A directory says no end, an issuer of tokens does."""
    said = Vouched("anna", frozenset({"orders"}), 300.0)
    assert said.expires_ms == 0
    assert said._replace(expires_ms=1) != said
