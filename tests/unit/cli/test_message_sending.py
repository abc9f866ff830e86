"""
Where bodies come from: whole, by line, in pieces that end anywhere. The rest is in test_messages.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
from pathlib import Path

import pytest

from holdfast.cli import message_sending
from holdfast.cli.message_sending import STDIN, Bodies, read_piece


def read_all(bodies: Bodies) -> list[bytes]:
    async def collected() -> list[bytes]:
        return [body async for body in bodies.read()]

    return asyncio.run(collected())


def test_the_total_is_told_where_it_is_known() -> None:
    """Lines are not counted beforehand."""
    assert Bodies("x", [], is_by_line=False, count=7).total == 7
    assert Bodies(None, [STDIN, STDIN], is_by_line=False, count=None).total == 2
    assert Bodies(None, [], is_by_line=True, count=7).total is None


def test_lines_do_not_depend_on_how_they_are_cut(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Pieces of three bytes give the same lines."""
    monkeypatch.setattr(message_sending, "PIECE_BYTES", 3)
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo and three\r\n\nfour")
    found = read_all(Bodies(None, [path], is_by_line=True, count=None))
    assert found == [b"one", b"two and three", b"", b"four"]


def test_standard_input_is_read_from_its_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past Python's buffer, whose lock would be held when Ctrl-C ends the program."""
    reader, writer = os.pipe()
    os.write(writer, b"some")
    os.close(writer)
    with os.fdopen(reader, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert read_all(Bodies(None, [], is_by_line=False, count=None)) == [b"some"]


def test_a_read_that_fails_is_raised_here() -> None:
    """The thread's error reaches the reader."""

    class Broken(io.BytesIO):
        def fileno(self) -> int:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(read_piece(Broken()))


def test_a_cancelled_read_does_not_hold_the_program() -> None:
    """The thread that waits for a terminal is left behind."""
    reader, writer = os.pipe()

    async def scenario(stream: io.FileIO) -> None:
        reading = asyncio.create_task(read_piece(stream))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        os.write(writer, b"late")
        await asyncio.get_running_loop().run_in_executor(None, str)

    with os.fdopen(reader, "rb", buffering=0) as stream:
        asyncio.run(scenario(stream))
        os.close(writer)
