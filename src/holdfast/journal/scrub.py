"""
Read sealed segments again in the background, to find rot while a peer still has a good copy.

Small steps at a bounded rate: a step reads about what the rate allows since the last one. After
the newest sealed segment it begins anew with the oldest. A small log is read more slowly: nobody
needs it looked at every few minutes, and each look takes processor time from an idle machine.

Invariants:
    Writes nothing. What it finds it only returns; `Journal.report_damage` notes it.
    A segment that is dropped meanwhile is skipped, not reported.

Call `turn` on the loop thread; a step reads at most about `_STEP_BYTES_MAX`: a longer entry is
read in parts, over many steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.environment.descriptors import is_out_of_descriptors
from holdfast.environment.disk import DiskFile, mend_copies
from holdfast.errors import CorruptEntryError
from holdfast.journal.damage import Damage
from holdfast.journal.entry import (
    HEADER_BYTES,
    HeaderFields,
    chain_of,
    entry_bytes,
    parse_entry,
    parse_header,
    verify_chain,
)
from holdfast.journal.entry_body import BodyDigest
from holdfast.journal.journal import Journal
from holdfast.journal.reading import is_entry
from holdfast.journal.segment import EntryPlace
from holdfast.journal.settings import MiB

_STEP_BYTES_MAX: Final = 1 * MiB
_PART_BYTES_MAX: Final = 256 * 1024


class _LongEntry:
    """An entry that is read and hashed in parts."""

    __slots__ = ("_digest", "_fields", "_padding", "left", "place", "read")

    def __init__(self, place: EntryPlace) -> None:
        self.place = place
        self.read = 0
        """Bytes read so far."""
        self.left = place.size
        """Bytes to read."""
        self._digest = BodyDigest()
        self._fields: HeaderFields
        self._padding = b""

    def take(self, data: bytes) -> None:
        """Take what was read; the first part has the whole header."""
        if not data:
            raise CorruptEntryError("the body is cut short")
        if not self.read:
            self._fields = parse_header(data)
            if entry_bytes(self._fields.body_length) != self.place.size:
                raise CorruptEntryError("its length is not that of its place")
        start = 0 if self.read else HEADER_BYTES
        end = start + self._fields.body_length - self._digest.length
        self._digest.add(data[start:end])
        self._padding += data[end:]
        self.read += len(data)
        self.left -= len(data)

    def verify(self, index: int, previous_chain: bytes | None) -> bytes:
        """
        Give its chain value, once all of it was taken.

        Raises:
            CorruptEntryError: It is damaged, or not what should stand here.
        """
        fields, digest = self._fields, self._digest
        if digest.checksum != fields.body_checksum:
            raise CorruptEntryError("the body checksum is wrong")
        if any(self._padding):
            raise CorruptEntryError("the padding is not zero")
        is_continuing = True
        if previous_chain is not None:
            chain = chain_of(previous_chain, fields.entry_index, fields.term, digest.body_hash())
            is_continuing = chain == fields.chain
        return _verified(index, fields.entry_index, fields.chain, is_continuing)


def _verified(index: int, found: int, chain: bytes, is_continuing: bool) -> bytes:
    """Give the chain value of an entry whose bytes are good, if it is the one that is looked at."""
    if found != index:
        raise CorruptEntryError("another entry stands here")
    if not is_continuing:
        raise CorruptEntryError("the chain hash does not continue the log")
    return chain


class Scrubber:
    """Verifies sealed segments from disk, past every cache, again and again."""

    __slots__ = (
        "_budget",
        "_chain",
        "_file",
        "_journal",
        "_last",
        "_long",
        "_next",
        "_path",
        "rounds",
    )

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next = 0
        self._budget = 0.0
        self._last: float | None = None
        self._file: DiskFile | None = None
        self._path: Path | None = None
        self._chain: bytes | None = None
        self._long: _LongEntry | None = None
        """The entry that is being read in parts."""
        self.rounds = 0
        """How often the whole of the sealed log has been read."""

    @property
    def turn_seconds_max(self) -> float:
        """With turns at least so often it verifies as much as its rate allows."""
        return _STEP_BYTES_MAX / self.bytes_per_second

    @property
    def bytes_per_second(self) -> float:
        """Its rate for a log as long as it is now: a round takes no less than it is set to."""
        settings = self._journal.settings
        rate = float(settings.scrub_bytes_per_second)
        if not settings.scrub_round_seconds:
            return rate
        return min(rate, max(self._journal.table.content_bytes / settings.scrub_round_seconds, 1.0))

    def turn(self, now: float) -> list[Damage]:
        """Verify as much as the rate allows since the last call; `now` is monotonic seconds."""
        if self._last is not None:
            allowed = (now - self._last) * self.bytes_per_second
            self._budget = min(self._budget + allowed, _STEP_BYTES_MAX)
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
        """
        Verify one entry, or a part of a long one, and return how many bytes that was.

        0 if there is nothing sealed left in this round.
        """
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
        size = place.size
        chain, self._chain = self._chain, None
        try:
            if size > _STEP_BYTES_MAX:
                long, size = self._read_part(place)
                if long.left:
                    self._next, self._chain = index, chain  # The rest of it comes next.
                    return size
                self._chain = long.verify(index, chain)
            else:
                entry = parse_entry(self._read(place))
                is_continuing = chain is None or verify_chain(entry, chain)
                self._chain = _verified(index, entry.index, entry.chain, is_continuing)
                # Of several copies the others are held against the one that was read.
                mend_copies(journal.disk, place.path, place.byte, size, entry.raw.__eq__)
        except FileNotFoundError:
            pass  # dropped meanwhile
        except CorruptEntryError as error:
            if (
                mend_copies(journal.disk, place.path, place.byte, place.size, is_entry(index))
                is None
            ):
                found.append(Damage(place.path.name, place.byte, index, error.reason))
        except OSError as error:
            if is_out_of_descriptors(error):
                self._next = index  # nothing was read; the next turn tries again
                return size
            reason = f"the disk cannot read it: {error}"
            found.append(Damage(place.path.name, place.byte, index, reason))
        return size

    def _read_part(self, place: EntryPlace) -> tuple[_LongEntry, int]:
        """Read what comes next of a long entry; give it, and how much that was."""
        long = self._long
        if long is None or long.place != place:
            long = _LongEntry(place)
        self._long = None  # Unless all goes well.
        size = min(_PART_BYTES_MAX, long.left)
        data = self._read(EntryPlace(place.path, place.byte + long.read, size))
        long.take(data)
        if long.left:
            self._long = long
        return long, len(data)

    def _read(self, place: EntryPlace) -> bytes:
        if self._file is None or self._path != place.path:
            self.close()
            self._file = self._journal.disk.open(place.path, writable=False)
            self._path = place.path
            self._file.forget_cached()
        return self._file.read(place.size, place.byte)
