"""
Which records a log may hold: the level that it has reached, and the level that a version knows.

Each version reads all levels up to its newest. It writes what belongs to a level only where the log
has reached it, which a FORMAT record says. The leader writes that record once every member has told
that it knows the level, and tells them so before it sends it: see `server.format_gate`. From then
on there is no way back: a version that knows less refuses the log.

Level 1: what the first versions wrote. Level 2: messages with facts, see `model.facts`. Level 3:
policies, see `model.policies`. Level 4: what came back to its queue is counted. Level 5: messages
are moved by one record, without their bytes. Level 6: messages are in groups. Level 7:
messages expire. Level 8: messages are scheduled. Level 9: messages leave queues that are full.
Level 10: messages have priorities, and a dispatch mark may leave out what stands before. Level 11:
topics are stored, for durable subscriptions. Level 12: these may be of wildcards. Level 13: users
and grants are in the log. Level 14: it says whose a durable subscription is, and what was scheduled
by who may not send it any more.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import FormatLevelError

FIRST_LEVEL: Final = 1
"""Of a log that has no FORMAT record."""

FACTS_LEVEL: Final = 2
"""From here on messages may have facts."""

POLICIES_LEVEL: Final = 3
"""From here on the log may hold policies of destinations."""

RETURNS_LEVEL: Final = 4
"""From here on the log says what came back to its queue, and until when it rests there."""

MOVES_LEVEL: Final = 5
"""From here on messages may be moved from queue to queue by MOVE records."""

GROUPS_LEVEL: Final = 6
"""From here on messages say of which group they are, and every node knows it of each."""

EXPIRY_LEVEL: Final = 7
"""From here on messages expire: the log says when, and that they have."""

SCHEDULES_LEVEL: Final = 8
"""From here on messages may be scheduled: the log says when they are due, and that they fired."""

LIMITS_LEVEL: Final = 9
"""From here on the oldest message of a queue that is full may be dropped by a MOVE record."""

PRIORITY_LEVEL: Final = 10
"""From here on messages have priorities, and every node knows that of each."""

DURABLE_LEVEL: Final = 11
"""From here on topics may be stored, for durable subscriptions."""

WILD_DURABLES_LEVEL: Final = 12
"""From here on durable subscriptions may be of wildcards: whoever leads stores what they mean."""

ACCESS_LEVEL: Final = 13
"""From here on the log may say who there is, what roles were granted, and who changed that."""

OWNERS_LEVEL: Final = 14
"""From here on the log says whose a durable subscription is, and messages may be moved because
their sender may not send them any more."""

NEWEST_LEVEL: Final = 14


def require_known(reached: int, known: int, what: str) -> None:
    """
    Refuse what has reached a level that this node does not know.

    Raises:
        FormatLevelError: It has; the sentence says what it is, and what to do.
    """
    if reached > known:
        raise FormatLevelError(what, reached, known)
