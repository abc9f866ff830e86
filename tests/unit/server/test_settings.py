"""
The loop's defaults fit each other.
"""

from __future__ import annotations

from holdfast.broker.settings import BrokerSettings
from holdfast.server.settings import ServerSettings


def test_defaults_fit_each_other() -> None:
    """
    One connection cannot fill the broker, and a batch fits what may be under way.
    """
    settings = ServerSettings()
    assert settings.connection_uncommitted_bytes_max < settings.uncommitted_bytes_max
    assert BrokerSettings().batch_bytes_max <= settings.uncommitted_bytes_max
    assert settings.output_high_bytes <= settings.output_bytes_max
    assert 0 < settings.clean_dead_ratio < 1
