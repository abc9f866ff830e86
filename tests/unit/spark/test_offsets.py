"""
Offsets of a stream: written into checkpoints, so their form is a promise.
"""

from __future__ import annotations

import pytest

from holdfast.errors import ConfigError
from holdfast.spark.offsets import index_of, offset_at


def test_an_offset_is_the_last_entry_taken() -> None:
    """This very form stands in the checkpoints of running queries."""
    assert {"index": 7} == offset_at(7)
    assert 7 == index_of({"index": 7})


@pytest.mark.parametrize("offset", [{}, {"index": "7"}, {"index": -1}, {"other": 1}])
def test_the_checkpoint_of_another_source_is_refused(offset: dict[str, object]) -> None:
    """Rather than begin anywhere."""
    with pytest.raises(ConfigError, match="no offset of a Holdfast log"):
        index_of(offset)
