"""
A process on a shared directory that does what it is told, one line of JSON after the other.

    python shared_child.py DIRECTORY NAME

Where a test wants it stopped, or dead, in the middle of a call, it does that to itself: a signal
from outside would come a little earlier or later each time. It prints what it was answered.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.environment.disk import DiskFile
from holdfast.environment.shared_disk import RealSharedDisk
from holdfast.errors import HoldfastError
from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.leases.contract import Claimant, Holding, Outcome, Place
from holdfast.shared.settings import SharedSettings
from holdfast.shared.shared_log import SharedLog

SECONDS = 60.0
POINTS = {
    "stop before the write": ("write", "segment", signal.SIGSTOP),
    "die in the write": ("tear", "segment", signal.SIGKILL),
    "stop before the look": ("open", "current", signal.SIGSTOP),
    "stop after the look": ("close", "current", signal.SIGSTOP),
    "die before the lease": ("open through", "current", signal.SIGKILL),
    "die after the lease": ("create", "segment", signal.SIGKILL),
}
"""At which operation on what file it does what to itself, once."""


class TroubledDisk(RealSharedDisk):
    """The machine's file system, with trouble at one point."""

    __slots__ = ("point",)

    def __init__(self) -> None:
        self.point = ""

    def reach(self, operation: str, path: Path) -> None:
        """Stop or die here if that is wanted."""
        if not self.point or self.point == "lose the reply":
            return
        wanted, file, number = POINTS[self.point]
        kind = "segment" if path.suffix == ".seg" else path.name
        if (operation, kind) == (wanted, file):
            self.point = ""
            # To this very thread: one that was meant for the process would let it go on a little.
            signal.pthread_kill(threading.get_ident(), number)

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> Any:
        self.reach("open", path)
        return TroubledFile(self, path, super().open(path, create=create, writable=writable))

    def open_through(self, path: Path, *, create: bool = False) -> Any:
        self.reach("open through", path)
        return super().open_through(path, create=create)

    def create(self, path: Path) -> Any:
        self.reach("create", path)
        return TroubledFile(self, path, super().create(path))

    def link(self, source: Path, target: Path) -> None:
        super().link(source, target)
        if self.point == "lose the reply":
            self.point = ""
            raise FileExistsError(errno.EEXIST, "the reply was lost, and it was asked again")


class TroubledFile:
    """A file of that disk."""

    def __init__(self, disk: TroubledDisk, path: Path, file: DiskFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        self._disk.reach("write", self._path)
        if self._disk.point == "die in the write":
            self._file.write(b"".join(buffers)[:700], offset)
        self._disk.reach("tear", self._path)
        self._file.write_durable(buffers, offset)

    def close(self) -> None:
        self._file.close()
        self._disk.reach("close", self._path)


class Child:
    """The process: its log, and where its own history ends."""

    def __init__(self, directory: Path, name: str) -> None:
        self._disk = TroubledDisk()
        settings = SharedSettings(
            segment_bytes=256 * 1024, first_segment_bytes=64 * 1024, beat_seconds=0.1
        )
        self._log = SharedLog(directory, settings, disk=self._disk)
        self._claimant = Claimant(holder=os.urandom(16).hex(), name=name, admin="", stomp="")
        self._seen = self._log.open()
        self._end = self._seen.end
        self._epoch = 0

    def observe(self) -> dict[str, Any]:
        self._seen = self._log.observe(SECONDS)
        return told(self._seen)

    def take(self, point: str = "") -> dict[str, Any]:
        """Take what was observed last."""
        self._disk.point = point
        holding = self._log.take(self._seen, self._claimant, SECONDS)
        if holding is None:
            return {"taken": False}
        self._end, self._epoch = holding.end, holding.epoch
        return {"taken": True, **told(holding)}

    def append(self, count: int = 1, point: str = "", length: int = 2000) -> dict[str, Any]:
        """Append so many entries at once."""
        self._disk.point = point
        return self._send(self._seal(count, length))

    def storm(self) -> dict[str, Any]:
        """Append until it is over, and tell of each that was stored."""
        while True:
            answer = self._send(self._seal(1 + self._end.index % 4, 2000))
            if answer["outcome"] != "stored":
                return answer
            say({"stored": answer["index"]})

    def renew(self) -> dict[str, Any]:
        return {"outcome": self._log.renew(SECONDS).value}

    def release(self) -> dict[str, Any]:
        self._log.release(SECONDS)
        return {}

    def is_gone(self) -> dict[str, Any]:
        return {"gone": self._log.is_holder_gone(self._seen, SECONDS)}

    def _send(self, entries: list[Entry]) -> dict[str, Any]:
        outcome = self._log.append(entries, SECONDS)
        if outcome is Outcome.STORED:
            self._end = Place(entries[-1].index, entries[-1].chain)
        return {"outcome": outcome.value, "index": entries[-1].index}

    def _seal(self, count: int, length: int) -> list[Entry]:
        entries: list[Entry] = []
        end = self._end
        for _ in range(count):
            entry = seal_entry(
                index=end.index + 1,
                term=self._epoch,
                kind=KIND_RECORDS,
                timestamp=end.index + 1,
                first_record=end.index + 1,
                record_count=1,
                parts=[b"%s %d " % (self._claimant.name.encode(), end.index + 1), b"." * length],
                previous_chain=end.chain,
            )
            entries.append(entry)
            end = Place(entry.index, entry.chain)
        return entries


def told(holding: Holding) -> dict[str, Any]:
    """What a test asks about a lease."""
    return {
        "epoch": holding.epoch,
        "beat": holding.beat,
        "end": holding.end.index,
        "sure": holding.sure.index,
        "released": holding.is_released,
        "name": None if holding.claimant is None else holding.claimant.name,
    }


def say(answer: dict[str, Any]) -> None:
    """One line to whoever asked."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Do what each line asks for."""
    child = Child(Path(sys.argv[1]), sys.argv[2])
    say({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            say(getattr(child, asked.pop("do"))(**asked))
        except HoldfastError as error:
            say({"error": type(error).__name__, "text": str(error)})


if __name__ == "__main__":
    main()
