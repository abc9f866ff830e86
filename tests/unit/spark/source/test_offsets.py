"""
Offsets of a stream: written into checkpoints, so their form is a promise.
"""

from __future__ import annotations

import pytest

from holdfast.errors import ConfigError
from holdfast.spark.source.offsets import Taken, offset_at, taken_of


def test_an_offset_is_the_last_entry_taken_and_its_log() -> None:
    """This very form stands in the checkpoints of running queries."""
    taken = Taken(7, "c1", 2, "ab" * 16)
    offset = {"index": 7, "cluster": "c1", "generation": 2, "chain": "ab" * 16}
    assert offset == offset_at(taken)
    assert taken == taken_of(offset)


def test_an_older_offset_is_read() -> None:
    """It names the entry alone; what is not known stays unknown."""
    assert Taken(7) == taken_of({"index": 7})
    assert {"index": 7} == offset_at(Taken(7))


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"index": "7"},
        {"index": -1},
        {"index": True},
        {"other": 1},
        {"index": 1, "cluster": 3},
        {"index": 1, "chain": None},
        {"index": 1, "generation": "x"},
    ],
)
def test_the_checkpoint_of_another_source_is_refused(offset: dict[str, object]) -> None:
    """Rather than begin anywhere."""
    with pytest.raises(ConfigError, match="no offset of a Holdfast log"):
        taken_of(offset)
