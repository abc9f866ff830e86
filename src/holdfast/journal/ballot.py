"""
What a node must not forget besides the log: who it is, its term and vote, how far it is durable.

Two checksummed slots of 4 KiB in one file. A new ballot is written to both, one after the other,
each synced: a power cut spoils at most one, and rot in one leaves the same words in the other
(an older vote would be as bad as none). `durable_floor` alone changes often and goes to one slot
at a time: an older floor is only less sharp. Lowering it goes to both again.

The *edition* counts what the ballot has said: it rises with every vote, term and floor, never with
a mere rewriting. The other members remember the newest one they heard of, so a disk that was
replaced by an older copy of itself shows itself by an older edition (replication/editions.py).

What recovery may rely on besides the log's own bytes is here too (`LogClaim`): nothing that a
client sends can stand in this file, while anything may stand in the body of an entry.

Invariants:
    Entries through durable_floor were durable once; recovery never takes them for a torn write.
    Of two good slots the one with the higher sequence rules.
    `current.edition` is durable, and no later ballot of this disk has a lower one.
    No file of the log at or after first_index was removed on purpose.
    durable_floor >= first_index - 1: what comes before the log is no part of it, whatever files are
    still there. Only a ballot of an earlier version has less, where its log was about to be begun
    anew: then the files that are there are the log.

Both slots bad is amnesia: the node may have voted, so this identity must never vote again.
Saved by the writer's thread, and by the housekeeper's for the first index, one at a time; the loop
thread may read `current` and set `seen`, both of which are replaced and never changed.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from google_crc32c import value as crc32c

from holdfast.environment.disk import Disk, DiskFile
from holdfast.errors import BallotLostError

SLOT_BYTES: Final = 4096
NODE_ID_BYTES: Final = 16

_MAGIC: Final = b"HFBL"
_VERSION: Final = 3
_HEADER: Final = struct.Struct("<4sHHI16sQQQQhH")
_EDITIONS: Final = struct.Struct("<QH")
"""Follows the header since version 2: the own edition, and how many others were seen."""
_LOG: Final = struct.Struct("<QQ16s")
"""Follows since version 3: first index, large index, chain at the floor."""
_NO_CHAIN: Final = bytes(16)
_SEEN: Final = struct.Struct("<16sQ")
_NO_VOTE: Final = -1
_SHUT_OUT: Final = 1
"""A flag; programs that know none ignore it."""
_TEXT_BYTES_MAX: Final = 1024
SEEN_MAX: Final = 64
"""Identities whose edition a ballot can hold; a slot has room for no more."""

Seen = tuple[tuple[bytes, int], ...]


class LogClaim(NamedTuple):
    """
    What a ballot says of the log; zeros and no bytes where it says nothing.

    `floor`: entries through it were durable once, or come before the log; `floor_chain` is the
    chain value of that one. `first_index`: nothing from here on was dropped. `large_index`: the
    entry that was about to be written in a run of its own because it is larger than a run.
    `term_max`: no entry is of a later term.
    """

    floor: int = 0
    floor_chain: bytes = b""
    first_index: int = 0
    large_index: int = 0
    term_max: int = 0


NO_CLAIM: Final = LogClaim()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """
    A node's identity, term and vote.

    `generation` counts how often an operator forced the cluster on, and `is_shut_out` says that
    this node has no part in it; `cluster_id` is empty before the node belongs to one.
    `durable_floor` and what else it says of the log, `sequence`, `edition` and `seen` (the newest
    editions that other identities have shown) are kept by `BallotFile`.
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
    floor_chain: bytes = b""
    first_index: int = 0
    large_index: int = 0
    is_shut_out: bool = False

    @property
    def claim(self) -> LogClaim:
        """What it says of the log."""
        return LogClaim(
            self.durable_floor, self.floor_chain, self.first_index, self.large_index, self.term
        )


def encode_ballot(ballot: Ballot) -> bytes:
    """Return the slot of 4 KiB that holds this ballot."""
    vote = b"" if ballot.voted_for is None else ballot.voted_for.encode()
    assert len(ballot.node_id) == NODE_ID_BYTES
    assert len(vote) <= _TEXT_BYTES_MAX and len(ballot.cluster_id) <= _TEXT_BYTES_MAX
    assert len(ballot.seen) <= SEEN_MAX
    head = _HEADER.pack(
        _MAGIC,
        _VERSION,
        _SHUT_OUT if ballot.is_shut_out else 0,
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
    log = _LOG.pack(ballot.first_index, ballot.large_index, ballot.floor_chain or _NO_CHAIN)
    slot = (head + editions + log + vote + ballot.cluster_id + seen).ljust(SLOT_BYTES, b"\0")
    checksum: int = crc32c(slot)
    return slot[:8] + checksum.to_bytes(4, "little") + slot[12:]


def decode_ballot(slot: bytes) -> Ballot | None:
    """Return the ballot in a slot, None if it is damaged, senseless or of an unknown version."""
    if len(slot) != SLOT_BYTES:
        return None
    magic, version, flags, checksum, node_id, term, generation, floor, sequence, vote, cluster = (
        _HEADER.unpack_from(slot)
    )
    if crc32c(slot[:8] + bytes(4) + slot[12:]) != checksum:
        return None
    if magic != _MAGIC or not 1 <= version <= _VERSION:
        return None
    start = _HEADER.size
    edition = count = first_index = large_index = 0
    floor_chain = _NO_CHAIN
    if version > 1:
        edition, count = _EDITIONS.unpack_from(slot, start)
        start += _EDITIONS.size
    if version > 2:
        first_index, large_index, floor_chain = _LOG.unpack_from(slot, start)
        start += _LOG.size
    end = start + max(vote, 0)
    rest = end + cluster
    if vote < _NO_VOTE or rest + count * _SEEN.size > SLOT_BYTES:
        return None
    try:
        voted_for = None if vote == _NO_VOTE else slot[start:end].decode()
    except UnicodeDecodeError:
        return None
    return Ballot(
        node_id=node_id,
        term=term,
        voted_for=voted_for,
        generation=generation,
        durable_floor=floor,
        sequence=sequence,
        cluster_id=slot[end:rest],
        edition=edition,
        seen=tuple(_SEEN.iter_unpack(slot[rest : rest + count * _SEEN.size])),
        floor_chain=b"" if floor_chain == _NO_CHAIN else floor_chain,
        first_index=first_index,
        large_index=large_index,
        is_shut_out=bool(flags & _SHUT_OUT),
    )


def _with_floor(ballot: Ballot, floor: int, chain: bytes) -> Ballot:
    large = ballot.large_index if ballot.large_index > floor else 0
    return replace(ballot, durable_floor=floor, floor_chain=chain, large_index=large)


class BallotFile:
    """The file `ballot` of a data directory. Every save is durable when it returns."""

    __slots__ = (
        "_disk",
        "_file",
        "_lock",
        "_path",
        "current",
        "damaged_slots",
        "first_index",
        "is_busy",
        "seen",
    )

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._file: DiskFile | None = None
        self._lock = threading.RLock()
        self.is_busy = False
        """A slot is being written: whoever else wants to write waits."""
        self.first_index = 1
        """Where the log begins, for the first ballot of a directory; later ones remember it."""
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
                f" not vote again; let it rejoin as a new node with an empty directory, or, if it"
                f" is a single node, whose messages are nowhere else, make a new directory of its"
                f" log with `holdfast archive --path {self._path.parent}` and `holdfast restore`"
            )
        newest = max(good, key=lambda ballot: ballot.sequence)
        # What is lost may have been one edition further, and told.
        self.current = replace(newest, edition=newest.edition + len(self.damaged_slots))
        self.seen = newest.seen
        return self.current

    def save(self, ballot: Ballot) -> None:
        """Keep identity, term and vote of `ballot`; the rest is kept here."""
        with self._lock:
            known = self.current
            if known is not None:
                ballot = replace(
                    ballot,
                    durable_floor=known.durable_floor,
                    floor_chain=known.floor_chain,
                    first_index=known.first_index,
                    large_index=known.large_index,
                )
            else:
                ballot = replace(ballot, durable_floor=0, first_index=self.first_index)
            self._save_twice(ballot)

    def save_floor(self, floor: int, chain: bytes = b"") -> None:
        """Note that the log is durable through `floor`, an entry with this chain value."""
        with self._lock:
            if self.current is not None and floor > self.current.durable_floor:
                self._write_slot(_with_floor(self.current, floor, chain))

    def announce_large(self, index: int, floor: int, chain: bytes) -> None:
        """
        Note that entry `index` is about to be written, alone and larger than a run.

        Until the floor has passed it, whatever looks like entries behind its beginning is part
        of its body.
        """
        with self._lock:
            if self.current is not None:
                noted = replace(self.current, large_index=index)
                if floor > noted.durable_floor:
                    noted = _with_floor(noted, floor, chain)
                self._write_slot(noted)

    def save_first(self, index: int) -> None:
        """Note, before their files go, that the log is kept from `index` on only."""
        with self._lock:
            self.first_index = max(self.first_index, index)
            ballot = self.current
            if ballot is not None and index > ballot.first_index:
                if ballot.durable_floor < index - 1:
                    ballot = _with_floor(ballot, index - 1, b"")
                self._save_twice(replace(ballot, first_index=index))

    def claim_through(self, index: int) -> None:
        """Note that entries up to `index` were durable, and are not known any more."""
        with self._lock:
            if self.current is not None:
                claimed = max(index, self.current.durable_floor)
                self._write_slot(replace(self.current, durable_floor=claimed, floor_chain=b""))

    def begin_log(self, index: int, chain: bytes = b"", claimed: int = 0) -> None:
        """
        Note that the log begins at `index` and that nothing of it counts as durable.

        `chain` is the chain value of the entry before. With `claimed` entries up to that one were
        durable before, and are not known any more.
        """
        with self._lock:
            self.first_index = index
            ballot = self.current
            if ballot is None:
                return
            is_claimed = claimed >= index
            begun = replace(
                ballot,
                durable_floor=claimed if is_claimed else index - 1,
                floor_chain=chain if index > 1 and not is_claimed else b"",
                first_index=index,
                large_index=0,
            )
            self._save_twice(begun)

    def write_again(
        self, floor: int, chain: bytes = b"", first_index: int = 0, *, is_end_known: bool = True
    ) -> None:
        """
        Write to both slots anew what was loaded, with the log durable through `floor`.

        After a failed sync the cache may show a ballot that the disk does not have: a process that
        starts on it would vote by what the next power cut takes away. A large entry that was
        announced stays so until the end of the log is known, that is, until what was left of it is
        cut.

        `first_index` is where the log was found to begin, 0 if it is empty. Where it was about to
        be begun anew further on, and was not, the files that are there are the log: none of them
        may be missing at the next start.
        """
        with self._lock:
            self.first_index = first_index or self.first_index
            ballot = self.current
            if ballot is None:
                return
            if floor > ballot.durable_floor or (floor == ballot.durable_floor and chain):
                ballot = _with_floor(ballot, floor, chain)
            if is_end_known:
                ballot = replace(ballot, large_index=0)
            first = first_index or ballot.first_index or self.first_index
            self._save_twice(replace(ballot, first_index=first), is_news=False)

    def lower_floor(self, floor: int, chain: bytes = b"") -> None:
        """Give up the claim on entries after `floor`, before they are cut off."""
        with self._lock:
            ballot = self.current
            if ballot is None:
                return
            if floor < ballot.durable_floor:
                lowered = replace(ballot, durable_floor=floor, floor_chain=chain)
                self._save_twice(replace(lowered, large_index=0))
            else:
                self.forget_large()

    def forget_large(self) -> None:
        """What was announced is cut: another entry may come in its place."""
        with self._lock:
            if self.current is not None and self.current.large_index:
                self._save_twice(replace(self.current, large_index=0))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _save_twice(self, ballot: Ballot, *, is_news: bool = True) -> None:
        known = self.current
        if known is None and not self._disk.exists(self._path):
            self._create(replace(ballot, edition=1))
            return
        if is_news:
            ballot = replace(ballot, edition=1 if known is None else known.edition + 1)
        self._write_slot(ballot, is_news=False)
        self._write_slot(ballot, is_news=False)

    def _create(self, ballot: Ballot) -> None:
        # The name appears only when both slots are durable: a half-made file is no amnesia.
        draft = self._path.with_suffix(".tmp")
        file = self._disk.open(draft, create=True)
        first = replace(ballot, sequence=2, seen=self.seen)
        try:
            file.write(encode_ballot(first), 0)
            file.write(encode_ballot(replace(first, sequence=1)), SLOT_BYTES)
            file.sync()
            self._disk.rename(draft, self._path)
            self._disk.sync_directory(self._path.parent)
        except BaseException:
            file.close()  # Where there is no room it is tried again and again.
            raise
        self._file = file
        self.current = first

    def _write_slot(self, ballot: Ballot, *, is_news: bool = True) -> None:
        previous = self.current
        sequence = 1 if previous is None else previous.sequence + 1
        written = replace(ballot, sequence=sequence, seen=self.seen)
        if is_news:
            written = replace(written, edition=1 if previous is None else previous.edition + 1)
        # Never over the newest good slot: the parity of the sequence alternates the place.
        place = sequence % 2 * SLOT_BYTES
        self.is_busy = True
        try:
            self._open().write_durable([encode_ballot(written)], place)
        finally:
            self.is_busy = False
        self.current = written

    def _open(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self._path)
        return self._file
