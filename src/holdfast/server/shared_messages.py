"""
Large messages of topics that sockets have not taken yet: the same bytes for all of them.

Sixty subscribers that are being sent 4 MB at the same time are not 240 MB. Counted as if they were,
those who read would be closed for it. So would be who is always a little behind, if what its socket
has taken were not let go of before it has taken all.

Owned by the loop.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from holdfast.broker.serving.message import TransientMessage
from holdfast.server.connection import ClientConnection


class SharedMessages:
    """Which connections have been given which, and what all of these take."""

    __slots__ = ("_given", "_holders", "bytes")

    def __init__(self) -> None:
        self._given: dict[ClientConnection, deque[tuple[int, TransientMessage]]] = {}
        """Oldest first, with how much the socket had been given when this had been, too."""
        self._holders: Counter[TransientMessage] = Counter()
        self.bytes = 0
        """Each message once."""

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(self._given)

    def give(self, connection: ClientConnection, messages: Iterable[TransientMessage]) -> None:
        """Note that a socket was given messages."""
        given = self._given.setdefault(connection, deque())
        for message in messages:
            given.append((connection.written_bytes, message))
            self._holders[message] += 1
            if self._holders[message] == 1:
                self.bytes += message.size

    def taken(self, connection: ClientConnection, through: int) -> None:
        """Note that a socket has taken so much of all that it was ever given."""
        given = self._given.get(connection)
        if given is None:
            return
        while given and given[0][0] <= through:
            message = given.popleft()[1]
            self._holders[message] -= 1
            if not self._holders[message]:
                del self._holders[message]
                self.bytes -= message.size
        if not given:
            del self._given[connection]

    def of(self, connection: ClientConnection) -> int:
        """What of it a connection has."""
        given = self._given.get(connection)
        return sum(message.size for _, message in given) if given else 0

    def clear(self) -> None:
        """Forget all: nobody is connected any more."""
        self._given.clear()
        self._holders.clear()
        self.bytes = 0
