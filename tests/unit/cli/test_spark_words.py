"""
What another program writes to our standard error: kept from it, and the end of it known.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from holdfast.cli.spark_words import KEPT_BYTES, LINES_TOLD, SparkWords

WRITES = "import sys; sys.stderr.write(sys.argv[1]); sys.stderr.flush(); sys.stdin.read()"


def start(text: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITES, text], stdin=subprocess.PIPE)


def heard(words: SparkWords, text: str) -> bool:
    """Look until it is there; whoever waits for what never comes is ended by the test's limit."""
    while not any(text in line for line in words.last()):
        os.sched_yield()
    return True


def test_what_it_writes_is_kept_and_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """
    Also what it writes later, when standard error is ours again.
    """
    words = SparkWords()
    with words.heard():
        process = start("WARN of the start\n")
    os.write(2, b"ours\n")
    assert heard(words, "WARN of the start")
    process.communicate(b"")
    assert capfd.readouterr().err == "ours\n"


def test_the_end_is_kept_and_no_more() -> None:
    """
    A daemon may run for a year.
    """
    words = SparkWords()
    with words.heard():
        for number in range(3 * KEPT_BYTES // 1024):
            os.write(2, b"%04d%s\n" % (number, b"x" * 1019))
        os.write(2, b"the end\n")
    assert heard(words, "the end")
    assert len(words.last()) == LINES_TOLD
    assert len(words._kept) == KEPT_BYTES


def test_where_spark_runs_already_nothing_is_kept(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Under spark-submit Java has started us.
    """
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    words = SparkWords()
    with words.heard():
        os.write(2, b"shown\n")
    assert capfd.readouterr().err == "shown\n"
    assert words.last() == []
