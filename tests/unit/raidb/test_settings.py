"""What an operator may say of several databases."""

from __future__ import annotations

from holdfast.leases.settings import LeaseSettings
from holdfast.raidb.settings import RaidbSettings


def test_a_database_is_left_out_before_the_lease_is_lost() -> None:
    """The default is less than what a holder has of the shortest lease that suits a database."""
    margin = LeaseSettings().margin_fraction

    assert RaidbSettings().member_timeout_seconds < 5.0 * (1 - margin) / 2
