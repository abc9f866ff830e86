"""
The two brokers between which `holdfast shovel` carries, and how it is told to stop.

The first SIGTERM or SIGINT lets what is under way be done, the second one ends it at once; what was
not acknowledged then comes again.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple

from holdfast.cli.message_patience import FIRST_SECONDS_DEFAULT, Patience
from holdfast.cli.message_progress import connected, progress_shown
from holdfast.cli.output import write_error
from holdfast.cli.shovelling import WINDOW, Shovelling
from holdfast.client import Connection
from holdfast.errors import UnknownDeliveryError

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


class End(NamedTuple):
    """One of the two, and who one is there."""

    uri: str
    login: str | None
    passcode: str | None
    host: str | None = None
    """The virtual host of RabbitMQ there."""


class Ends:
    """Both."""

    def __init__(
        self, source: End, target: End, *, client_id: str | None, is_endless: bool, is_quiet: bool
    ) -> None:
        self._source = source
        self._target = target
        self._client_id = client_id
        self._is_endless = is_endless
        self._is_quiet = is_quiet

    async def joined(self, work: Shovelling) -> None:
        """
        Do the work with a connection to each.

        Raises:
            HoldfastError: A broker refused, or does not answer.
        """
        try:
            async with self._connections() as (source, target):
                with _signals_taken(work.stop):
                    async with progress_shown(
                        "carrying", None, lambda: work.tally.count, is_quiet=self._is_quiet
                    ):
                        await work.run(source, target)
        except UnknownDeliveryError as error:
            # Stored there it is; the source gives it once more, and says so.
            write_error(f"holdfast: warning: comes again, as it was not acknowledged: {error}")

    @contextlib.asynccontextmanager
    async def _connections(self) -> AsyncIterator[tuple[Connection, Connection]]:
        async with contextlib.AsyncExitStack() as stack:
            target = await stack.enter_async_context(
                self._connected(self._target, marks_repeats=True, concurrent_sends_count_max=WINDOW)
            )
            source = await stack.enter_async_context(
                self._connected(self._source, client_id=self._client_id)
            )
            yield source, target

    def _connected(self, end: End, **options: Any) -> AbstractAsyncContextManager[Connection]:
        first = None if self._is_endless else FIRST_SECONDS_DEFAULT
        patience = Patience(end.uri, first_seconds=first, later_seconds=None)
        return connected(
            *(end.uri, end.login, end.passcode, patience),
            is_quiet=self._is_quiet,
            host=end.host,
            **options,
        )


@contextlib.contextmanager
def _signals_taken(stop: Callable[[], None]) -> Iterator[None]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "it is asked in one"
    told = 0

    def tell() -> None:
        nonlocal told
        told += 1
        if told == 1:
            stop()
        else:
            task.cancel()

    for number in _STOPPING:
        loop.add_signal_handler(number, tell)
    try:
        yield
    finally:
        for number in _STOPPING:
            loop.remove_signal_handler(number)
