"""
What is counted when a write comes back.
"""

from __future__ import annotations

from types import SimpleNamespace

from holdfast.server.counters import Counters


def test_syncs_are_counted_with_their_time() -> None:
    """
    A failed write is no sync.
    """
    counters = Counters()
    counters.synced(SimpleNamespace(failure=None, seconds=0.002))  # type: ignore[arg-type]
    counters.synced(SimpleNamespace(failure=OSError(), seconds=9.0))  # type: ignore[arg-type]
    assert counters.syncs == 1
    assert counters.sync_seconds.status().count == 1
    assert counters.receipts == counters.deliveries == 0


def test_the_longest_turn_is_kept() -> None:
    """
    However many short ones follow.
    """
    counters = Counters()
    for seconds in (0.001, 0.02, 0.003):
        counters.turned(seconds, seconds / 2)
    assert counters.turn_seconds_max == 0.02
    assert counters.turn_cpu_seconds_max == 0.01
