"""
What members tell each other of the levels of the log's format, and what follows for their links.

A node tells in its hello which level it knows, and which one its log has reached. A version of
before says neither; it knows the first one. See `model.format_level` for what a level is. Pure.

Invariants:
    A level is known by all only while every possible member is linked and has told so.
    A node whose leader's log is beyond what it knows ends; one that cannot know that gets no link.
    What makes no sense counts for nothing, whoever says it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from holdfast.model.digits import read_digits
from holdfast.model.format_level import FIRST_LEVEL, require_known
from holdfast.replication.messages import Hello
from holdfast.replication.state import State

KNOWN: Final = "format"
"""Under this name a hello's metadata holds the newest level that its node knows."""
REACHED: Final = "format-reached"
"""And under this one the level that its log has reached."""

_DIGITS_MAX: Final = 9
"""Of a level in a hello: more of them are none, and none is worth the time to read them."""


def known_level(hello: Hello) -> int:
    """The newest level that a node says it knows."""
    return _level(hello, KNOWN)


def reached_level(hello: Hello) -> int:
    """The level that a node says its log has reached: none that it does not know itself."""
    reached = _level(hello, REACHED)
    return reached if reached <= known_level(hello) else FIRST_LEVEL


def known_by_all(state: State, own: Hello) -> int:
    """The newest level that every member knows, as far as all are linked; else the first one."""
    known = [known_level(own)]
    for node_id, name in state.possible_members.items():
        if name != state.name:
            hello = state.connected.get(name)
            is_told = hello is not None and hello.node_id == node_id
            known.append(known_level(hello) if is_told and hello else FIRST_LEVEL)
    return min(known)


def with_reached(own: Hello, level: int) -> Hello:
    """The same hello, saying that our log has reached this level."""
    return replace(own, metadata={**own.metadata, REACHED: str(level)})


def refused(own: Hello, hello: Hello) -> str:
    """Why a node of a version of before gets no link; empty if nothing is in its way."""
    reached = reached_level(own)
    if reached == FIRST_LEVEL or KNOWN in hello.metadata:
        return ""
    return (
        f"the log of this cluster has reached level {reached} of its format, and the version of"
        f" {hello.name} knows no level above {FIRST_LEVEL}: start it with a newer one"
    )


def require_reached_known(own: Hello, hello: Hello) -> None:
    """
    Make sure that what a peer's log has reached is known here.

    Raises:
        FormatLevelError: It is not: this node cannot be a member with this version.
    """
    require_known(reached_level(hello), known_level(own), f"the log of {hello.name}")


def _level(hello: Hello, key: str) -> int:
    return max(read_digits(hello.metadata.get(key, ""), _DIGITS_MAX) or 0, FIRST_LEVEL)
