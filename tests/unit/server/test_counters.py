"""
What is counted when a write comes back.
"""

from __future__ import annotations

from types import SimpleNamespace

from holdfast.server.counters import Counters


def test_syncs_are_counted_with_their_time() -> None:
    """
    A failed write is no sync; one while this node follows made no record of its own durable.
    """
    counters = Counters()
    done = SimpleNamespace(failure=None, seconds=0.002)
    counters.synced(done, is_serving=True)  # type: ignore[arg-type]
    counters.synced(done, is_serving=False)  # type: ignore[arg-type]
    failed = SimpleNamespace(failure=OSError(), seconds=9.0)
    counters.synced(failed, is_serving=True)  # type: ignore[arg-type]
    assert counters.sync_seconds.status().count == 2
    assert counters.serving_syncs == 1
    assert counters.deliveries == 0


def test_the_longest_turn_is_kept() -> None:
    """
    However many short ones follow.
    """
    counters = Counters()
    for seconds in (0.001, 0.02, 0.003):
        counters.turned(seconds, seconds / 2)
    assert counters.turn_seconds_max == 0.02
    assert counters.turn_cpu_seconds_max == 0.01
