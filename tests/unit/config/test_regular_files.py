"""
Files that are named by an operator: read whole, or refused at once.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from holdfast.config.regular_files import TooLargeError, read_regular


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    """
    Up to its bound, through links too: secrets of Kubernetes are such.
    """
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"x" * 100)
    link.symlink_to(file)
    assert read_regular(link, 100) == b"x" * 100
    with pytest.raises(TooLargeError):
        read_regular(file, 99)


@pytest.mark.parametrize("kind", ["pipe", "socket", "zero", "null", "tty"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    """
    A pipe without a writer would hold the command up for ever, a device fill its memory.
    """
    place = tmp_path / "it"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place))
    else:
        place = Path("/dev", kind)
    with pytest.raises(OSError, match=r"no regular file|No such device"):
        read_regular(place, 100)


def test_a_folder_and_what_is_not_there_say_so(tmp_path: Path) -> None:
    """
    In the system's own words.
    """
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        read_regular(tmp_path, 100)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", 100)
