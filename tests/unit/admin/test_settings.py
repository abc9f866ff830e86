"""
The admin port's limits fit each other.
"""

from __future__ import annotations

from holdfast.admin.settings import AdminPortSettings


def test_defaults_fit_each_other() -> None:
    """
    Whoever sends a request has longer for it than a connection is kept for none.
    """
    settings = AdminPortSettings()
    assert settings.idle_seconds_max < settings.request_seconds_max < settings.answer_seconds_max
