"""
The broker's defaults are safe and fit each other.
"""

from __future__ import annotations

from holdfast.broker.settings import BrokerSettings
from holdfast.model.limits import MESSAGE_BODY_BYTES_MAX


def test_defaults_fit_each_other() -> None:
    """
    A transaction fits an entry, all of them their own limit, a prefetch its maximum.
    """
    settings = BrokerSettings()
    assert settings.transaction_bytes_max <= MESSAGE_BODY_BYTES_MAX
    assert settings.transaction_bytes_max <= settings.transactions_bytes_max
    assert settings.prefetch_default <= settings.prefetch_max
    assert settings.dispatch_mark_step_min <= settings.dispatch_mark_step_max
