"""
What a node must not forget besides the log: who it is, its term and vote, how far it is durable.

Two checksummed slots of 4 KiB in one file. A new ballot is written to both, one after the other,
each synced: a power cut spoils at most one, and rot in one leaves the same words in the other
(an older vote would be as bad as none). `durable_floor` alone changes often and goes to one slot
at a time: an older floor is only less sharp. Lowering it goes to both again.

The *edition* counts what the ballot has said: it rises with every vote, term and floor, never with
a mere rewriting. The other members remember the newest one they heard of, so a disk that was
replaced by an older copy of itself shows itself by an older edition (replication/editions.py).

Invariants:
    Entries through durable_floor were durable once; recovery never takes them for a torn write.
    Of two good slots the one with the higher sequence rules.
    `current.edition` is durable, and no later ballot of this disk has a lower one.

Both slots bad is amnesia: the node may have voted, so this identity must never vote again.
Used by one thread at a time: at start by whoever opens it, then only by the writer; the loop thread
may read `current` and set `seen`, both of which are replaced and never changed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from google_crc32c import value as crc32c

from holdfast.environment.disk import Disk, DiskFile
from holdfast.errors import BallotLostError

SLOT_BYTES: Final = 4096
NODE_ID_BYTES: Final = 16

_MAGIC: Final = b"HFBL"
_VERSION: Final = 2
_HEADER: Final = struct.Struct("<4sHHI16sQQQQhH")
_EDITIONS: Final = struct.Struct("<QH")
"""Follows the header since version 2: the own edition, and how many others were seen."""
_SEEN: Final = struct.Struct("<16sQ")
_NO_VOTE: Final = -1
_TEXT_BYTES_MAX: Final = 1024
SEEN_MAX: Final = 64
"""Identities whose edition a ballot can hold; a slot has room for no more."""

Seen = tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """
    A node's identity, term and vote.

    `generation` counts how often an operator forced the cluster on; `cluster_id` is empty before
    the node belongs to one. `durable_floor`, `sequence`, `edition` and `seen` (the newest editions
    that other identities have shown) are kept by `BallotFile`.
    """

    node_id: bytes
    term: int = 0
    voted_for: str | None = None
    generation: int = 0
    durable_floor: int = 0
    sequence: int = 0
    cluster_id: bytes = b""
    edition: int = 0
    seen: Seen = ()


def encode_ballot(ballot: Ballot) -> bytes:
    """Return the slot of 4 KiB that holds this ballot."""
    vote = b"" if ballot.voted_for is None else ballot.voted_for.encode()
    assert len(ballot.node_id) == NODE_ID_BYTES
    assert len(vote) <= _TEXT_BYTES_MAX and len(ballot.cluster_id) <= _TEXT_BYTES_MAX
    assert len(ballot.seen) <= SEEN_MAX
    head = _HEADER.pack(
        _MAGIC,
        _VERSION,
        0,
        0,
        ballot.node_id,
        ballot.term,
        ballot.generation,
        ballot.durable_floor,
        ballot.sequence,
        _NO_VOTE if ballot.voted_for is None else len(vote),
        len(ballot.cluster_id),
    )
    editions = _EDITIONS.pack(ballot.edition, len(ballot.seen))
    seen = b"".join([_SEEN.pack(*pair) for pair in ballot.seen])
    slot = (head + editions + vote + ballot.cluster_id + seen).ljust(SLOT_BYTES, b"\0")
    checksum: int = crc32c(slot)
    return slot[:8] + checksum.to_bytes(4, "little") + slot[12:]


def decode_ballot(slot: bytes) -> Ballot | None:
    """Return the ballot in a slot, None if it is damaged or of an unknown version."""
    if len(slot) != SLOT_BYTES:
        return None
    magic, version, _, checksum, node_id, term, generation, floor, sequence, vote, cluster = (
        _HEADER.unpack_from(slot)
    )
    if crc32c(slot[:8] + bytes(4) + slot[12:]) != checksum:
        return None
    if magic != _MAGIC or version not in {1, _VERSION}:
        return None
    start = _HEADER.size
    edition = count = 0
    if version > 1:
        edition, count = _EDITIONS.unpack_from(slot, start)
        start += _EDITIONS.size
    end = start + max(vote, 0)
    rest = end + cluster
    return Ballot(
        node_id=node_id,
        term=term,
        voted_for=None if vote == _NO_VOTE else slot[start:end].decode(),
        generation=generation,
        durable_floor=floor,
        sequence=sequence,
        cluster_id=slot[end:rest],
        edition=edition,
        seen=tuple(_SEEN.iter_unpack(slot[rest : rest + count * _SEEN.size])),
    )


class BallotFile:
    """The file `ballot` of a data directory. Every save is durable when it returns."""

    __slots__ = ("_disk", "_file", "_path", "current", "damaged_slots", "seen")

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._file: DiskFile | None = None
        self.current: Ballot | None = None
        """What is on disk, as far as this object loaded or saved it."""
        self.damaged_slots: list[int] = []
        """Slots that were unreadable at the last `load`; the next save mends them."""
        self.seen: Seen = ()
        """The newest editions known of other identities; goes along with whatever is saved next."""

    def load(self) -> Ballot | None:
        """
        Return the ballot, None if this directory never had one.

        Raises:
            BallotLostError: The file is there and neither slot can be read.
        """
        if not self._disk.exists(self._path):
            return None
        file = self._open()
        slots = [decode_ballot(file.read(SLOT_BYTES, place * SLOT_BYTES)) for place in (0, 1)]
        self.damaged_slots = [place for place, slot in enumerate(slots) if slot is None]
        good = [slot for slot in slots if slot is not None]
        if not good:
            raise BallotLostError(
                f"both slots of {self._path} are unreadable: this node may have voted and must"
                f" not vote again; let it rejoin as a new node with an empty directory"
            )
        newest = max(good, key=lambda ballot: ballot.sequence)
        # What is lost may have been one edition further, and told.
        self.current = replace(newest, edition=newest.edition + len(self.damaged_slots))
        self.seen = newest.seen
        return self.current

    def save(self, ballot: Ballot) -> None:
        """Keep identity, term and vote of `ballot`; the rest is kept here."""
        floor = 0 if self.current is None else self.current.durable_floor
        self._save_twice(replace(ballot, durable_floor=floor, edition=self._next_edition()))

    def save_floor(self, floor: int) -> None:
        """Note that the log is durable through `floor`; nothing if there is no ballot yet."""
        if self.current is not None and floor > self.current.durable_floor:
            edition = self._next_edition()
            self._write_slot(replace(self.current, durable_floor=floor, edition=edition))

    def write_again(self, floor: int) -> None:
        """
        Write to both slots anew what was loaded, with the log durable through `floor`.

        After a failed sync the cache may show a ballot that the disk does not have: a process that
        starts on it would vote by what the next power cut takes away.
        """
        ballot = self.current
        if ballot is not None:
            self._save_twice(replace(ballot, durable_floor=max(floor, ballot.durable_floor)))

    def lower_floor(self, floor: int) -> None:
        """Give up the claim on entries after `floor`, before they are cut off."""
        if self.current is not None and floor < self.current.durable_floor:
            edition = self._next_edition()
            self._save_twice(replace(self.current, durable_floor=floor, edition=edition))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _next_edition(self) -> int:
        return 1 if self.current is None else self.current.edition + 1

    def _save_twice(self, ballot: Ballot) -> None:
        if self.current is None and not self._disk.exists(self._path):
            self._create(ballot)
            return
        self._write_slot(ballot)
        self._write_slot(ballot)

    def _create(self, ballot: Ballot) -> None:
        # The name appears only when both slots are durable: a half-made file is no amnesia.
        draft = self._path.with_suffix(".tmp")
        file = self._disk.open(draft, create=True)
        first = replace(ballot, sequence=2, seen=self.seen)
        file.write(encode_ballot(first), 0)
        file.write(encode_ballot(replace(first, sequence=1)), SLOT_BYTES)
        file.sync()
        self._disk.rename(draft, self._path)
        self._disk.sync_directory(self._path.parent)
        self._file = file
        self.current = first

    def _write_slot(self, ballot: Ballot) -> None:
        previous = self.current
        sequence = 1 if previous is None else previous.sequence + 1
        written = replace(ballot, sequence=sequence, seen=self.seen)
        # Never over the newest good slot: the parity of the sequence alternates the place.
        place = sequence % 2 * SLOT_BYTES
        self._open().write_durable([encode_ballot(written)], place)
        self.current = written

    def _open(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self._path)
        return self._file
