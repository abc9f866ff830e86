"""What Spark's faults are told as, with Spark's own words for each."""

from __future__ import annotations

import errno

import pytest

from holdfast.cli.spark_faults import own_error
from holdfast.cli.spark_options import told_plainly
from holdfast.errors import LinkError, NoWorkerError, StoreError, WorkerLostError

TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "x.py", line 1, in y
holdfast.errors.CorruptEntryError: the body checksum is wrong at segment 1 byte 4,096 (entry 7)

\tat org.apache.spark.api.python (Worker.scala:1)
"""


def test_a_workers_fault_is_one_sentence() -> None:
    """
    Of two tracebacks of other people's code the sentence that was meant is left.
    """
    assert str(own_error(TRACE)).startswith("the body checksum is wrong at segment 1")
    with pytest.raises(StoreError, match=r"^the body checksum"), told_plainly():
        raise RuntimeError(TRACE)


def test_what_can_be_waited_for_is_told_from_the_rest() -> None:
    """
    A link that failed in a task, and an error of a store there, are what they are here.
    """
    lost = TRACE.replace("CorruptEntryError", "FailoverExhaustedError")
    with pytest.raises(LinkError, match=r"^the body"), told_plainly():
        raise RuntimeError(lost)
    with pytest.raises(OSError, match=r"^AWS Error SLOW_DOWN$"), told_plainly():
        raise RuntimeError("Traceback\nOSError: AWS Error SLOW_DOWN\n\tat org.apache")
    unread = TRACE.replace("CorruptEntryError", "UnreadableArchiveError")
    with pytest.raises(OSError, match=r"^the body"), told_plainly():
        raise RuntimeError(unread)
    assert own_error("Traceback\nKeyError: 'x'\n") is None


def test_a_full_disk_of_sparks_own_is_one_sentence() -> None:
    """
    It names the machine, by Spark's own words, and what to set; who goes on for ever waits for it.
    """
    words = (
        "An error occurred while calling o69.collect.\n: org.apache.spark.SparkException: Job"
        " aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure:"
        " Lost task 0.0 in stage 3.0 (TID 9) (10.0.0.7 executor driver): java.io.IOException: No"
        " space left on device\n\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n"
    )
    said = r"^Spark found no room on 10.0.0.7 for files of its own \(no space left on device\)"
    with pytest.raises(WorkerLostError, match=said), told_plainly():
        raise RuntimeError(words)
    assert "--conf spark.local.dir" in str(own_error(words))
    assert "on the driver's" in str(own_error("java.io.IOException: No space left on device\n"))
    with pytest.raises(WorkerLostError, match="no room on the driver's machine"), told_plainly():
        raise OSError(errno.ENOSPC, "Nothing")
    with pytest.raises(OSError, match="'/mine'"), told_plainly():
        raise OSError(errno.ENOSPC, "Nothing", "/mine")


def test_an_executor_that_dies_again_and_again_is_one_sentence() -> None:
    """
    Spark's own words for it, as of a standalone cluster; who goes on for ever tries it again.
    """
    words = (
        "An error occurred while calling o69.collect.\n: org.apache.spark.SparkException: Job"
        " aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure:"
        " Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 5): ExecutorLostFailure (executor"
        " 5 exited caused by one of the running tasks) Reason: Command exited with code 137\n"
        "Driver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler\n"
    )
    with pytest.raises(LinkError, match=r"^Spark's executor 5 on 10.0.0.7 died .* code 137\)"):
        with told_plainly():
            raise RuntimeError(words)
    bare = words.replace(" Reason: Command exited with code 137", "")
    assert "tried 4 times" in str(own_error(bare))


ABORTED = (
    "An error occurred while calling o67.collect.\n: org.apache.spark.SparkException: Job aborted"
    " due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3"
    " in stage 0.0 (TID 3) (10.0.0.7 executor driver): "
)
CRASHED = (
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting"
    " 'spark.python.worker.faulthandler.enabled' configuration to 'true'.\n\tat org.apache"
)
CANNOT_CONNECT = (
    "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back"
    " after 10000 ms\n"
)
IN_SPARK = (
    "\n\tat java.base/x.y(Z.java:1)\n\tat org.apache.spark.api.python.BasePythonRunner.read(P)\n"
)


@pytest.mark.parametrize(
    "fault",
    [
        CRASHED,
        "org.apache.spark.SparkException: Python worker failed to connect back.\n",
        CANNOT_CONNECT,
        "java.io.IOException: Python daemon failed to launch worker with code -1\n",
        "java.net.SocketException: Broken pipe" + IN_SPARK,
        "java.io.IOException: Connection reset by peer" + IN_SPARK,
        "java.io.EOFException" + IN_SPARK,
    ],
)
def test_a_python_worker_that_died_is_one_sentence_with_what_to_do(fault: str) -> None:
    """As Spark tells of a worker that was killed, at each place where it may notice it first."""
    with pytest.raises(WorkerLostError, match=r"^a Python worker .* tried 4 times.*--master"):
        with told_plainly():
            raise RuntimeError(ABORTED + fault)


def test_a_python_worker_that_died_on_the_driver_is_told_without_a_count() -> None:
    """What plans a read has a worker of its own, and Spark tries that once."""
    told = str(own_error(f"An error occurred while calling o56.collectToPython.\n: {CRASHED}"))
    assert told.startswith("a Python worker of Spark's died at its work")
    assert "tried" not in told


DAEMON_SAID = """org.apache.spark.SparkException:
Error from python worker:
  python3: Error while finding module specification: ModuleNotFoundError: No module named 'pyspark'
PYTHONPATH was:
  /x
org.apache.spark.SparkException: EOFException occurred while reading the port number from \
pyspark.daemon's stdout.
"""
NO_PORT = (
    "org.apache.spark.SparkException: EOFException occurred while reading the port number from"
    " pyspark.daemon's stdout and terminated with code: 1..\n"
)
NO_PYTHON = 'java.io.IOException: Cannot run program "/no/python": error=2, No such file\n'
BAD_PORT = (
    "org.apache.spark.SparkException: \nBad data in pyspark.daemon's standard output. Invalid port"
    " number:\n  1951612\n"
)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (NO_PORT, "EOFException occurred while reading the port number"),
        (NO_PYTHON, "/no/python"),
        (BAD_PORT, "Bad data in pyspark.daemon's standard output"),
        (DAEMON_SAID, "No module named 'pyspark'"),
    ],
)
def test_what_no_worker_can_be_started_from_is_said(fault: str, said: str) -> None:
    """The daemon that forks them did not start: what it said, and which Python to look at."""
    with pytest.raises(NoWorkerError, match=r"cannot start its Python workers .*PYSPARK_PYTHON"):
        with told_plainly():
            raise RuntimeError(ABORTED + fault)
    assert said in str(own_error(ABORTED + fault))


def test_a_socket_elsewhere_is_no_workers() -> None:
    """Of Spark's many connections only those to its Python workers are told so."""
    elsewhere = "java.net.SocketException: Broken pipe\n\tat org.apache.x\n"
    assert own_error(ABORTED + elsewhere) is None
