"""
A server that is somebody else's: where it is, and the password that opens it.

Databases and electors are named by URLs of one form, and given their passwords in the same ways.

Invariants:
    No sentence repeats what stands in a password's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.environment.secret_files import TooLargeError, read_secret_file

PASSWORD_BYTES_MAX: Final = 16 * 1024
"""Some are tokens of a cloud, of some KiB."""


@dataclass(frozen=True, slots=True)
class Host:
    """One address of a server."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


def read_password_file(path: str) -> str:
    """
    Give the password that a file holds, without the end of its line.

    Raises:
        ValueError: It cannot be read; the sentence names it.
    """
    try:
        return read_secret_file(Path(path), PASSWORD_BYTES_MAX).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError, TooLargeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        if isinstance(error, TooLargeError):
            reason = f"it holds more than {PASSWORD_BYTES_MAX:,} bytes"
        raise ValueError(f"the password's file {path} cannot be read: {reason}") from None
