"""The settings of leases: what is usual leaves time for what it is for."""

from __future__ import annotations

import typing

from holdfast.leases.settings import LeaseSettings
from holdfast.leases.state import RENEWALS
from holdfast.model.allowed import Allowed


def test_the_margin_covers_clocks_that_differ_by_a_tenth() -> None:
    """A holder 5 % slow ends before a waiter 5 % fast may begin, at the least that is allowed."""
    hints = typing.get_type_hints(LeaseSettings, include_extras=True)
    (allowed,) = (it for it in hints["margin_fraction"].__metadata__ if isinstance(it, Allowed))
    margin = allowed.least

    assert LeaseSettings().margin_fraction >= margin
    assert (1 - margin) / 0.95 < (1 + margin / 2) / 1.05


def test_several_signs_of_life_fit_into_a_lease() -> None:
    """One that is lost, and one more, do not end it."""
    usual = LeaseSettings()

    assert 2 / RENEWALS + usual.margin_fraction < 1
    assert usual.retry_seconds_min < usual.retry_seconds_max < 5.0
