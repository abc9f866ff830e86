"""
Clients that all come at once, in one process that costs the machine less than what it measures.

A thousand connections in asyncio or in threads take more of a processor than the node that is to
be measured, and open all before any of them says a word: then it is the client that is late. Here
each says what it has to say as soon as it is connected. Whoever is cut off comes again, as a
failover client does, and is counted.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections import Counter, deque
from dataclasses import dataclass, field

AGAIN_SECONDS = 0.5
"""After which one that was cut off comes again."""

_SECONDS_MAX = 300.0


@dataclass(eq=False)
class Crowd:
    """So many clients of one port; they stay until the block ends."""

    count: int
    greeting: bytes
    seconds: float = 0.0
    """How long it took until the last one was in."""
    failures: Counter[str] = field(default_factory=Counter)
    """Why some were cut off and had to come again."""
    _inside: list[socket.socket] = field(default_factory=list)

    def come(self, port: int) -> None:
        """Let all of them in, each with a CONNECTED of its own."""
        began = time.monotonic()
        with selectors.EpollSelector() as selector:
            due = deque([began] * self.count)
            while len(self._inside) < self.count:
                now = time.monotonic()
                assert now < began + _SECONDS_MAX, f"{len(self._inside)} are in, {self.failures}"
                while due and due[0] <= now:
                    due.popleft()
                    self._dial(selector, port)
                for key, _ in selector.select(0.05):
                    if not self._go_on(selector, key):
                        due.append(now + AGAIN_SECONDS)
        self.seconds = time.monotonic() - began

    def _dial(self, selector: selectors.BaseSelector, port: int) -> None:
        opened = socket.socket()
        opened.setblocking(False)
        assert opened.connect_ex(("127.0.0.1", port)) in (0, errno.EINPROGRESS)
        selector.register(opened, selectors.EVENT_WRITE)

    def _go_on(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> bool:
        """Say or hear something; false: it was cut off."""
        opened: socket.socket = key.fileobj  # type: ignore[assignment]
        try:
            if key.events == selectors.EVENT_WRITE:
                opened.sendall(self.greeting)
                selector.modify(opened, selectors.EVENT_READ)
                return True
            answer = opened.recv(4096)
            why = "" if answer.startswith(b"CONNECTED") else answer.decode()[:60] or "closed"
        except OSError as error:
            why = errno.errorcode.get(error.errno or 0, "?")
        selector.unregister(opened)
        if why:
            self.failures[why] += 1
            opened.close()
        else:
            self._inside.append(opened)
        return not why

    def wait_until_cut_off(self) -> None:
        """Wait until the node has closed each of them, as it went down."""
        for opened in self._inside:
            opened.setblocking(True)
            try:
                while opened.recv(4096):
                    pass
            except OSError:
                pass
        self.leave()

    def leave(self) -> None:
        """Close all."""
        for opened in self._inside:
            opened.close()
        self._inside.clear()
