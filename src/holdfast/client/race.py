"""
Open a socket to a name with several addresses: whichever answers first.

An address that drops packets (IPv6 without a route, a pod that has died) says nothing, so waiting
for it would use up all the time there is. As RFC 8305 has it ("happy eyeballs"): the next address
is tried beside it after a moment, families take turns, and the first to answer is used.

A name that means this machine by both families (`localhost`) is its address of IPv4 first, where
brokers listen if nobody says otherwise: at the other one any user of the machine can listen.

Invariants:
    Every socket but the one that is given is closed, in the loop's next turn at the latest.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from collections import deque
from itertools import chain, zip_longest
from typing import Any, TypeAlias

from holdfast.model.networks import is_loopback

NEXT_SECONDS = 0.25
"""RFC 8305, 5: "Connection Attempt Delay ... recommended value ... is 250 milliseconds"."""

SocketAddress: TypeAlias = "tuple[socket.AddressFamily, tuple[Any, ...]]"


async def open_socket(host: str, port: int, *, is_one_loopback: bool = False) -> socket.socket:
    """
    Connect to the first address of a name that answers. Cancelling gives up; nothing limits the
    time here.

    Args:
        is_one_loopback: Of a name with addresses of this machine only in both families, leave those
            of IPv6 alone: who listens there is told nothing.

    Raises:
        OSError: The name has no address, or none of them can be reached.
        ValueError: This can be no name (as a UnicodeError: a label is empty or too long).
    """
    found = brokers_first(await addresses_of(host, port), is_one_loopback=is_one_loopback)
    untried = deque(in_turns(found))
    running: set[asyncio.Task[socket.socket]] = set()
    problems: list[str] = []
    try:
        while untried or running:
            if untried:
                running.add(asyncio.ensure_future(connect_one(*untried.popleft())))
            done, _ = await asyncio.wait(
                running,
                timeout=NEXT_SECONDS if untried else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                running.discard(attempt)
                if isinstance(error := attempt.exception(), OSError):
                    problems.append(str(error))
                    continue
                return attempt.result()
    finally:
        for attempt in running:
            _give_up(attempt)
    raise OSError("; ".join(dict.fromkeys(problems)) or f"{host} has no address")


async def addresses_of(host: str, port: int) -> list[SocketAddress]:
    """
    The addresses of a name, as the system orders them.

    Asked in a thread of Python's: with threads of libuv's own, which uvloop uses for this, a forked
    child dies when it exits; an executor takes nothing more when the program ends.
    """
    with contextlib.suppress(socket.gaierror):
        # A literal needs no asking.
        return _found(host, port, socket.AI_NUMERICHOST)
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[list[SocketAddress]] = loop.create_future()

    def tell(found: list[SocketAddress] | None, error: Exception | None) -> None:
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(found or [])

    def ask() -> None:
        found, problem = None, None
        try:
            found = _found(host, port, 0)
        except (OSError, ValueError) as error:
            problem = error
        with contextlib.suppress(RuntimeError):
            # The loop may have ended meanwhile.
            loop.call_soon_threadsafe(tell, found, problem)

    threading.Thread(target=ask, name="holdfast-lookup", daemon=True).start()
    return await outcome


def _found(host: str, port: int, flags: int) -> list[SocketAddress]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(socket.AddressFamily(family), address) for family, _, _, _, address in found]


def brokers_first(addresses: list[SocketAddress], *, is_one_loopback: bool) -> list[SocketAddress]:
    """
    Put this machine's own address of IPv4 before that of IPv6, or leave it alone; what has only one
    of them stays as it is.
    """
    by_ipv4, by_ipv6 = (
        [it for it in addresses if it[0] == family and is_loopback(it[1][0])]
        for family in (socket.AF_INET, socket.AF_INET6)
    )
    if not by_ipv4 or not by_ipv6:
        return addresses
    others = [it for it in addresses if it not in by_ipv4]
    if is_one_loopback:
        others = [it for it in others if it not in by_ipv6]
    return by_ipv4 + others


def in_turns(addresses: list[SocketAddress]) -> list[SocketAddress]:
    """Families alternate, beginning with that of the first: a whole family may have no route."""
    if not addresses:
        return []
    first = [item for item in addresses if item[0] == addresses[0][0]]
    others = [item for item in addresses if item[0] != addresses[0][0]]
    return [item for item in chain(*zip_longest(first, others)) if item is not None]


async def connect_one(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    """Connect to one address."""
    # The protocol is named, for asyncio sets TCP_NODELAY only where it is.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setblocking(False)
        # Not `sock_connect`: uvloop's asks libuv's threads even for literals (see `addresses_of`).
        problem = opened.connect_ex(address)
        if problem == errno.EINPROGRESS:
            await _wait_writable(opened)
            problem = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            raise OSError(problem, f"{address[0]}:{address[1]}: {os.strerror(problem)}")
    except BaseException:
        opened.close()
        raise
    return opened


async def _wait_writable(opened: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    writable = asyncio.Event()
    loop.add_writer(opened, writable.set)
    try:
        await writable.wait()
    finally:
        loop.remove_writer(opened)


def _give_up(attempt: asyncio.Task[socket.socket]) -> None:
    """Let an attempt close its socket; to wait for that would be one more wait to be cancelled."""
    attempt.cancel()
    attempt.add_done_callback(_close)


def _close(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()  # It was ready in the same moment.
