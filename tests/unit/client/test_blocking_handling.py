"""Handlers in threads: bounded, settled one by one, and nothing left running."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading

import pytest
from alarms import interrupted_everywhere
from threaded_broker import Threaded, within

from holdfast.client import blocking
from holdfast.client.blocking_handling import consume_blocking
from holdfast.errors import ConfigError, LinkLostError

QUEUE = "/queue/a"


class Paper:
    """A message that notes how it is settled."""

    is_in_transaction = False

    def __init__(self) -> None:
        self.told = ""

    @property
    def is_settled(self) -> bool:
        return bool(self.told)

    def acknowledge(self, *, confirm: bool = False) -> None:
        self.told = "acknowledged"

    def reject(self, *, confirm: bool = False) -> None:
        self.told = "rejected"


def put(threaded: Threaded, *texts: str) -> None:
    for text in texts:
        threaded.broker.store.put(QUEUE, {"persistent": "true"}, text.encode())


def test_handlers_run_side_by_side_and_settle_their_own(threaded: Threaded, caplog) -> None:
    """No more than told at once; a failure is logged and rejected, the others go on."""
    put(threaded, *"123456")
    together = threading.Barrier(3, timeout=10)
    running, peaks, lock = [], [], threading.Lock()
    with (
        caplog.at_level(logging.ERROR, "holdfast.client"),
        blocking.connect(threaded.broker.uri) as connection,
        connection.subscribe(QUEUE, prefetch=10) as subscription,
    ):

        def handle(message: blocking.BlockingMessage) -> None:
            with lock:
                running.append(message.text)
                peaks.append(len(running))
            together.wait()
            with lock:
                running.remove(message.text)
                done.append(message.text)
            if message.text == "4":
                raise ValueError("mine")

        done: list[str] = []
        store = threaded.broker.store
        consuming = threading.Thread(target=_consume, args=(subscription, handle))
        consuming.start()
        threaded.saw(lambda: len(store.settled) + len(store.rejected) == 6)
        connection.close()
        consuming.join(10)
        assert not consuming.is_alive()
    assert sorted(done) == list("123456")
    assert max(peaks) == 3
    assert len(store.rejected) == 1
    assert "ValueError: mine" in caplog.text


def _consume(subscription, handle) -> None:
    with contextlib.suppress(LinkLostError):
        subscription.consume(handle, concurrency=3)


def test_what_cannot_be_kept_is_refused(threaded: Threaded) -> None:
    """As with the asynchronous face."""
    with (
        blocking.connect(threaded.broker.uri) as connection,
        connection.subscribe(QUEUE, acknowledge="auto") as subscription,
        pytest.raises(ConfigError, match="not 'auto'"),
    ):
        subscription.consume(print)


def test_an_error_in_the_callers_thread_lets_handlers_end_first() -> None:
    """A signal handler that raises while messages are awaited ends it, not the handlers' work."""
    began, may_end = threading.Event(), threading.Event()
    ended = []

    def messages():
        yield Paper()
        began.wait(10)
        may_end.set()
        raise KeyboardInterrupt

    def handle(message) -> None:
        began.set()
        may_end.wait(10)
        ended.append(message)

    with pytest.raises(KeyboardInterrupt):
        consume_blocking(messages(), handle, 2, print)
    assert len(ended) == 1


def test_a_handler_that_wants_to_exit_has_failed(caplog) -> None:
    """In a thread `sys.exit` ends nothing: a message never settled would stall it in silence."""
    papers = [Paper(), Paper()]

    with caplog.at_level(logging.ERROR, "holdfast.client"):
        consume_blocking(
            papers, lambda paper: sys.exit(1) if paper is papers[0] else None, 1, print
        )

    assert [paper.told for paper in papers] == ["rejected", "acknowledged"]
    assert "its handler wanted to exit" in caplog.text


def test_an_interruption_at_any_step_keeps_no_handler_from_ending_and_no_message() -> None:
    """
    A condition of Python's was left taken by it: the handlers waited for that one, and the program
    for them. And what was just taken from the source was nobody's until the connection ended.
    """
    papers: list[Paper] = []
    given_back: list[Paper] = []

    class Source:
        """Three messages, as `BlockingSubscription` gives them: to be interrupted before, only."""

        def __init__(self) -> None:
            self.left = iter([Paper(), Paper(), Paper()])

        def __iter__(self) -> Source:
            return self

        def __next__(self) -> Paper:
            paper = next(self.left)
            papers.append(paper)
            return paper

    def consumed() -> None:
        consume_blocking(Source(), lambda paper: None, 2, given_back.append)

    def whole() -> None:
        assert all((paper in given_back) != (paper.told == "acknowledged") for paper in papers)
        papers.clear()

    steps = within(
        lambda: interrupted_everywhere(
            consumed, whole, (Source.__next__.__code__, Source.__iter__.__code__)
        )
    )
    assert steps > 20
    assert given_back, "no step lies between the source and the handlers"
