"""
Many who ask a node at once for all segments of a log of ten terabytes.

The endpoint and the port are the product's; the segments are made up, and those who ask are in a
process of their own. Measured are the answers, and how long a core has worked for the longest turns
of the loop meanwhile: what a node's clients and peers wait for.

    .venv/bin/python benches/positions.py --askers 50 --segments 160000
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import threading
import time
from array import array
from http.client import HTTPConnection, HTTPException

import uvloop
from starlette.applications import Starlette
from starlette.routing import Route

from holdfast.admin.http_server import AdminServer
from holdfast.admin.log_api import LogInterface
from holdfast.admin.status import LogPosition
from holdfast.spark.log.client import PAUSE_SECONDS, TIMEOUT_SECONDS


class MadeUp:
    """What the endpoint asks of a node."""

    def __init__(self, segments: int) -> None:
        self.asked = 0
        self._bases = array("Q", range(1, segments * 1000, 1000))

    def log_position(
        self, _from_index: int = 0, _bytes_max: int = 0, *, with_bases: bool = True
    ) -> LogPosition:
        """Give a position; with all segments, if they are wanted."""
        self.asked += with_bases
        return LogPosition(name="a", role="leader", bases=self._bases if with_bases else ())


def ask(port: int, askers: int, seconds: float) -> None:
    """Ask from so many threads, each again and again; writes what became of it."""
    answered: list[float] = []
    gave_up: list[float] = []
    end = time.monotonic() + seconds

    def one() -> None:
        while (began := time.monotonic()) < end:
            link = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
            try:
                link.request("GET", "/log/position")
                link.getresponse().read()
                answered.append(time.monotonic() - began)
            except (OSError, HTTPException):
                gave_up.append(time.monotonic() - began)
            finally:
                link.close()
            time.sleep(PAUSE_SECONDS)

    threads = [threading.Thread(target=one) for _ in range(askers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    middle = statistics.median(answered) if answered else 0.0
    longest = max(answered, default=0.0)
    sys.stdout.write(
        f"{len(answered)} answered (median {middle:.2f} s, longest {longest:.2f} s),"
        f" {len(gave_up)} gave up"
    )


async def serve(askers: int, segments: int, seconds: float) -> str:
    """Serve those who ask, and give a line of figures."""
    made_up = MadeUp(segments)
    interface = LogInterface(made_up)  # type: ignore[arg-type]
    application = Starlette(routes=[Route("/log/position", interface.position)])
    server = AdminServer(application, host="127.0.0.1", port=0)
    await server.start()
    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--askers", str(askers), "--seconds", str(seconds)),
        *("--port", str(server.bound[1])),
        stdout=asyncio.subprocess.PIPE,
    )
    said = asyncio.create_task(asking.communicate())
    turns: list[float] = []
    while not said.done():
        began = time.thread_time()
        await asyncio.sleep(0.001)
        turns.append(time.thread_time() - began)
    turns.sort()
    await server.stop()
    return (
        f"{askers} askers, {segments:,} segments: {said.result()[0].decode()}; listed"
        f" {made_up.asked} times; work in a turn: p99 {turns[len(turns) * 99 // 100] * 1e3:.1f} ms,"
        f" longest {turns[-1] * 1e3:.1f} ms\n"
    )


def main() -> None:
    """Read the arguments and run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else None)
    parser.add_argument("--askers", type=int, default=50)
    parser.add_argument("--segments", type=int, default=160_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.port:
        ask(given.port, given.askers, given.seconds)
    else:
        sys.stdout.write(uvloop.run(serve(given.askers, given.segments, given.seconds)))


if __name__ == "__main__":
    main()
