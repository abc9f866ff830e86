"""
A way to a server that can be cut at a chosen moment of an exchange.

It carries bytes in both directions. Told to, it breaks the connection at the next thing that a
client sends: before the server gets it, once the server has it, or once the server has answered.
Or it holds what goes one way or both, as a network does that is cut, and carries it later.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Final

_CHUNK: Final = 1 << 16


class Cut(Enum):
    """When to break the connection."""

    BEFORE_SENT = "before it is sent"
    BEFORE_DONE = "once it is sent"
    BEFORE_REPLY = "before the reply"


class CuttingProxy:
    """Listens on a port of its own; ends with `close`."""

    def __init__(self, port: int) -> None:
        """Lead to this port."""
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cut: Cut | None = None
        """When to break the connection of whoever sends something next."""
        self.change_reply: Callable[[bytes], bytes] = bytes
        """What becomes of each piece that the server sends."""
        self._pairs: list[_Pair] = []
        self.there, self.back = threading.Event(), threading.Event()
        """Whether what clients send, and what the server sends, is carried and not held."""
        self.release()
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, *, there: bool = True, back: bool = True) -> None:
        """Carry nothing more to the server, from it, or both, until `release`."""
        for way, is_held in ((self.there, there), (self.back, back)):
            if is_held:
                way.clear()

    def release(self) -> None:
        """Carry what was held, and all that comes."""
        self.there.set()
        self.back.set()

    def close(self) -> None:
        """Break all connections, and take no more."""
        _break(self._listener)
        for pair in self._pairs:
            pair.end()
        self.release()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._join(self._listener.accept()[0])

    def _join(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            _break(client)
            return
        pair = _Pair(self, client, server)
        self._pairs.append(pair)
        for carry in (pair.carry_there, pair.carry_back):
            threading.Thread(target=carry, daemon=True).start()


class _Pair:
    """A connection from a client, and ours to the server."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._is_swallowed = False
        self._answered = threading.Event()

    def carry_there(self) -> None:
        """What the client sends, until the cut."""
        with suppress(OSError):
            while data := self._client.recv(_CHUNK):
                self._proxy.there.wait()
                cut, self._proxy.cut = self._proxy.cut, None
                if cut is Cut.BEFORE_SENT:
                    break
                self._is_swallowed = cut is not None
                self._server.sendall(data)
                if cut is Cut.BEFORE_REPLY:
                    self._answered.wait(30)
                if cut is not None:
                    break
        self.end()

    def carry_back(self) -> None:
        """What the server answers, but for what is cut off."""
        with suppress(OSError):
            while data := self._server.recv(_CHUNK):
                self._proxy.back.wait()
                if self._is_swallowed:
                    self._answered.set()
                else:
                    self._client.sendall(self._proxy.change_reply(data))
        self.end()

    def end(self) -> None:
        """Break both."""
        _break(self._client)
        _break(self._server)


def _break(it: socket.socket) -> None:
    with suppress(OSError):
        it.shutdown(socket.SHUT_RDWR)
    it.close()
