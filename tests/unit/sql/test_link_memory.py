"""What a database that is away costs: nothing of an attempt stays, without the collector."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pymysql
import pytest

from holdfast.environment.kept_errors import without_frames
from holdfast.errors import UnreachableError
from holdfast.sql.link import Link
from holdfast.sql.mariadb import MariadbSession
from holdfast.sql.postgresql import PostgresqlSession
from holdfast.sql.url import parse_store_url


@pytest.fixture
def port() -> Iterator[int]:
    """Whoever listens there closes each connection at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("scheme", "session", "driver"),
    [
        ("mysql", MariadbSession, pymysql.connections.Connection),
        ("postgresql", PostgresqlSession, psycopg.pq.PGconn),
    ],
)
def test_nothing_of_an_attempt_stays(port: int, scheme: str, session: type, driver: type) -> None:
    """Neither a connection that was half made, nor the frames that had it."""
    text = f"{scheme}://app:x@127.0.0.1:{port}/h"
    url = parse_store_url(text, own_directory=Path("own"), environment={})
    link = Link(url, session, session.connect, greet=lambda _: None, clock=time.monotonic)
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(it, driver) for it in gc.get_objects())
        for _ in range(5):
            with pytest.raises(UnreachableError) as refused:
                link.run(2, lambda it: it.rows("SELECT 1"))
            without_frames(refused.value)
            del refused
        assert sum(isinstance(it, driver) for it in gc.get_objects()) == before
    finally:
        gc.enable()
