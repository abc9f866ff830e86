"""What roles mean on the admin port."""

from __future__ import annotations

import pytest

from holdfast.security.roles import ADMIN, OPERATOR, VIEWER, Duty, duty_of


@pytest.mark.parametrize(
    ("roles", "duty"),
    [
        ([], Duty.NONE),
        (["sales"], Duty.NONE),
        ([VIEWER], Duty.VIEW),
        ([VIEWER, OPERATOR, "sales"], Duty.OPERATE),
        ([ADMIN], Duty.GOVERN),
        (["Admin", "admin "], Duty.NONE),
    ],
)
def test_the_highest_of_ones_roles_counts(roles: list[str], duty: Duty) -> None:
    """Three have a meaning, spelt exactly so; a role of any other name has none on that port."""
    assert duty_of(roles) is duty


def test_each_duty_has_those_before_it() -> None:
    """Who may change users may look, and who may look may not change anything."""
    assert Duty.NONE < Duty.VIEW < Duty.OPERATE < Duty.GOVERN
