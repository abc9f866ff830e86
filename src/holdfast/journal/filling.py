"""
What a log that was begun anew has to reach, and what is kept of the one before it.

A replica that is too far behind what the leader keeps must begin at a later entry. What lives of
the entries before was written again further on, so the new log is worth something only once it
reaches the end of the leader's log as it was then: its target. Values only; the files are
kept_log.py's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the leader's log ended when it told a replica to begin anew."""

    index: int
    record: int
    """The number of the record after the last."""
    timestamp: int
    """Of the last entry, in microseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """A log that is being filled anew, and what is kept of the one before."""

    origin: int
    """
    What is kept bears this in its name: where the new log began at first, or the next number that
    no earlier one has.
    """
    base_index: int
    target: Target
    kept: Target | None = None
    """Where the kept log ends; None if there was none, or it was given up."""
    kept_files: tuple[str, ...] = ()
    """Its segment files, oldest first."""
    is_of_voter: bool = False
    """The node was a voter then: a majority has all that is in the kept log."""

    def without_kept(self) -> Filling:
        """The same, once what is kept is being removed."""
        return replace(self, kept=None)

    def is_reached(self, index: int) -> bool:
        """Whether a log that ends with `index` has all that was there when it was begun."""
        return index >= self.target.index

    def missing_records(self, next_record: int) -> int:
        """How many records are certainly still missing in a log that goes on with this number."""
        return max(self.target.record - next_record, 0)


def utc(microseconds: int) -> str:
    """Write a timestamp of the log for people; it is what the clock of some leader said."""
    try:
        moment = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{microseconds:,} microseconds after 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def begin_filling(
    present: Filling | None,
    base_index: int,
    target: Target,
    end: Target,
    files: tuple[str, ...],
    origin: int,
    *,
    is_of_voter: bool = False,
) -> Filling:
    """
    A log of these files that ends there is begun anew; the log before a log not full stays.

    `origin` is higher than any there was: files of an earlier one may not have gone, and which of
    two is the later one must show, also where a log begins anew before the one it replaces.
    """
    if present is not None:
        is_of_voter = is_of_voter or present.is_of_voter
        return replace(present, base_index=base_index, target=target, is_of_voter=is_of_voter)
    return Filling(
        origin=origin,
        base_index=base_index,
        target=target,
        kept=end if files else None,
        kept_files=files,
        is_of_voter=is_of_voter,
    )
