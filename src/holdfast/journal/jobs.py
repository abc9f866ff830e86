"""
What the loop thread asks of the writer thread: jobs, and the pieces of a write.

A *run* is what the writer writes between two syncs. Recovery argues "a good entry further on
proves that this one was durable", which is true only across runs. So runs are bounded, and an
entry with 512 zeros in a row ends its run: inside a run a torn entry then always shows itself by
a sector of zeros. The bounds are part of the format for that reason.

Made by `Journal` on the loop thread, given to `JournalWriter.submit` in the order made, and from
then on the writer's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

from holdfast.errors import JournalFailedError
from holdfast.journal.ballot import Ballot
from holdfast.journal.entry import FLAG_ZEROS, Entry
from holdfast.journal.filling import Filling
from holdfast.journal.segment import Segment

RUN_BYTES_MAX: Final = 4 * 1024 * 1024
"""The most bytes written between two syncs, unless one entry alone is larger."""
RUN_ENTRIES_MAX: Final = 1024
"""The most entries written between two syncs; also the most buffers of one Linux pwritev."""


class Piece:
    """Entries that follow each other in one segment and may share a run."""

    __slots__ = (
        "bytes",
        "buffers",
        "is_closed",
        "last_chain",
        "last_index",
        "offset",
        "opens",
        "segment",
    )

    def __init__(self, segment: Segment, offset: int, *, opens: bool) -> None:
        self.segment = segment
        self.offset = offset
        self.opens = opens
        """The segment's file must be made first."""
        self.buffers: list[bytes] = []
        self.bytes = 0
        self.last_index = 0
        self.last_chain = b""
        self.is_closed = False

    def add(self, entry: Entry, size: int) -> bool:
        """Take the entry that follows; False if it does not belong into this run."""
        if self.is_closed or (
            self.buffers
            and (self.bytes + size > RUN_BYTES_MAX or len(self.buffers) == RUN_ENTRIES_MAX)
        ):
            return False
        self.buffers.append(entry.raw)
        self.bytes += size
        self.last_index = entry.index
        self.last_chain = entry.chain
        self.is_closed = bool(entry.raw[7] & FLAG_ZEROS)
        return True

    def join(self, other: Piece) -> bool:
        """Take over the piece that follows; False if it needs a run of its own."""
        if (
            self.is_closed
            or other.opens
            or other.segment is not self.segment
            or other.offset != self.offset + self.bytes
            or self.bytes + other.bytes > RUN_BYTES_MAX
            or len(self.buffers) + len(other.buffers) > RUN_ENTRIES_MAX
        ):
            return False
        self.buffers.extend(other.buffers)
        self.bytes += other.bytes
        self.last_index = other.last_index
        self.last_chain = other.last_chain
        self.is_closed = other.is_closed
        return True


class WriteJob:
    """Something the writer does. `is_done` becomes true when it is durable."""

    __slots__ = ("is_done",)

    def __init__(self) -> None:
        self.is_done = False


class AppendJob(WriteJob):
    """Write entries behind the last one; first `cut` what recovery left there, if anything."""

    __slots__ = ("cut", "last_index", "pieces")

    def __init__(
        self, pieces: list[Piece], last_index: int, cut: TruncateJob | None = None
    ) -> None:
        super().__init__()
        self.pieces = pieces
        self.last_index = last_index
        self.cut = cut


Claim: TypeAlias = tuple[int, int]
"""Term and index of an entry that may have been stored, and is not known any more."""


class TruncateJob(WriteJob):
    """
    Make everything after `after_index` zero again, later segments gone.

    With `keep_in` the bytes are first copied there. Where nobody knows what is cut, `claim` is the
    last entry that it may have held, (term, index), and stands until the log is further than that:
    this node may have said that it holds it.
    """

    __slots__ = (
        "after_index",
        "chain",
        "claim",
        "end",
        "keep_in",
        "removed",
        "segment",
        "start",
    )

    def __init__(
        self,
        after_index: int,
        chain: bytes,
        segment: Segment,
        start: int,
        end: int,
        removed: list[Segment],
        claim: Claim | None = None,
    ) -> None:
        super().__init__()
        self.after_index = after_index
        self.chain = chain
        self.segment = segment
        self.start = start
        self.end = end
        self.removed = removed
        self.claim = claim
        self.keep_in: Path | None = None

    @property
    def kept_index(self) -> int:
        """The last entry that stays."""
        return self.after_index


class ResetJob(WriteJob):
    """
    Remove the whole log; the next entry begins it anew at `base_index`.

    With `filling` it is noted what the new log has to reach, and, if `is_set_aside`, the files are
    kept until then. `claim` is that of a cut, where nothing at all is left before it.
    """

    __slots__ = ("base_index", "claim", "filling", "is_set_aside", "previous_chain", "removed")

    def __init__(self, base_index: int, previous_chain: bytes, removed: list[Segment]) -> None:
        super().__init__()
        self.base_index = base_index
        self.previous_chain = previous_chain
        self.removed = removed
        self.filling: Filling | None = None
        self.is_set_aside = False
        self.claim: Claim | None = None

    @property
    def kept_index(self) -> int:
        """The entry before the new beginning."""
        return self.base_index - 1


Cut: TypeAlias = TruncateJob | ResetJob


class RepairJob(WriteJob):
    """
    Write a damaged entry over with a peer's good copy, in its old place.

    `is_void` is set when the file may go, or the entry was cut: then there is nothing to mend.
    """

    __slots__ = ("entry", "is_void", "segment", "start")

    def __init__(self, entry: Entry, segment: Segment, start: int) -> None:
        super().__init__()
        self.entry = entry
        self.segment = segment
        self.start = start
        self.is_void = False


class BallotJob(WriteJob):
    """Keep a ballot. Nothing that depends on it may be said before `is_done`."""

    __slots__ = ("ballot",)

    def __init__(self, ballot: Ballot) -> None:
        super().__init__()
        self.ballot = ballot


class WriteResult:
    """
    What the writer reports, from its own thread.

    `stored_index`: the log is durable through here, as the writer sees it. `jobs`: done since the
    last report. `seconds`: how long the write and sync took. With `failure` nothing more will
    ever be stored.
    """

    __slots__ = ("failure", "jobs", "seconds", "stored_index")

    def __init__(
        self,
        stored_index: int,
        jobs: list[WriteJob],
        seconds: float = 0.0,
        failure: JournalFailedError | None = None,
    ) -> None:
        self.stored_index = stored_index
        self.jobs = jobs
        self.seconds = seconds
        self.failure = failure
