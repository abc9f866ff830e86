"""
Where everything stands in a shared directory.

    store              what this directory is, and the log's own id; laid out once
    current            one page for each epoch that has begun, at a place of its own
    host               who has mounted it, where its file system is a machine's own
    lease/claim-<E>    who has won epoch E; a name is won once
    lease/beat-<E>     its signs of life and what it knows to be sure
    journal/<base>-<E>.seg    entries, written by epoch E alone
    brokers/<name>     what a broker tells of itself
    reserve-<N>        filling, which a taker removes where there is no room
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

_SEGMENT: Final = re.compile(r"([0-9]{20})-([0-9]+)(?:\.([0-9]+))?\.seg")
_LEFT_OVERS: Final = (".nfs", ".store-", "lost+found", "reserve-")
"""What NFS keeps of removed files, what a broker that died at its start left, what ext4 makes; and
room that is kept."""


class SegmentName(NamedTuple):
    """What the name of a segment says: its first entry, its epoch, which attempt it is."""

    base: int
    epoch: int
    attempt: int = 0

    def __str__(self) -> str:
        attempt = f".{self.attempt}" if self.attempt else ""
        return f"{self.base:020d}-{self.epoch}{attempt}.seg"


def parse_segment_name(name: str) -> SegmentName | None:
    """Return what a file's name says, None if it is no segment's."""
    match = _SEGMENT.fullmatch(name)
    return None if match is None else SegmentName(*(int(it or 0) for it in match.groups()))


class Places:
    """The paths of one shared directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "store"
        self.current = root / "current"
        self.host = root / "host"
        self.lease = root / "lease"
        self.journal = root / "journal"
        self.brokers = root / "brokers"

    def claim(self, epoch: int) -> Path:
        """Who has won this epoch."""
        return self.lease / f"claim-{epoch}"

    def beat(self, epoch: int) -> Path:
        """What the holder of this epoch says of itself."""
        return self.lease / f"beat-{epoch}"

    def reserve(self, number: int) -> Path:
        """Room that is kept for whoever takes the lease."""
        return self.root / f"reserve-{number}"

    def broker(self, name: str) -> Path:
        """What the broker of this name tells."""
        # A name that begins with a dot would be hidden, or be the directory itself.
        safe = quote(name, safe=" ")
        return self.brokers / (f"%2E{safe[1:]}" if safe.startswith(".") else safe)

    def is_ours(self, name: str) -> bool:
        """Whether a name in the directory is one of these, or means nothing."""
        known = {it.name for it in (self.store, self.current, self.host)}
        known |= {it.name for it in (self.lease, self.journal, self.brokers)}
        return name in known or name.startswith(_LEFT_OVERS)


def broker_name(name: str) -> str:
    """Return whose line a file of `brokers` is."""
    return unquote(name)
