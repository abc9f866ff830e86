"""
A worker of the demonstration's second act: takes orders off the queue, tells what it does, can die.

It writes a line of JSON for each order, when it gets it and when it has done it, with the machine's
monotonic clock. An order that is poison kills it at once, as a crash in a library would, unless it
is `--mended`.

Run by demo.py: worker.py URI QUEUE [--mended]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time

from holdfast.client import connect

PREFETCH = 20
POISON = b"poison"
SECONDS_PER_ORDER = 0.002


def tell(what: str, **facts: object) -> None:
    """Write a line that stays written whatever happens to this process next."""
    line = json.dumps({"what": what, "at": time.monotonic(), **facts})
    os.write(sys.stdout.fileno(), line.encode() + b"\n")


async def work(uri: str, queue: str, is_mended: bool) -> None:
    """Take orders for as long as the process lives."""
    async with (
        connect(uri) as connection,
        connection.subscribe(queue, prefetch=PREFETCH) as subscription,
    ):
        tell("ready")
        async for message in subscription:
            order = {
                "group": message.headers.get("JMSXGroupID", ""),
                "body": message.body.decode(),
                "id": message.id,
                "redelivered": message.redelivered,
            }
            tell("got", **order)
            if message.body == POISON and not is_mended:
                os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.sleep(SECONDS_PER_ORDER)
            tell("done", **order)
            await message.acknowledge()


def main() -> None:
    """Read the command line and work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("uri")
    parser.add_argument("queue")
    parser.add_argument("--mended", action="store_true", help="poison is an order as any other")
    arguments = parser.parse_args()
    asyncio.run(work(arguments.uri, arguments.queue, arguments.mended))


if __name__ == "__main__":
    main()
