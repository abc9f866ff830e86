"""
What a fault that Spark tells of means: one sentence, of the kind that decides whether to wait.

Spark hands on what happened in a worker as text, within two tracebacks of other people's code. What
one of our own errors said there is found again. So is what happened to Spark's own processes: an
executor or a Python worker that was killed, and a Python that does not start.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast import errors
from holdfast.errors import (
    HoldfastError,
    LinkError,
    LinkLostError,
    NoWorkerError,
    StoreError,
    UnreadableArchiveError,
    WorkerLostError,
)

_OWN_ERROR: Final = re.compile(r"holdfast\.errors\.(\w+): ([^\n]+)")
_OF_A_STORE: Final = re.compile(r"(?:^|\n)(?:OSError|FileNotFoundError|PermissionError): ([^\n]+)")
"""What pyarrow raises in a worker when an object store or a disk does not do what it should."""
_EXECUTOR_LOST: Final = re.compile(
    r"failed (\d+) times, most recent failure: Lost task [^\n]*? \((\S+) executor (\S+)\):"
    r" ExecutorLostFailure \([^)]*\)(?: Reason: ([^\n]+))?"
)
"""What Spark says when it gives a task up because each executor that had it is gone."""
_WORKER_LOST: Final = re.compile(
    r"Python worker exited unexpectedly \(crashed\)"
    r"|Python worker failed to connect back"
    r"|waiting for the Python worker to connect back"
    r"|Python daemon failed to launch worker"
    r"|Failed to open socket to Python daemon"
    r"|(?:java\.(?:net|io)\.\w+: (?:Broken pipe|Connection reset)[^\n]*"
    r"|java\.io\.EOFException[^\n]*)\n"
    r"(?:\tat (?:java|jdk|sun)\.[^\n]*\n)*\tat org\.apache\.spark\.(?:api|sql\.execution)\.python\."
)
"""How Spark notices that a Python worker, or the daemon that forks them, is gone."""
_NO_DAEMON: Final = re.compile(
    r"(EOFException occurred while reading the port number from [^\n]*?)\.*\n"
    r"|(Bad data in pyspark\.daemon's standard output)"
    r"|java\.io\.IOException: (Cannot run program [^\n]*)"
)
_DAEMON_SAID: Final = re.compile(r"Error from python worker:\n((?:  [^\n]*\n)+)")
_NO_ROOM: Final = re.compile(
    r"java\.io\.IOException: (No space left on device|Disk quota exceeded)"
)
"""What Java says where Spark keeps what it shuffles and what memory does not hold."""
_LOST_ON: Final = re.compile(r"Lost task [^\n]*? \((\S+) executor (\S+)\)")
_TRIED: Final = re.compile(r"failed (\d+) times, most recent failure")


def own_error(text: str) -> HoldfastError | OSError | None:
    """
    Give the last of our own errors in a traceback of a worker, or what a store answered there.

    A link that failed is told from the rest: who goes on for ever waits for it. So it is with
    processes of Spark's that are gone. None if the fault is nothing of this.
    """
    found = _OWN_ERROR.findall(text)
    if not found:
        return _of_spark(text) or _of_a_store(text)
    name, sentence = found[-1]
    kind = getattr(errors, name, StoreError)
    if issubclass(kind, UnreadableArchiveError):
        return OSError(sentence.strip())
    return (LinkLostError if issubclass(kind, LinkError) else StoreError)(sentence.strip())


def _of_a_store(text: str) -> OSError | None:
    answered = _OF_A_STORE.findall(text)
    return OSError(answered[-1].strip()) if answered else None


def _of_spark(text: str) -> WorkerLostError | None:
    """Say which of Spark's processes died, and what to do about it."""
    if refused := _NO_ROOM.search(text):
        at = _LOST_ON.search(text)
        return no_spark_room(refused[1], f"on {at[1]}" if at else "on the driver's machine")
    if lost := _EXECUTOR_LOST.search(text):
        return _executor_lost(*lost.groups(default="it is gone"))
    tried = _TRIED.search(text)
    count = f", and the same work was tried {tried[1]} times" if tried and tried[1] != "1" else ""
    if no_daemon := _NO_DAEMON.search(text):
        said = _DAEMON_SAID.search(text)
        words = said[1].splitlines() if said else list(filter(None, no_daemon.groups()))
        return NoWorkerError(
            f"Spark cannot start its Python workers ({words[-1].strip()}){count}: the"
            f" Python that they run, PYSPARK_PYTHON or spark.pyspark.python, must be there and"
            f" have the packages of holdfast[spark]"
        )
    if _WORKER_LOST.search(text) is None:
        return None
    return WorkerLostError(
        f"a Python worker of Spark's died at its work (killed from outside, often for want of"
        f" memory){count}: run the command again, with fewer at once (--master 'local[1,4]') if"
        f" memory was short"
    )


def no_spark_room(reason: str, where: str) -> WorkerLostError:
    """Say that a disk has no room for what Spark itself keeps there while it works."""
    return WorkerLostError(
        f"Spark found no room {where} for files of its own ({reason[0].lower()}{reason[1:]}): it"
        f" keeps them in spark.local.dir, by default /tmp. Make room there, or name another folder"
        f" with --conf spark.local.dir=DIR, and run the command again"
    )


def _executor_lost(count: str, host: str, name: str, reason: str) -> WorkerLostError:
    return WorkerLostError(
        f"Spark's executor {name} on {host} died at its work ({reason.strip().rstrip('.')}), and"
        f" the same work was tried {count} times: what these executors wrote says why, often too"
        f" little memory (--conf spark.executor.memory=...)"
    )
