"""
Places as users of other sources write them, and names that are almost right.
"""

from __future__ import annotations

import pytest

from holdfast.spark.source.offsets import Taken
from holdfast.spark.source.option_names import Place, ending_at, starting_at, unknown_option


def test_a_start_is_a_word_a_number_or_an_offset() -> None:
    """Behind an offset: that is the last entry that was taken."""
    assert Place() == starting_at("earliest")
    assert Place(is_latest=True) == starting_at("latest")
    assert Place(7) == starting_at("7")
    place = starting_at('{"index": 6, "cluster": "c", "generation": 2, "chain": "ab", "lag": 1}')
    assert (7, Taken(6, "c", 2, "ab")) == (place.index, place.taken)
    assert Place(1) == starting_at('{"index": 0}')


def test_an_end_is_included() -> None:
    """An offset ends where the query that wrote it came to."""
    assert Place(is_latest=True) == ending_at("latest")
    assert Place(7) == ending_at("7")
    assert Place(6) == ending_at('{"index": 6}')


@pytest.mark.parametrize("read", [starting_at, ending_at])
@pytest.mark.parametrize("text", ["0", "-1", "soon", "{", '{"topic": {"0": 5}}', '{"index": "x"}'])
def test_what_is_no_place_is_refused(read: object, text: str) -> None:
    """An offset of another source above all."""
    assert callable(read)
    with pytest.raises(ValueError, match="expected"):
        read(text)


def test_an_end_before_everything_is_refused() -> None:
    """It would be taken for no end at all."""
    with pytest.raises(ValueError, match="nothing before it"):
        ending_at('{"index": 0}')
    with pytest.raises(ValueError, match="expected"):
        ending_at("earliest")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("startindex", "did you mean start_index?"),
        ("startingofsets", "did you mean startingOffsets?"),
        ("fs.s3a.endpoints", "did you mean fs.s3a.endpoint?"),
        ("zzz", "there is no such option; there are"),
    ],
)
def test_an_unknown_option_names_the_nearest(key: str, meant: str) -> None:
    """Whatever is between its words; and all there are."""
    said = unknown_option(key, ["start_index", "url"], ["startingOffsets"], ["fs.s3a.endpoint"])
    assert said.startswith(f"{key}: ")
    assert meant in said
    assert "start_index, url" in said
