"""
Fixed limits fit the formats they stand for.
"""

from __future__ import annotations

from holdfast.model import limits


def test_limits_fit_their_fields() -> None:
    """
    A producer id's length stands in 16 bits of a record, a redelivery count too, a body in 32.
    """
    assert limits.PRODUCER_ID_BYTES_MAX < 1 << 16
    assert limits.REDELIVERY_COUNT_MAX < 1 << 16
    assert limits.MESSAGE_BODY_BYTES_MAX < 1 << 32
    assert limits.GiB == 1024 * limits.MiB == 1024 * 1024 * limits.KiB
