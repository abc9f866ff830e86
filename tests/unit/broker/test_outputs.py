"""
A batch is empty until something is put in.
"""

from __future__ import annotations

from holdfast.broker.outputs import Batch


def test_batches_share_nothing() -> None:
    """
    Each has lists of its own, and nobody waits for an empty one.
    """
    one, other = Batch(), Batch()
    one.records.append(None)  # type: ignore[arg-type]
    assert (other.records, other.replies, other.publications) == ([], [], [])
    assert (other.size_bytes, other.is_urgent) == (0, False)
