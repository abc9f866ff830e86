"""
What happens to a connection, as an asynchronous iterator.

A reader that is too slow misses the oldest events, so that nobody's slowness costs memory. It is
told the end after all that it has not read. Owned by who reads; the connection knows it weakly.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from holdfast.client.events import Event


class EventReader(AsyncIterator[Event]):
    """What `Connection.events` gives. One that nobody has any more is no longer told."""

    def __init__(self, count_max: int) -> None:
        self._events: deque[Event] = deque(maxlen=count_max)
        self._is_ended = False
        self._news = asyncio.Event()

    async def __anext__(self) -> Event:
        """The next event. Cancelling takes none."""
        while not self._events:
            if self._is_ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._events.popleft()

    def happened(self, event: Event) -> None:
        """Keep an event, instead of the oldest if there are too many."""
        self._events.append(event)
        self._news.set()

    def end(self) -> None:
        """Nothing more will happen."""
        self._is_ended = True
        self._news.set()
