"""What an operator may say of mirrors."""

from __future__ import annotations

from holdfast.config.catalogue import CATALOGUE
from holdfast.mirrors.settings import MirrorSettings


def test_a_mirror_is_waited_for_ten_seconds() -> None:
    """Long enough for a disk that spins up, short enough for clients."""
    assert MirrorSettings().timeout_seconds == 10


def test_both_are_settings_with_their_units() -> None:
    """They stand in the file below [mirrors], with a range."""
    assert CATALOGUE["mirrors.timeout_seconds"].unit == "s"
    assert CATALOGUE["mirrors.copy_bytes_per_second"].unit == "bytes/s"
