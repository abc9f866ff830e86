"""
The work behind `holdfast request` and `holdfast reply`.

What answers is a text, or a command that gets each request on its standard input. A command that
fails answers nobody: its request is rejected, and standard error says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.cli.message_patience import FIRST_SECONDS_DEFAULT, Patience
from holdfast.cli.message_progress import connected
from holdfast.cli.message_receiving import json_document
from holdfast.cli.message_sending import read_piece
from holdfast.cli.output import write_error
from holdfast.client import Message, Subscription
from holdfast.client.replying import reply_if_awaited
from holdfast.errors import CommandFailedError, ConfigError

SHOWN_BYTES = 300


def ask(
    destination: str,
    body: str | None,
    said: dict[str, Any],
    *,
    seconds: float,
    is_json: bool,
) -> Callable[[str, str | None, str | None], Coroutine[Any, Any, None]]:
    """Give what sends a request and writes its answer."""

    async def asked(uri: str, login: str | None, passcode: str | None) -> None:
        content = await _standard_input() if body is None else body.encode()
        patience = Patience(uri, first_seconds=seconds, later_seconds=None)
        async with connected(uri, login, passcode, patience, is_quiet=True) as connection:
            answer = await connection.request(destination, content, seconds=seconds, **said)
            written = json_document(answer).encode() if is_json else answer.body
            await asyncio.to_thread(_write, written)
            patience.finished()

    return asked


def _write(content: bytes) -> None:
    sys.stdout.buffer.write(content + b"\n")
    sys.stdout.buffer.flush()


async def _standard_input() -> bytes:
    pieces = []
    while piece := await read_piece(sys.stdin.buffer):
        pieces.append(piece)
    return b"".join(pieces)


class Answerer:
    """One `holdfast reply`."""

    def __init__(
        self,
        destination: str,
        body: str | None,
        command: str | None,
        *,
        count: int | None,
        concurrency: int,
        is_quiet: bool,
    ) -> None:
        self._destination = destination
        self._body = None if body is None else body.encode()
        self._words = _words(command) if command is not None else []
        self._count = count
        self._concurrency = concurrency
        self._is_quiet = is_quiet
        self._begun = 0
        self._ended = 0
        self._answered = 0
        self._draining: asyncio.Task[None] | None = None

    async def run(self, uri: str, login: str | None, passcode: str | None) -> None:
        """
        Answer until the count or Ctrl-C ends it.

        Raises:
            HoldfastError: The broker refused, or none answers in time.
        """
        patience = Patience(uri, first_seconds=FIRST_SECONDS_DEFAULT, later_seconds=None)
        async with connected(uri, login, passcode, patience, is_quiet=self._is_quiet) as connection:
            with patience.answer():
                requests = await connection.subscribe(self._destination).open()

            async def handle(message: Message) -> None:
                await self._handle(requests, message)

            await requests.consume(handle, concurrency=self._concurrency)
            if self._draining is not None:
                await self._draining
            patience.finished()
        if not self._is_quiet:
            noun = "request" if self._answered == 1 else "requests"
            write_error(f"answered {self._answered:,} {noun}")

    async def _handle(self, requests: Subscription, message: Message) -> None:
        self._begun += 1
        if self._count is not None and self._begun > self._count:
            await message.give_back()
            return
        try:
            answer = self._body if self._body is not None else await self._ask_command(message)
            await reply_if_awaited(message, answer)
            self._answered += 1
        except CommandFailedError as error:
            write_error(f"{message}: {error}")
            raise
        finally:
            self._ended += 1
            if self._ended == self._count:
                self._draining = asyncio.ensure_future(requests.drain())

    async def _ask_command(self, message: Message) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise CommandFailedError(f"{self._words[0]} cannot be run: {error}") from error
        assert process.stdout is not None, "all three were asked for"
        assert process.stderr is not None, "all three were asked for"
        try:
            _, answer, complaint = await asyncio.gather(
                _feed(process, message.body), process.stdout.read(), process.stderr.read()
            )
            await process.wait()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            told = complaint[-SHOWN_BYTES:].decode(errors="replace").strip()
            raise CommandFailedError(f"{self._words[0]} ended with {process.returncode}: {told}")
        return answer.removesuffix(b"\n")


async def _feed(process: asyncio.subprocess.Process, body: bytes) -> None:
    """Write a body to a command; one that has ended, or reads no more, is judged by its end."""
    assert process.stdin is not None, "all three were asked for"
    # A pipe that is closed already is a RuntimeError of uvloop's.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, RuntimeError):
        process.stdin.write(body)
        await process.stdin.drain()
    process.stdin.close()


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError([f"--command {command}: {error}"]) from None
    if not words:
        raise ConfigError(["--command is empty"])
    return words
