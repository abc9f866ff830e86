"""
Somebody who goes on working while a crowd comes: how long he waits tells what the crowd costs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from trials.clients.stomp_socket import StompSocket


@contextmanager
def publishing(port: int, **login: str) -> Iterator[list[float]]:
    """Publish one message after the other meanwhile; gives the seconds that each has waited."""
    waited: list[float] = []
    is_over = threading.Event()

    def publish() -> None:
        with StompSocket(port, timeout_seconds=60) as there:
            there.connect(**login)
            while not is_over.is_set():
                began = time.monotonic()
                there.publish("/queue/asked", b"x")
                waited.append(time.monotonic() - began)

    worker = threading.Thread(target=publish)
    worker.start()
    try:
        yield waited
    finally:
        is_over.set()
        worker.join()
