"""
Read sealed segments again in the background, to find rot while a peer still has a good copy.

Small steps at a bounded rate: a step reads about what the rate allows since the last one. After
the newest sealed segment it begins anew with the oldest.

Invariants:
    Writes nothing. What it finds it only returns; `Journal.report_damage` notes it.
    A segment that is dropped meanwhile is skipped, not reported.

Call `turn` on the loop thread; a step reads at most `_STEP_BYTES_MAX` or one entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.environment.descriptors import is_out_of_descriptors
from holdfast.environment.disk import DiskFile
from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import parse_entry, verify_chain
from holdfast.journal.journal import Journal
from holdfast.journal.scan import Damage
from holdfast.journal.segment import EntryPlace
from holdfast.journal.settings import MiB

_STEP_BYTES_MAX: Final = 1 * MiB


class Scrubber:
    """Verifies sealed segments from disk, past every cache, again and again."""

    __slots__ = ("_budget", "_chain", "_file", "_journal", "_last", "_next", "_path", "rounds")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next = 0
        self._budget = 0.0
        self._last: float | None = None
        self._file: DiskFile | None = None
        self._path: Path | None = None
        self._chain: bytes | None = None
        self.rounds = 0
        """How often the whole of the sealed log has been read."""

    def turn(self, now: float) -> list[Damage]:
        """Verify as much as the rate allows since the last call; `now` is monotonic seconds."""
        rate = self._journal.settings.scrub_bytes_per_second
        if self._last is not None:
            self._budget = min(self._budget + (now - self._last) * rate, _STEP_BYTES_MAX)
        self._last = now
        found: list[Damage] = []
        while self._budget > 0:
            size = self._verify_next(found)
            if size == 0:
                self._budget = 0.0
                break
            self._budget -= size
        return found

    def close(self) -> None:
        """Close the file being read."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _verify_next(self, found: list[Damage]) -> int:
        """Verify one entry; return its size, 0 if there is nothing sealed left in this round."""
        journal = self._journal
        index = max(self._next, journal.first_index)
        if index > journal.sealed_through:
            self.rounds += self._next > 0
            self._next = 0
            self._chain = None
            return 0
        if index != self._next:
            self._chain = None
        self._next = index + 1
        place = journal.place_of(index)
        if place.size == 0:
            return 1  # its bounds are lost with a neighbour, which is reported
        chain, self._chain = self._chain, None
        try:
            entry = parse_entry(self._read(place))
            if entry.index != index:
                raise CorruptEntryError("another entry stands here")
            if chain is not None and not verify_chain(entry, chain):
                raise CorruptEntryError("the chain hash does not continue the log")
            self._chain = entry.chain
        except FileNotFoundError:
            pass  # dropped meanwhile
        except CorruptEntryError as error:
            found.append(Damage(place.path.name, place.byte, index, error.reason))
        except OSError as error:
            if is_out_of_descriptors(error):
                self._next = index  # nothing was read; the next turn tries again
                return place.size
            reason = f"the disk cannot read it: {error}"
            found.append(Damage(place.path.name, place.byte, index, reason))
        return place.size

    def _read(self, place: EntryPlace) -> bytes:
        if self._file is None or self._path != place.path:
            self.close()
            self._file = self._journal.disk.open(place.path, writable=False)
            self._path = place.path
            self._file.forget_cached()
        return self._file.read(place.size, place.byte)
