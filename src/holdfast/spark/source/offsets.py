"""
What Spark keeps of a stream's progress: the last entry taken, and of which log it is.

    {"index": n, "cluster": id, "generation": g, "chain": hash of everything through entry n}

It is written into the query's checkpoint and must be readable for as long as checkpoints live.
Older checkpoints have `index` alone: of what log it is cannot be proven then. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Taken:
    """A place in one log: everything through entry `index` was taken; 0 for nothing."""

    index: int
    cluster_id: str = ""
    """Empty if it is not known, as all that follows."""

    generation: int = 0
    chain: str = ""
    """The chain value of entry `index`, hexadecimal."""


def offset_at(taken: Taken) -> dict[str, Any]:
    """Return the offset that says this; what is not known is left out."""
    offset: dict[str, Any] = {"index": taken.index}
    if taken.cluster_id:
        offset |= {"cluster": taken.cluster_id, "generation": taken.generation}
    if taken.chain:
        offset["chain"] = taken.chain
    return offset


def taken_of(offset: dict[str, Any]) -> Taken:
    """
    Return what an offset says.

    Raises:
        ConfigError: The checkpoint is of another source.
    """
    index, generation = offset.get("index"), offset.get("generation", 0)
    texts = offset.get("cluster", ""), offset.get("chain", "")
    numbers = all(type(it) is int and it >= 0 for it in (index, generation))
    if not numbers or not all(isinstance(it, str) for it in texts):
        raise ConfigError([f"checkpoint: {offset!r} is no offset of a Holdfast log"])
    return Taken(int(index or 0), texts[0], generation, texts[1])
