"""
What operators ask about single messages of a queue, and what they are told: values only.

Long work is done in steps, each asked for by itself: a step says how far it came, and the next one
goes on from there. So nothing of it lasts but what the log says, and whoever asks may be stopped at
any time, or find another leader, and go on or begin again.

The names of the fields are those of the answer over HTTP, on which programs rely: they stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class MessageAction(StrEnum):
    """What is to be done with the messages."""

    BROWSE = "browse"
    MOVE = "move"
    COPY = "copy"
    RETRY = "retry"
    """Each goes back to the queue from which it came as a dead letter."""

    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequest:
    """One step of what is to be done with messages of a queue."""

    action: MessageAction
    queue: str
    target: str = ""
    selector: str = ""
    """Only with those of which this is true; empty: with all."""

    after: int = 0
    """It goes on behind this sequence."""

    through: int = 0
    """And no further than to this one; 0: to the last that there is now, which is told."""

    count_max: int = 1_000
    """To so many at most."""

    body_bytes_max: int = 0
    """Of each body so much is shown."""

    due_from: int = 0
    """Of what is scheduled, only with what is due at this time or later, in milliseconds."""

    due_through: int = 0
    """And no later than this; 0: whenever."""

    dry_run: bool = False
    """Only say to how many it would be done, and behind which one the next step goes on."""


@dataclass(slots=True, kw_only=True)
class MessageStep:
    """What a step has done."""

    queue: str
    action: str
    count: int = 0
    """To so many it was done, or would be: browsed, moved, copied, removed."""

    examined: int = 0
    in_delivery: int = 0
    """Those that a consumer or a transaction has: not touched."""

    skipped: int = 0
    """To be sent back, and they came from nowhere; or copied, and the copy is there already."""

    not_matching: int = 0
    unreadable: int = 0
    """Their bytes are damaged on this node; not touched."""

    after: int = 0
    """The next step goes on behind this."""

    through: int = 0
    is_done: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    """Of a look: the messages."""
