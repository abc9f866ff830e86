"""Users, grants and verdicts as they are told."""

from __future__ import annotations

from dataclasses import fields

from holdfast.admin.user_status import TokenStatus, UserStatus, grant_status
from holdfast.security.grants import read_grant


def test_a_grant_is_told_in_one_order() -> None:
    """However it was written."""
    told = grant_status(read_grant("sales", "admin,read", "A.>"))
    assert (told.role, told.rights, told.pattern) == ("sales", ("read", "admin"), "queue://A.>")


def test_nothing_that_is_compared_with_a_credential_has_a_field() -> None:
    """Who adds one here shows it to every admin, in logs and in scripts."""
    assert [it.name for it in fields(TokenStatus)] == ["name", "expires_ms"]
    assert [it.name for it in fields(UserStatus)] == [
        "name",
        "roles",
        "has_password",
        "has_scram",
        "tokens",
        "revision",
    ]
