"""
Files that an operator names, read so that none can hold a command up or fill its memory.

A pipe waits for its writer, a device may have no end: what is not a regular file is not the one
that was meant.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


class TooLargeError(Exception):
    """It is another file than the one that was meant, or has no end."""


def read_regular(file: Path, bytes_max: int) -> bytes:
    """
    Give what a regular file holds.

    Raises:
        OSError: It cannot be read, or is no regular file.
        TooLargeError: It holds more.
    """
    # A pipe is opened without waiting for its writer; to a regular file that makes no difference.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(file))
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            content = opened.read(bytes_max + 1)
    finally:
        os.close(descriptor)
    if len(content) > bytes_max:
        raise TooLargeError
    return content
