"""
The work behind `holdfast receive`: take what is there, write it, then acknowledge it.

Messages are written in the batches in which they came, by a thread: a pipe that nobody reads must
not stop heart-beats. Only what has been written, and for files synced, is acknowledged.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.message_patience import FIRST_SECONDS_DEFAULT, Patience
from holdfast.cli.message_progress import Tally, connected, progress_shown
from holdfast.cli.output import write_error
from holdfast.client import Message, Subscription
from holdfast.client.wire import AcknowledgeMode
from holdfast.errors import SelectorError

BATCH_COUNT_MAX = 500
NAME_CHARACTERS_MAX = 100
POINTED_CHARACTERS = 72

PATIENCE_SECONDS_MIN = 3.0
"""A shorter silence may be asked for; a broker, or the next one, is given so long to answer."""

OUTAGE_LOOK_SECONDS = 0.1

OF_THE_DELIVERY = frozenset(
    {
        *("ack", "destination", "message-id", "redelivered", "subscription", "JMSXDeliveryCount"),
        "JMSXGroupFirstForConsumer",
    }
)
"""Headers that stand in the document beside the message's own, or concern nobody else."""


class Output:
    """Where messages go: standard output, or a file each."""

    def __init__(self, directory: Path | None, *, is_json: bool) -> None:
        self._directory = directory
        self._is_json = is_json
        self._number = 0

    def write(self, messages: list[Message]) -> None:
        """
        Write them all; returns when that is safe from our own end.

        Raises:
            OSError: The pipe is broken, the disk is full.
        """
        if self._directory is not None:
            for message in messages:
                self._write_file(self._directory, message)
            return
        sys.stdout.buffer.write(b"".join(self._encode(message) + b"\n" for message in messages))
        sys.stdout.buffer.flush()

    def _write_file(self, directory: Path, message: Message) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._number += 1
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", message.id)[:NAME_CHARACTERS_MAX]
        name = f"{self._number:08d}-{plain}{'.json' if self._is_json else ''}"
        with (directory / name).open("wb") as file:
            file.write(self._encode(message))
            file.flush()
            # The acknowledgement takes it from a store that is synced as well.
            os.fsync(file.fileno())

    def _encode(self, message: Message) -> bytes:
        return json_document(message).encode() if self._is_json else message.body


def json_document(message: Message) -> str:
    """A message in one line; a body that is no text stands as `body_base64`."""
    document: dict[str, object] = {
        "id": message.id,
        "destination": message.destination,
        "redelivered": message.redelivered,
        "headers": {
            name: value for name, value in message.headers.items() if name not in OF_THE_DELIVERY
        },
    }
    try:
        document["body"] = message.text
    except UnicodeDecodeError:
        document["body_base64"] = base64.b64encode(message.body).decode()
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def pointed_at(text: str, column: int) -> str:
    """A text in one line, or what of it stands around a column, and a mark under that."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    start = max(0, column - 1 - POINTED_CHARACTERS // 2)
    return f"  {shown[start : start + POINTED_CHARACTERS]}\n  {'^':>{column - start}}"


@contextlib.contextmanager
def showing_where(selector: str | None) -> Iterator[None]:
    """Show where a selector is wrong, if it is refused."""
    try:
        yield
    except SelectorError as error:
        write_error(pointed_at(selector or "", error.column))
        raise


class Receiving:
    """One `holdfast receive`."""

    def __init__(
        self,
        destination: str,
        output: Output,
        *,
        count: int | None,
        silence_seconds: float | None,
        patience_seconds: float | None,
        is_endless: bool,
        acknowledge: AcknowledgeMode | None,
        prefetch: int | None,
        selector: str | None,
        exclusive: bool = False,
        priority: int = 0,
        browse: bool = False,
        durable: str | None = None,
        client_id: str | None = None,
        no_local: bool = False,
        retroactive: bool = False,
        headers: dict[str, str],
        is_quiet: bool,
    ) -> None:
        self._destination = destination
        self._output = output
        self._count_max = count
        self._silence_seconds = silence_seconds
        self._patience_seconds = patience_seconds
        self._is_endless = is_endless
        self._acknowledge = acknowledge
        self._prefetch = prefetch
        self._selector = selector
        self._exclusive = exclusive
        self._priority = priority
        self._browse = browse
        self._durable = durable
        self._client_id = client_id
        self._no_local = no_local
        self._retroactive = retroactive
        self._headers = headers
        self._is_quiet = is_quiet
        self.tally = Tally()

    async def run(self, uri: str, login: str | None, passcode: str | None) -> None:
        """
        Receive until the count, the silence or Ctrl-C ends it.

        Raises:
            HoldfastError: The broker refused, or none answers in time.
            OSError: Something cannot be written.
        """
        first_seconds = None if self._is_endless else FIRST_SECONDS_DEFAULT
        patience = Patience(
            uri,
            first_seconds=self._patience_seconds or first_seconds,
            later_seconds=self._patience_seconds,
        )
        async with (
            connected(
                *(uri, login, passcode, patience),
                is_quiet=self._is_quiet,
                client_id=self._client_id,
            ) as connection,
            contextlib.AsyncExitStack() as stack,
            progress_shown(
                "receiving", self._count_max, lambda: self.tally.count, is_quiet=self._is_quiet
            ),
        ):
            with patience.answer(), showing_where(self._selector):
                subscription = await stack.enter_async_context(
                    connection.subscribe(
                        self._destination,
                        # Acknowledged here, after writing: "auto" would do it on taking the next.
                        acknowledge=(
                            "client" if self._acknowledge == "client" else "client-individual"
                        ),
                        prefetch=self._prefetch,
                        selector=self._selector,
                        exclusive=self._exclusive,
                        priority=self._priority,
                        browse=self._browse,
                        durable=self._durable,
                        no_local=self._no_local,
                        retroactive=self._retroactive,
                        headers=self._headers,
                    )
                )
            self.tally.start()
            try:
                while batch := await self._take(subscription, patience):
                    await asyncio.to_thread(self._output.write, batch)
                    with patience.answer():
                        await self._settle(batch)
                    self.tally.count += len(batch)
            finally:
                self.tally.stop()
            patience.finished()

    async def _take(self, subscription: Subscription, patience: Patience) -> list[Message]:
        left = BATCH_COUNT_MAX
        if self._count_max is not None:
            left = min(left, self._count_max - self.tally.count)
        if left <= 0:
            return []
        first = await self._first(subscription, patience)
        if first is None:
            return []
        batch = [first]
        while len(batch) < left and subscription.buffered_count:
            batch.append(await anext(subscription))
        return batch

    async def _first(self, subscription: Subscription, patience: Patience) -> Message | None:
        """The next message; None after the silence asked for, of a broker that was there."""
        while True:
            seconds = self._silence_seconds
            if seconds is not None and patience.is_out:
                seconds = max(seconds, OUTAGE_LOOK_SECONDS)
            outages_count = patience.outages_count
            message = await subscription.receive(seconds)
            is_silent = not patience.is_out and outages_count == patience.outages_count
            if message is not None or is_silent:
                return message

    async def _settle(self, batch: list[Message]) -> None:
        # What we report as received must not come again: the last one waits for the broker, and
        # acknowledgements are stored in order.
        if self._acknowledge is None:
            return
        if self._acknowledge != "client":
            for message in batch[:-1]:
                await message.acknowledge()
        await batch[-1].acknowledge(confirm=True)
