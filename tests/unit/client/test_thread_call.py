"""
A coroutine on another thread: its result, its error, its end before its time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast.client.thread_call import ThreadCall
from holdfast.errors import LinkLostError, RefusedError


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


def done_there(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    """Have a function called over there, and wait for it."""
    called = threading.Event()
    loop.call_soon_threadsafe(function)
    loop.call_soon_threadsafe(called.set)
    assert called.wait(10)


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def refuse() -> None:
    raise RefusedError("no")


def test_the_outcome_is_the_coroutines(loop: asyncio.AbstractEventLoop) -> None:
    """Its result, or what it raises."""
    call = ThreadCall(loop, answer(7))
    loop.call_soon_threadsafe(call.begin)
    assert call.outcome() == 7
    failing = ThreadCall(loop, refuse())
    loop.call_soon_threadsafe(failing.begin)
    with pytest.raises(RefusedError):
        failing.outcome()


def test_who_gives_up_ends_it(loop: asyncio.AbstractEventLoop) -> None:
    """Whether it has begun or not; one that has ended is left alone."""
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    begun = ThreadCall(loop, wait())
    done_there(loop, begun.begin)
    done_there(loop, begun.give_up)
    with pytest.raises(LinkLostError):
        begun.outcome()
    assert ended == [True]
    begun.give_up()
    never = wait()
    ThreadCall(loop, never).give_up()
    with pytest.raises(RuntimeError, match="already awaited"):
        never.send(None)
