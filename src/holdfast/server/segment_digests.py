"""
The digests of sealed segments, for those who compare replicas.

A digest reads a whole file, and a log may have thousands: so there is one thread for it, apart
from the threads that checkpoints wait for, one request is worked on at a time, and what is known
is not read again for a while.

Invariants:
    The loop says which files there are; the thread only reads files.
    A remembered digest is of the very entries that the segment holds now, and not older than
    `AGE_SECONDS_MAX`: rot that came meanwhile is the scrubber's to find, and then it is forgotten.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Final

from holdfast.admin.status import SegmentStatus
from holdfast.environment.clock import Clock
from holdfast.errors import StoreError
from holdfast.journal.journal import Journal
from holdfast.journal.segment import SegmentStatistics, file_digest

AGE_SECONDS_MAX: Final = 600.0
"""After this a digest is taken from the file again."""

_LOOKED_AT_ONCE: Final = 100
"""Segments; a log may have thousands, and the loop serves others too."""

Key = tuple[int, int, int]
"""First and last index of a segment and the term of the last: two such segments are the same."""


class SegmentDigests:
    """What the node tells of the files of its log."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._known: dict[Key, tuple[float, str]] = {}
        """When the digest was taken, and the digest."""
        self._one_at_a_time = asyncio.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self.files_read = 0
        """How many digests were taken from files."""

    async def segments(
        self, after: int = 0, seconds_max: float | None = None
    ) -> tuple[list[SegmentStatus], int]:
        """
        The files of the log behind the one that begins at `after`, with the digests of the sealed.

        Oldest first. After `seconds_max` what there is by then is given, one at least. Also gives
        behind which to go on; 0 where nothing is left.
        """
        async with self._one_at_a_time:
            await self._forget()
            begun_at = self._clock.monotonic()
            found: list[SegmentStatus] = []
            left = [it for it in self._journal.segments() if it.base_index > after]
            for count, segment in enumerate(left, 1):
                if not count % _LOOKED_AT_ONCE:
                    await asyncio.sleep(0)
                is_over = self._clock.monotonic() - begun_at >= (seconds_max or inf)
                if is_over and found:
                    return found, found[-1].base_index
                try:
                    digest = await self._digest(segment) if segment.sealed else ""
                except FileNotFoundError:
                    continue  # cleaned away while others were read
                found.append(
                    SegmentStatus(
                        base_index=segment.base_index,
                        last_index=segment.last_index,
                        bytes=segment.bytes,
                        sealed=segment.sealed,
                        digest=digest,
                    )
                )
            return found, 0

    def close(self) -> None:
        """Take no more requests; a file that is being read is read to its end."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _digest(self, segment: SegmentStatistics) -> str:
        """Return the digest of a sealed segment, from its file if it is not known."""
        key = self._key(segment)
        known = self._known.get(key) if key is not None else None
        if known is not None:
            return known[1]
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="segment-digests")
        loop = asyncio.get_running_loop()
        disk = self._journal.disk
        raw = await loop.run_in_executor(self._thread, file_digest, disk, segment.path)
        self.files_read += 1
        if key is not None and key == self._key(segment):
            self._known[key] = self._clock.monotonic(), raw.hex()
        return raw.hex()

    def _key(self, segment: SegmentStatistics) -> Key | None:
        """Return what stands for the content of a segment; None if it is damaged or gone."""
        base, last = segment.base_index, segment.last_index
        for damage in self._journal.damage:
            if base <= damage.index <= last or damage.segment == segment.path.name:
                return None
        try:
            return base, last, self._journal.term_at(last)
        except StoreError:
            return None

    async def _forget(self) -> None:
        """Keep only what is of a segment that is there, whole, and not too old."""
        oldest = self._clock.monotonic() - AGE_SECONDS_MAX
        present = set()
        for count, segment in enumerate(self._journal.segments(), 1):
            present.add(self._key(segment))
            if not count % _LOOKED_AT_ONCE:
                await asyncio.sleep(0)
        self._known = {
            key: (taken, digest)
            for key, (taken, digest) in self._known.items()
            if key in present and taken > oldest
        }
