"""
Paths as they are written: what no file can be called is told before it is looked for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.paths import read_path


@pytest.mark.parametrize("text", ["", "\0", "a\0b"])
def test_what_is_no_path_is_refused(text: str) -> None:
    """
    An empty one is a variable that is not set, and never the current directory.
    """
    with pytest.raises(ValueError, match="is not a path"):
        read_path(text)


@pytest.mark.parametrize("value", [".", " ", "/a b", Path("x"), None, 7])
def test_anything_else_is_left_as_it_is(value: object) -> None:
    """
    Of what type it has to be is checked with the rest.
    """
    assert read_path(value) is value
