"""
What Spark keeps of a stream's progress: `{"index": n}`, the last entry taken; 0 for none.

It is written into the query's checkpoint and must be readable for as long as checkpoints live.
Pure.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import ConfigError


def offset_at(index: int) -> dict[str, Any]:
    """Return the offset of a stream that has taken everything through this entry."""
    return {"index": index}


def index_of(offset: dict[str, Any]) -> int:
    """
    Return the last entry taken.

    Raises:
        ConfigError: The checkpoint is of another source.
    """
    index = offset.get("index")
    if not isinstance(index, int) or index < 0:
        raise ConfigError([f"checkpoint: {offset!r} is no offset of a Holdfast log"])
    return index
