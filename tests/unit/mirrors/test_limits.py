"""What an operator may say of mirrors."""

from __future__ import annotations

from holdfast.mirrors.limits import MirrorSettings


def test_a_mirror_is_waited_for_ten_seconds() -> None:
    """Long enough for a disk that spins up, short enough for clients."""
    assert MirrorSettings().timeout_seconds == 10
