"""
Whether anything is said of when a message is sent.
"""

from __future__ import annotations

import pytest

from holdfast.errors import ScheduleError
from holdfast.model.schedule_headers import CRON, DELAY, PERIOD, REPEAT, TIME, ZONE, says_when
from holdfast.sessions.stomp_schedules import read_schedule


@pytest.mark.parametrize(
    "headers",
    [
        *({}, {"colour": "red"}, {ZONE: "UTC"}, {DELAY: "0"}, {DELAY: " ", CRON: ""}, {TIME: "00"}),
        *({DELAY: "10"}, {PERIOD: " 5"}, {PERIOD: "5", REPEAT: "-1"}, {TIME: "9"}),
        *({CRON: "0 0 * * *"}, {DELAY: "0", PERIOD: "0", REPEAT: "0"}),
    ],
)
def test_it_is_what_the_broker_reads(headers) -> None:
    """
    A client numbers what is stored, and a broker stores what is sent later.
    """
    assert says_when(headers) == (read_schedule(headers, "UTC") is not None)


@pytest.mark.parametrize("headers", [{DELAY: "soon"}, {REPEAT: "3"}, {CRON: "0 0"}])
def test_what_makes_no_sense_says_something(headers) -> None:
    """
    It is refused, and takes no number.
    """
    assert says_when(headers)
    with pytest.raises(ScheduleError):
        read_schedule(headers, "UTC")
