"""
What the header `priority` of a SEND comes to, as Jakarta Messaging has priorities: 0 to 9, else 4.

Called by a session, for one message at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import RefusedError
from holdfast.model.facts import PRIORITY_DEFAULT, PRIORITY_MAX
from holdfast.model.format_level import PRIORITY_LEVEL
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.refusals import IGNORED_PRIORITY

_NUMBER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class Priority(NamedTuple):
    """What came of it."""

    known: int
    """What the broker goes by; of what it does not go by, the usual one."""
    lines: bytes
    """The headers, as consumers see them: with what is allowed."""
    is_constant: bool
    """Whether it is the same for every message with these headers, whenever it comes."""


def read_priority(headers: Mapping[str, str], *, is_copy: bool = False) -> int:
    """
    Give the priority that a SEND names, from 0 to 9: what is beyond these is the nearer of them.

    Raises:
        RefusedError: It is no whole number; of a copy that is the usual one.
    """
    text = headers.get("priority")
    if text is None:
        return PRIORITY_DEFAULT
    if _NUMBER.fullmatch(text.strip()) is None:
        if is_copy:
            return PRIORITY_DEFAULT
        raise RefusedError(f"header priority: {text[:40]!r} is not a whole number")
    return min(max(0, int(text)), PRIORITY_MAX)


def priority_of(
    session: ClientSession, said: int, destinations: Iterable[Queue | Topic], lines: bytes
) -> Priority:
    """
    Give the priority of a message that comes now, of which this is said.

    It has one on all of its destinations, if it counts on any.
    """
    if b"priority:" in lines:
        lines = _with_allowed(lines, said)
    if said == PRIORITY_DEFAULT:
        return Priority(said, lines, is_constant=True)
    broker = session.holdings.broker
    queues = [each for each in destinations if isinstance(each, Queue)]
    # Where policies change, what headers come to is found out anew.
    if not any(broker.policies.of(each).is_prioritized for each in queues):
        return Priority(PRIORITY_DEFAULT, lines, is_constant=True)
    if broker.format_level_ahead < PRIORITY_LEVEL:
        text = "not all nodes know priorities of messages yet; header 'priority' does nothing"
        session.context.refusals.note(session, IGNORED_PRIORITY, text)
        return Priority(PRIORITY_DEFAULT, lines, is_constant=False)  # They will.
    return Priority(said, lines, is_constant=True)


def _with_allowed(lines: bytes, said: int) -> bytes:
    """Show consumers the priority that came of what was said."""
    allowed = b"priority:%d\n" % said
    kept = lines.splitlines(keepends=True)
    return b"".join(allowed if line.startswith(b"priority:") else line for line in kept)
