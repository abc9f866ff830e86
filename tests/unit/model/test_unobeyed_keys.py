"""
Keys that nothing obeys.
"""

from __future__ import annotations

from holdfast.model.policy_options import OPTIONS
from holdfast.model.unobeyed_keys import MOOT, UNBUILT


def test_every_key_is_in_one_of_the_lists() -> None:
    """And none in two of them; they are ActiveMQ's and those of the design."""
    assert not (MOOT & UNBUILT or MOOT & OPTIONS.keys() or UNBUILT & OPTIONS.keys())
    assert len(MOOT) > 20
    assert len(UNBUILT) > 10
