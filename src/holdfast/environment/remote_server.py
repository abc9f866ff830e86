"""
A server that is somebody else's: where it is, and the password that opens it.

Databases and electors are named by URLs of one form, and given their passwords in the same ways.

Invariants:
    No sentence repeats what stands in a password's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ValueError(f"the password's file {path} cannot be read: {reason}") from None
