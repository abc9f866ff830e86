"""
Notices at once that the process of the lease's holder is gone.

A connection to its admin port is kept open: the kernel closes it with the process. If the port then
refuses a new one, nobody listens there any more, and the lease need not be waited for. What stands
in the lease as its address may lead to somebody else from here: a port of loopback is this
machine's own, whoever wrote it. So whoever answers is asked which process he is, and what another
one does, or an address where the holder never answered, says nothing. He is asked as well where he
is: a tunnel that leads to him by loopback closes while he lives.

Only a hint: a process that is stopped keeps its connections, a machine that is gone says nothing,
what stands between two machines may refuse for the holder's, and what a hint cannot break is the
fence of the store.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import h11

from holdfast.admin.endpoint import Endpoint
from holdfast.admin.process_mark import MARK, PLACE, mark_of, place_mark_of
from holdfast.environment.network_place import network_place
from holdfast.errors import ConfigError
from holdfast.leases.contract import Claimant
from holdfast.replication.peer_address import split_address
from holdfast.transport.client_tls import unchecked_context
from holdfast.transport.ends import is_within_machine

_CONNECT_SECONDS = 1.0
_ANSWER_SECONDS = 2.0
_ANSWER_BYTES_MAX: Final = 16 << 10
_PAUSE_SECONDS_MIN = 0.01
"""A process that dies may close its port a moment after its connections: it is asked once more."""
_PAUSE_SECONDS_MAX = 0.2
"""Between the beginnings of two connections at least, where one after the other ends or fails."""
_STRANGE_SECONDS = 2.0
"""The same where somebody else answers, or nobody, or not in a way that is known."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HolderWatch:
    """Keeps one connection to whoever holds the lease."""

    def __init__(self, on_gone: Callable[[str, bool], None]) -> None:
        """Tell through `on_gone` which holder's process is gone, and whether it was here."""
        self._on_gone = on_gone
        self._claimant: Claimant | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, claimant: Claimant | None) -> None:
        """Watch this one from now on, and nobody else; None to watch nobody."""
        if claimant == self._claimant:
            return
        self._claimant = claimant
        self.end()
        place = None if claimant is None else _place_of(claimant)
        if claimant is not None and place is not None:
            self._task = asyncio.get_running_loop().create_task(self._watch(claimant, *place))

    def end(self) -> None:
        """Watch nobody any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self, claimant: Claimant, place: tuple[str, int], is_tls: bool) -> None:
        pause = began = 0.0
        mark = mark_of(claimant.holder)
        was_there = is_here = False
        while True:
            await asyncio.sleep(max(began + pause - time.monotonic(), 0.0))
            began = time.monotonic()
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    streams = await _connect(place, is_tls)
            except ConnectionRefusedError:
                if was_there:
                    self._on_gone(claimant.holder, is_here)
            except OSError:
                pass  # No answer tells nothing: its lease is waited for.
            else:
                is_near = is_within_machine(streams[1].transport)
                told = await _stay(streams, place[0], mark)
                if told is not None:
                    was_there = told.get(MARK) == mark
                    is_here = is_near and _is_here(told, claimant)
            lasted = time.monotonic() - began
            pause = pause_after(pause, lasted) if was_there else _STRANGE_SECONDS


def _place_of(claimant: Claimant) -> tuple[tuple[str, int], bool] | None:
    """Give where its admin port is, and whether that speaks TLS; None: it does not say."""
    try:
        endpoint = Endpoint.parse(claimant.admin)
        return (split_address(endpoint.place), endpoint.files is not None)
    except (ConfigError, ValueError):
        return None


async def _connect(place: tuple[str, int], is_tls: bool) -> Streams:
    # Nothing is told him, and what he tells is a mark: which process it is, not who.
    return await asyncio.open_connection(*place, ssl=unchecked_context() if is_tls else None)


def _is_here(told: dict[str, Any], claimant: Claimant) -> bool:
    """Whether nothing stands between that process and this one."""
    mark = place_mark_of(claimant.holder, network_place())
    return bool(mark) and told.get(PLACE) == mark


async def _stay(streams: Streams, host: str, mark: str) -> dict[str, Any] | None:
    """Ask who is there, and stay while it has this mark; gives what was told, None: no answer."""
    reader, writer = streams
    told: dict[str, Any] | None = None
    try:
        with suppress(OSError, TimeoutError, ValueError, h11.ProtocolError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                told = await _told(reader, writer, host)
            if told.get(MARK) == mark:
                while await reader.read(_ANSWER_BYTES_MAX):
                    pass
    finally:
        writer.close()
    return told


async def _told(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str
) -> dict[str, Any]:
    """
    Ask `/health` which process answers; an earlier version tells no mark, others anything.

    Raises:
        ValueError: What comes is no JSON, or too long.
        h11.RemoteProtocolError: It is no HTTP.
    """
    asked = h11.Connection(h11.CLIENT, max_incomplete_event_size=_ANSWER_BYTES_MAX)
    named = f"[{host}]" if ":" in host else host
    request = h11.Request(method="GET", target="/health", headers=[("Host", named)])
    writer.write((asked.send(request) or b"") + (asked.send(h11.EndOfMessage()) or b""))
    body = bytearray()
    while True:
        event = asked.next_event()
        if event is h11.NEED_DATA:
            asked.receive_data(await reader.read(_ANSWER_BYTES_MAX))
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _ANSWER_BYTES_MAX:
                raise ValueError("an answer that long is another's")
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    try:
        told = json.loads(bytes(body))
    except RecursionError:
        raise ValueError("an answer that deep is another's") from None
    return told if isinstance(told, dict) else {}


def pause_after(pause: float, lasted_seconds: float) -> float:
    """How long after the beginning of a connection that lasted so long the next one may begin."""
    if lasted_seconds > _PAUSE_SECONDS_MAX:
        return 0.0
    return min(max(2 * pause, _PAUSE_SECONDS_MIN), _PAUSE_SECONDS_MAX)
