"""
Sizes in every usual spelling.
"""

from __future__ import annotations

import pytest

from holdfast.config.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("65536", 65_536), ("64k", 65_536), ("256MiB", 2**28), ("1 gb", 2**30), ("7B", 7)],
)
def test_sizes_are_read_in_powers_of_1024(text: str, size: int) -> None:
    """
    Every usual spelling of a size means the same number of bytes.
    """
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5M", "M", "1x", "1kk"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """
    A size is never half understood.
    """
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)
