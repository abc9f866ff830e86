"""
What was written of a topic message for one subscriber serves the next.
"""

from __future__ import annotations

from holdfast.broker.serving.message import TransientMessage
from holdfast.sessions.shared_frames import FRAMES_COUNT_MAX, SharedFrames


def test_frames_of_one_message_for_very_many_are_bounded() -> None:
    """
    Each of ten thousand subscribers may want another one.
    """
    shared = SharedFrames()
    message = TransientMessage(-1, b"", b"b", 0)
    for number in range(10 * FRAMES_COUNT_MAX):
        key = b"%d" % number
        shared.keep(message, key, key)
        assert shared.find(message, key) == key
    kept = [it for it in range(10 * FRAMES_COUNT_MAX) if shared.find(message, b"%d" % it)]
    assert len(kept) <= FRAMES_COUNT_MAX
    shared.keep(TransientMessage(-2, b"", b"b", 0), b"0", b"other")
    assert shared.find(message, b"0") is None


def test_nothing_is_kept_of_a_leadership_that_is_over() -> None:
    """
    Nobody will ask for it.
    """
    shared = SharedFrames()
    message = TransientMessage(-1, b"", b"b", 0)
    shared.keep(message, b"key", b"frame")
    shared.clear()
    assert shared.find(message, b"key") is None
