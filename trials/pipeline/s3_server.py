"""
An S3 server in a process of its own, for tests: moto's, with faults before it.

    with S3Server() as server:
        place = Place("s3a://backup/x", server.options)

`python -m trials.pipeline.s3_server PORT N ROW` serves. Where N is not 0 every Nth request, and
what comes next to ROW in all, is answered with 503 SlowDown, or has its connection closed without
an answer, in turns.
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from holdfast.testing.free_ports import free_ports

START_SECONDS: Final = 60.0
BUCKET: Final = "backup"
_SLOW_DOWN: Final = b"<Error><Code>SlowDown</Code><Message>later</Message></Error>"


class S3Server:
    """The process, on loopback; use as a context manager. It has the bucket `backup`."""

    def __init__(self, faults_every: int = 0, *, in_a_row: int = 1) -> None:
        (self.port,) = free_ports(1)
        self._faults = (str(faults_every), str(in_a_row))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def options(self) -> dict[str, str]:
        """How to reach it, under Hadoop's names."""
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": "a-key",
            "fs.s3a.secret.key": "a-secret",
        }

    def __enter__(self) -> Self:
        """Start it and make the bucket."""
        command = [sys.executable, "-m", "trials.pipeline.s3_server"]
        self._process = subprocess.Popen(  # noqa: S603 - ours
            [*command, str(self.port), *self._faults], stderr=subprocess.DEVNULL
        )
        try:
            self._wait_listening()
            self._make_bucket()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait_listening(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                raise RuntimeError("the S3 server has ended at once; is moto installed?")
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise TimeoutError("the S3 server does not listen")

    def _make_bucket(self) -> None:
        from pyarrow import fs  # noqa: PLC0415 - of an extra

        system = fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            region="us-east-1",
            access_key="a-key",
            secret_key="a-secret",  # noqa: S106 - of nobody
            allow_bucket_creation=True,
        )
        system.create_dir(BUCKET)

    def __exit__(self, *_: object) -> None:
        """End it; what it held is gone."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait()


class _Faulty:
    """Answers some requests as a store does that has too much to do."""

    def __init__(self, application: Callable[..., Iterable[bytes]], every: int, row: int) -> None:
        self._application = application
        self._every = every
        self._row = row
        self._requests = itertools.count(1)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        number = next(self._requests)
        if not self._every or number < self._every or number % self._every >= self._row:
            return self._application(environ, start)
        if (number // self._every + number % self._every) % 2:
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [_SLOW_DOWN]
        # Werkzeug's development server says which connection this is.
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        start("500 Gone", [])
        return []


def _serve(port: int, faults_every: int, in_a_row: int) -> None:
    from moto.server import (  # noqa: PLC0415 - only for tests
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import run_simple  # noqa: PLC0415 - comes with moto

    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", port, _Faulty(application, faults_every, in_a_row), threaded=True)


if __name__ == "__main__":
    _serve(*(int(each) for each in sys.argv[1:4]))
