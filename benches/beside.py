"""
Somebody who goes on working while a crowd comes: how long he waits tells what the crowd costs.

He is a process of his own: beside the crowd, in the same interpreter, he would wait for that.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from trials.clients.stomp_socket import StompSocket


def _publish(port: int, login: dict[str, str], told: Connection) -> None:
    waited: list[float] = []
    with StompSocket(port, timeout_seconds=60) as there:
        there.connect(**login)
        told.send(None)
        while not told.poll():
            began = time.monotonic()
            there.publish("/queue/asked", b"x")
            waited.append(time.monotonic() - began)
    told.send(waited)


@contextmanager
def publishing(port: int, **login: str) -> Iterator[list[float]]:
    """Publish one message after the other meanwhile; at its end gives the seconds each waited."""
    waited: list[float] = []
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=_publish, args=(port, login, theirs), daemon=True)
    worker.start()
    theirs.close()
    ours.recv()  # It is connected.
    try:
        yield waited
    finally:
        ours.send(None)
        waited += ours.recv()
        worker.join()
