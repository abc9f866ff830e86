"""
Keys that nothing obeys.
"""

from __future__ import annotations

import pytest

from holdfast.model.destination import Kind
from holdfast.model.policies import require_option
from holdfast.model.policy_options import OPTIONS
from holdfast.model.unobeyed_keys import DECLINED, MOOT, UNBUILT


def test_every_key_is_in_one_of_the_lists() -> None:
    """And none in two of them; they are ActiveMQ's and those of the design."""
    lists = [MOOT, UNBUILT, DECLINED.keys(), OPTIONS.keys()]
    assert len(frozenset().union(*lists)) == sum(map(len, lists))
    assert len(MOOT) > 20


@pytest.mark.parametrize("key", DECLINED)
def test_what_will_not_be_built_says_what_to_do(key: str) -> None:
    """In the refusal itself."""
    with pytest.raises(ValueError, match="nothing obeys it here; ") as refused:
        require_option(key, Kind.QUEUE)
    assert DECLINED[key] in str(refused.value)
