"""
Sizes, rates and limits of the journal, with their units in their names.

What is part of the format is not a setting: the sizes of headers, and how much the writer may
write between two syncs (`jobs.RUN_BYTES_MAX`), because recovery draws conclusions from it.

Immutable; checked as a whole when built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from holdfast.errors import ConfigError
from holdfast.model.allowed import Allowed

KiB: Final = 1024
MiB: Final = 1024 * KiB

SEGMENT_BYTES_MIN: Final = 8 * KiB
"""The header block of 4 KiB and as much again."""

LOG_SEGMENTS_MIN: Final = 8
"""A log that may have less has no room for what lives while its oldest segment is cleaned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """How one journal behaves. `segment_bytes` must be the same on all nodes of a cluster."""

    segment_bytes: Annotated[int, Allowed(64 * KiB, 4 * 1024 * MiB)] = 64 * MiB
    """Size of a segment file; one entry that is larger gets a segment of its own size."""

    spare_segments: Annotated[int, Allowed(0, 64)] = 1
    """How many zero-filled files wait to become segments. They are also a reserve when the disk
    is full: acknowledgements still have somewhere to go."""

    fill_bytes_per_second: Annotated[int, Allowed(MiB)] = 256 * MiB
    """How fast spare files are filled in the background. Keep it above the rate of publishing,
    or rolling waits for the disk."""

    tail_cache_bytes: Annotated[int, Allowed(0)] = 32 * MiB
    """Recent entries kept in memory, for followers and consumers that keep up. Entries that are
    not durable yet stay in memory whatever their size."""

    tail_needed_bytes_max: int = 160 * MiB
    """The same for entries that a linked member or this node's broker is about to ask for: two of
    the largest, and what else is under way."""

    read_cache_bytes: Annotated[int, Allowed(0)] = 8 * MiB
    """Entries read back from disk kept in memory; at least one is."""

    open_files_max: Annotated[int, Allowed(8, 65_536)] = 64
    """Segments kept open for reading."""

    reserve_bytes: Annotated[int, Allowed(0)] = 0
    """Publishing is refused while less is free on the disk; 0 means the larger of three segments
    and 256 MiB."""

    log_bytes_max: Annotated[int, Allowed(0)] = 0
    """Publishing is refused while the log has more, and cleaning goes for all that is dead; 0: as
    much as the disk has room for. At least eight segments."""

    space_check_seconds: float = 0.5
    """How often the free space is looked up at most."""

    floor_idle_seconds: float = 0.05
    """After this long without a write the ballot records how far the log is durable."""

    floor_busy_seconds: float = 0.25
    """The same while writes go on. What lies behind the recorded place is what recovery must
    judge by its looks after a power cut."""

    scrub_bytes_per_second: int = 4 * MiB
    """How fast sealed segments are read again to find rot, at most: 100 GB in seven hours. It runs
    on the loop, so faster would cost traffic; 16 MiB/s took a tenth of it."""

    scrub_round_seconds: Annotated[float, Allowed(0, 366 * 86_400)] = 3600.0
    """Reading all of them again takes at least so long, however few they are: a log of a gigabyte
    does not cost an idle node what one of 100 GB does."""

    def __post_init__(self) -> None:
        problems = [
            f"{name}: {value:,} is below {least:,}"
            for name, value, least in (
                ("segment_bytes", self.segment_bytes, SEGMENT_BYTES_MIN),
                ("spare_segments", self.spare_segments, 0),
                ("fill_bytes_per_second", self.fill_bytes_per_second, MiB),
                ("tail_cache_bytes", self.tail_cache_bytes, 0),
                ("read_cache_bytes", self.read_cache_bytes, 0),
                ("open_files_max", self.open_files_max, 1),
                ("reserve_bytes", self.reserve_bytes, 0),
                ("scrub_bytes_per_second", self.scrub_bytes_per_second, 1),
                ("scrub_round_seconds", self.scrub_round_seconds, 0),
            )
            if value < least
        ]
        if self.segment_bytes % (4 * KiB):
            problems.append(f"segment_bytes: {self.segment_bytes:,} is not a multiple of 4,096")
        least = LOG_SEGMENTS_MIN * self.segment_bytes
        if 0 < self.log_bytes_max < least:
            problems.append(
                f"log_bytes_max: {self.log_bytes_max:,} is below {LOG_SEGMENTS_MIN} segments;"
                f" allowed: 0, or {least:,} and more"
            )
        if problems:
            raise ConfigError(problems)

    @property
    def reserve(self) -> int:
        """The bytes that must stay free, the default worked out."""
        return self.reserve_bytes or max(3 * self.segment_bytes, 256 * MiB)
