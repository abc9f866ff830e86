"""
By which headers a message says when it is sent: ActiveMQ's names, and two of our own.

What they mean is worked out by `sessions.stomp_schedules`; who only has to know whether anything is
said asks here, and needs no calendar. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DELAY: Final = "AMQ_SCHEDULED_DELAY"
PERIOD: Final = "AMQ_SCHEDULED_PERIOD"
REPEAT: Final = "AMQ_SCHEDULED_REPEAT"
CRON: Final = "AMQ_SCHEDULED_CRON"
TIME: Final = "AMQ_SCHEDULED_TIME"
ZONE: Final = "AMQ_SCHEDULED_TIME_ZONE"
WHEN: Final = (DELAY, PERIOD, REPEAT, CRON, TIME)


def says_when(headers: Mapping[str, object]) -> bool:
    """Whether a message is not to be sent at once; nothing but zeros says nothing."""
    return any(str(headers.get(name, "")).strip().strip("0") for name in WHEN)
