"""
What a test that was ended in the middle of a call to Java leaves to the next ones: nothing.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import SocketIO

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


class BrokenOffError(BaseException):
    """As a timeout of pytest's ends a test."""


def waits_for_java(thread: int) -> bool:
    """Whether a thread has asked Java for something and has no answer yet."""
    frame = sys._current_frames()[thread]
    while frame.f_back is not None:
        if frame.f_code is SocketIO.readinto.__code__:
            return True
        frame = frame.f_back
    return False


@contextmanager
def broken_off() -> Iterator[None]:
    """End the first call to Java within, once it waits."""
    thread, is_over = threading.get_ident(), threading.Event()

    def end(number: int, frame: object) -> None:
        raise BrokenOffError

    def strike() -> None:
        while not is_over.wait(0.01):
            if waits_for_java(thread):
                signal.pthread_kill(thread, signal.SIGUSR2)
                return

    before = signal.signal(signal.SIGUSR2, end)
    striker = threading.Thread(target=strike)
    striker.start()
    try:
        yield
    finally:
        is_over.set()
        striker.join()
        signal.signal(signal.SIGUSR2, before)


@pytest.mark.slow
def test_a_call_that_is_broken_off_leaves_no_answer_behind(
    spark: SparkSession, forget_answers: Callable[[], None]
) -> None:
    """
    The answer of the one would be taken for that of the next: one timeout failed all tests after
    it, each in another way.
    """
    assert spark._jvm is not None
    sleep = spark._jvm.java.lang.Thread.sleep
    with pytest.raises(BrokenOffError) as ended, broken_off():
        sleep(2000)
    forget_answers()
    assert ended.tb is not None  # A failure that is still to be told keeps the connection alive.
    assert [5, 7] == [spark._jvm.java.lang.Math.max(1, number) for number in (5, 7)]
    assert spark.range(3).count() == 3
    # Which session is the active one in the new thread of Java tells which sources are known there.
    with pytest.raises(PySparkException) as refused:
        spark.range(1).write.format("holdfast").mode("append").save()
    assert "write with df.write.format" in str(
        refused.value
    )  # It is ours that says what is missing.
