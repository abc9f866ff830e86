"""
What a test that was ended in the middle of a call to Java leaves to the next ones: nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


class BrokenOffError(BaseException):
    """As a timeout of pytest's ends a test."""


@pytest.fixture
def _broken_off() -> Iterator[None]:
    def end(number: int, frame: object) -> None:
        raise BrokenOffError

    before = signal.signal(signal.SIGUSR2, end)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR2))
    timer.start()
    yield
    timer.join()
    signal.signal(signal.SIGUSR2, before)


@pytest.mark.slow
@pytest.mark.usefixtures("_broken_off")
def test_a_call_that_is_broken_off_leaves_no_answer_behind(
    spark: SparkSession, forget_answers: Callable[[], None]
) -> None:
    """
    The answer of the one would be taken for that of the next: one timeout failed all tests after
    it, each in another way.
    """
    assert spark._jvm is not None
    with pytest.raises(BrokenOffError) as ended:
        spark._jvm.java.lang.Thread.sleep(2000)
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
