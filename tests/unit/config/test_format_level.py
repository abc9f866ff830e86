"""How a node is held back at an older level of the log's format."""

from __future__ import annotations

import pytest

from holdfast.config.format_level import VARIABLE, format_level_max
from holdfast.errors import ConfigError
from holdfast.model.format_level import NEWEST_LEVEL


def test_a_node_speaks_its_newest_level_unless_it_is_held_back() -> None:
    """By its environment, as no configuration file should hold it back for ever."""
    assert format_level_max({}) == format_level_max({VARIABLE: ""}) == NEWEST_LEVEL
    assert format_level_max({VARIABLE: "1"}) == 1


@pytest.mark.parametrize("text", ["0", "99", "1.0", "new"])
def test_what_is_no_level_is_refused(text: str) -> None:
    """The sentence names the variable and what it may be."""
    with pytest.raises(ConfigError, match=rf"{VARIABLE}: .* it has 1 to {NEWEST_LEVEL}$"):
        format_level_max({VARIABLE: text})
