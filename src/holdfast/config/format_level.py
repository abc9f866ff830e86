"""
Up to which level of the log's format a node speaks: its newest, unless it is held back.

Held back by `HOLDFAST_FORMAT_LEVEL_MAX` in its environment it behaves as a version that knows no
more, so the whole cluster stays at that level and can be taken back to such a version. It is no
setting of the node: a new level is there to be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.errors import ConfigError
from holdfast.model.format_level import FIRST_LEVEL, NEWEST_LEVEL

VARIABLE: Final = "HOLDFAST_FORMAT_LEVEL_MAX"


def format_level_max(environment: Mapping[str, str]) -> int:
    """
    Give the newest level that this node is to speak.

    Raises:
        ConfigError: The variable is set, and is no level of this version.
    """
    text = environment.get(VARIABLE, "")
    if not text:
        return NEWEST_LEVEL
    if text not in map(str, range(FIRST_LEVEL, NEWEST_LEVEL + 1)):
        allowed = f"{FIRST_LEVEL} to {NEWEST_LEVEL}"
        raise ConfigError([f"{VARIABLE}: {text!r} is no level of this version; it has {allowed}"])
    return int(text)
