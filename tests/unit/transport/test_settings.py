"""
The limits of ports: what they have to be to each other.
"""

from __future__ import annotations

from holdfast.transport.settings import PortSettings


def test_who_waits_outnumbers_who_is_under_way() -> None:
    """Else nobody would ever wait for a turn, and a crowd would be worked off all at once."""
    settings = PortSettings()
    assert settings.handshake_count_max < settings.stranger_count_max
    assert settings.handshake_patience_seconds < settings.handshake_seconds_max
