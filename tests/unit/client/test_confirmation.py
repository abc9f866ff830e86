"""
Confirmations: futures of concurrent.futures on which the loop's thread never has to wait.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Iterator

import pytest
from alarms import interrupted_everywhere
from threaded_broker import Threaded, within

from holdfast.client import blocking, confirmation
from holdfast.client.confirmation import BlockingConfirmation
from holdfast.client.loop_thread import LoopThread
from holdfast.errors import RefusedError

QUEUE = "/queue/a"


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    running = LoopThread()
    yield running
    running.stop()


def test_a_send_interrupted_anywhere_stops_nobody(threaded: Threaded) -> None:
    """
    A signal handler raises at any step of `send`, also where it waits for room: the loop's thread
    goes on, no place in the window is lost, and what was handed over is stored.
    """
    with blocking.connect(threaded.broker.uri) as connection:
        producer = connection.producer(QUEUE, window=1)

        def alive() -> None:
            within(lambda: connection.send("/queue/alive", b"."))

        def sent() -> None:
            producer.send(b"x")
            producer.send(b"y")

        assert interrupted_everywhere(sent, alive) > 20
        within(lambda: producer.send(b"end").result())
    assert threaded.broker.store.bodies(QUEUE)[-1] == b"end"


def test_what_was_handed_over_by_an_interrupted_send_is_stored_by_close(threaded: Threaded) -> None:
    """Nobody has told the loop's thread of it: closing looks for itself."""
    connection = blocking.connect(threaded.broker.uri)
    producer = connection.producer(QUEUE)
    producer._handed.append((b"1", b"", None, True, BlockingConfirmation(connection._thread)))
    assert producer.is_left_lying
    within(connection.close)
    assert threaded.broker.store.bodies(QUEUE) == [b"1"]


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("ask", ["result", "exception", "add_done_callback"])
def test_a_wait_interrupted_anywhere_stops_nobody(
    thread: LoopThread, ask: str, *, is_done: bool
) -> None:
    """In `result`, in `exception`, with a callback: the outcome can be told all the same."""
    argument = str if ask == "add_done_callback" else 0.001
    future = BlockingConfirmation(thread)

    def renew() -> None:
        nonlocal future
        if not is_done:
            within(lambda: future.set_result(None))
        future = BlockingConfirmation(thread)
        if is_done:
            future.set_result(None)

    def asked() -> None:
        with contextlib.suppress(TimeoutError):
            getattr(future, ask)(argument)

    renew()
    assert interrupted_everywhere(asked, renew) > 1


def test_it_is_a_future_for_those_who_take_futures(thread: LoopThread) -> None:
    """`wait` and `as_completed` wait for it, done before, meanwhile or not at all."""
    first, second, third = (BlockingConfirmation(thread) for _ in range(3))
    first.set_result(None)
    assert concurrent.futures.wait([first]).done == {first}
    threading.Timer(0.01, second.set_exception, [RefusedError("no")]).start()
    found = within(lambda: concurrent.futures.wait([first, second]))
    assert found.done == {first, second}
    assert concurrent.futures.wait([first, third], 0.001).not_done == {third}
    completed = concurrent.futures.as_completed([first, second, third])
    assert {next(completed), next(completed)} == {first, second}
    threading.Timer(0.01, third.set_result, [None]).start()
    assert within(lambda: list(completed)) == [third]
    found = concurrent.futures.wait([second], return_when=concurrent.futures.FIRST_EXCEPTION)
    assert found.done == {second}


def test_its_outcome_is_said_once_and_to_everybody(
    thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    """Callbacks are called in order, before and after; one that fails keeps nobody from it."""
    told: list[str] = []

    def fail(_: object) -> None:
        raise ZeroDivisionError

    future = BlockingConfirmation(thread)
    assert (future.running(), future.done(), future.cancel(), future.cancelled()) == (
        (True, False, False, False)
    )
    assert "pending" in repr(future)
    with pytest.raises(TimeoutError):
        future.result(0.001)
    with caplog.at_level(logging.ERROR, "holdfast.client"):
        future.add_done_callback(fail)
        future.add_done_callback(lambda _: told.append("before"))
        future.set_exception(RefusedError("no"))
        future.add_done_callback(lambda _: told.append("after"))
    assert told == ["before", "after"]
    assert "callback" in caplog.text
    assert isinstance(future.exception(), RefusedError)
    with pytest.raises(RefusedError):
        future.result()
    with pytest.raises(concurrent.futures.InvalidStateError):
        future.set_result(None)
    assert "no" in repr(future)
    assert not future.running()


def test_a_look_that_was_interrupted_is_given_up(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`concurrent.futures` left its lock taken: the outcome is told all the same."""
    monkeypatch.setattr(confirmation, "LOOK_SECONDS_MAX", 0.001)
    future = BlockingConfirmation(thread)
    future._condition.acquire()
    try:
        within(lambda: future.set_result(None))
        assert future._state == "FINISHED"
    finally:
        # Of the lock that was given up, and stays so for whoever has it.
        monkeypatch.setattr(confirmation._Look, "lock", threading.RLock())
    assert concurrent.futures.wait([future]).done == {future}
