"""Records of users and grants as values."""

from __future__ import annotations

from holdfast.model.access_records import UserRecord


def test_what_a_user_is_compared_with_is_not_in_its_repr() -> None:
    """Records are shown by failing assertions and in tracebacks (S14)."""
    assert "secret" not in repr(UserRecord("ann", '{"password":"secret"}', 1))
