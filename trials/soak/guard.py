"""
Ends the nodes of a soak whose runner was killed without a chance to end them itself.

    python -m trials.soak.guard FOLDER

The runner starts it and holds the other end of its standard input. When that closes, whatever the
reason, every process that was started with a data folder below FOLDER is killed; after an orderly
end there is none.

Looks at data folders, which belong to one run, never at names of programs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Let a guard stand by for the nodes below a folder as long as the block lasts."""
    command = [sys.executable, "-m", __name__, str(folder.resolve())]
    guard = subprocess.Popen(  # noqa: S603 - our own program
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0
    )
    try:
        yield
    finally:
        guard.communicate()  # closes its input


def nodes_below(folder: Path) -> list[int]:
    """Give the processes that were started with a data folder below this one."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):
                words = (place / "cmdline").read_bytes().split(b"\0")
                if _data_folder(words).is_relative_to(folder):
                    found.append(int(place.name))
    return found


def _data_folder(words: list[bytes]) -> Path:
    if b"--data" not in words[:-1]:
        return Path("/")
    return Path(os.fsdecode(words[words.index(b"--data") + 1])).resolve()


def main() -> None:
    """Wait until the runner is gone, and end what it left."""
    folder = Path(sys.argv[1])
    sys.stdin.buffer.read()
    for number in nodes_below(folder):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main()
