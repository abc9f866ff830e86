"""
Frames in files: they come back as they were, and the files go when all has been taken.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from holdfast.client import overflow
from holdfast.client.overflow import Overflow, Overflowed
from holdfast.protocols.stomp.frames import Frame


def frame(number: int, size_bytes: int = 100) -> Frame:
    headers = {"message-id": f"ID:{number}", "colour": "gr\u00fcn\n:"}
    return Frame("MESSAGE", headers, bytes([number % 256]) * size_bytes)


def put(kept_in: Overflow, number: int) -> Overflowed:
    kept = kept_in.put(frame(number))
    assert kept is not None
    return kept


def open_files() -> int:
    return sum("(deleted)" in str(link.readlink()) for link in links())


def links() -> list[Path]:
    return [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]


def test_frames_come_back_as_they_were_in_any_order() -> None:
    """Headers and body, whatever their bytes."""
    kept_in = Overflow()
    kept = [put(kept_in, number) for number in range(10)]
    for number in (3, 9, 0, 1, 2, 4, 5, 6, 7, 8):
        assert kept_in.take(kept[number]) == frame(number)
    assert kept_in.count == 0


def test_a_file_goes_when_all_in_it_was_taken(monkeypatch) -> None:
    """Somebody who always lags keeps what lags, not all that ever went through."""
    monkeypatch.setattr(overflow, "FILE_BYTES", 1000)
    before = open_files()
    kept_in = Overflow()
    waiting = [put(kept_in, number) for number in range(20)]
    highest = 0
    for number in range(20, 500):
        waiting.append(put(kept_in, number))
        assert kept_in.take(waiting.pop(0)) == frame(number - 20)
        highest = max(highest, open_files() - before)
    assert highest <= 20 * 200 // 1000 + 2
    for kept in waiting:
        kept_in.drop(kept)
    assert open_files() == before


def test_without_a_file_the_frame_is_the_callers(monkeypatch) -> None:
    """A full disk is told by None, once and for all: then the socket is not read instead."""
    kept_in = Overflow()
    kept = put(kept_in, 1)
    with monkeypatch.context() as patched:
        patched.setattr(overflow, "FILE_BYTES", 0)
        patched.setattr(tempfile, "TemporaryFile", no_room)
        assert kept_in.put(frame(2)) is None
    assert not kept_in.is_usable
    assert kept_in.put(frame(3)) is None
    assert kept_in.take(kept) == frame(1)


def no_room(**_: object) -> None:
    raise OSError(28, "no space left")


def test_a_file_that_was_cut_is_an_error() -> None:
    """What is not there is not made up."""
    kept_in = Overflow()
    kept = put(kept_in, 1)
    kept.file._file.truncate(10)
    for _ in range(2):
        with pytest.raises(OSError, match="shorter"):
            kept_in.take(kept)
    assert kept_in.count == 1
    kept_in.drop(kept)
