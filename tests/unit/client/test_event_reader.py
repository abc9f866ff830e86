"""
A reader of events: the newest are kept for who is slow, and it ends with the connection.
"""

from __future__ import annotations

from holdfast.client.event_reader import EventReader
from holdfast.client.events import BrokerComplaint
from holdfast.errors import RefusedError


async def test_who_is_slow_misses_the_oldest() -> None:
    """And hears all that is kept before the end."""
    events = [BrokerComplaint(RefusedError(str(n))) for n in range(3)]
    reader = EventReader(2)
    for event in events:
        reader.happened(event)
    reader.end()
    assert [event async for event in reader] == events[1:]
