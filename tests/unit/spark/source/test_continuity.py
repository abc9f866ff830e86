"""
Whether a log is the one that was read: on logs in memory that part at some entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from holdfast.errors import RecordNotFoundError, StoreError
from holdfast.spark.log.entry_block import EntryBlock, cut_entries
from holdfast.spark.log.source import LogPosition
from holdfast.spark.source.continuity import chain_after, check_continues, taken_at
from holdfast.spark.source.offsets import Taken
from trials.pipeline.written_log import message, sealed

LAST = 12


@dataclass
class PaperSource:
    """A log of twelve entries; from `parts_at` on they are others."""

    parts_at: int = LAST + 1
    first: int = 1
    last: int = LAST
    cluster: str = "c1"

    def __post_init__(self) -> None:
        bodies = (b"new" if n >= self.parts_at else b"old" for n in range(1, LAST + 1))
        self.entries = sealed(*([message(1, n, body)] for n, body in enumerate(bodies, 1)))

    def position(self) -> LogPosition:
        return LogPosition(first_index=self.first, last_index=self.last, cluster_id=self.cluster)

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock]:
        if first_index < self.first:
            raise RecordNotFoundError("gone")
        raws = [entry.raw for entry in self.entries[first_index - 1 : last_index]]
        yield cut_entries(b"".join(raws), first_index)

    def queue_names(self) -> dict[int, str]:
        return {}

    def reach(self, from_index: int, bytes_max: int) -> int:
        return self.last

    def taken(self, index: int) -> Taken:
        return taken_at(self, self.position(), index)


READ = PaperSource()


def check(source: PaperSource, taken: Taken) -> None:
    check_continues(source, source.position(), taken)


@pytest.mark.parametrize("index", [0, 1, 6, LAST])
def test_the_same_log_is_recognised(index: int) -> None:
    """At its beginning, in it, and at its end."""
    taken = READ.taken(index)
    assert taken.chain
    check(READ, taken)
    check(PaperSource(first=5), taken)


def test_another_cluster_is_told() -> None:
    """Both are named, and what to do."""
    with pytest.raises(StoreError, match=r"cluster c1, .* cluster c2: .*checkpointLocation"):
        check(PaperSource(cluster="c2"), READ.taken(6))
    check(PaperSource(cluster="c2"), Taken(6))


@pytest.mark.parametrize("first", [1, 6, 7])
def test_a_log_that_parted_before_is_told(first: int) -> None:
    """Also where the entry itself is cleaned away: the one behind it proves what came before."""
    with pytest.raises(StoreError, match=r"behind entry 6 .*promoted by force.*start_time"):
        check(PaperSource(parts_at=6, first=first), READ.taken(6))


def test_a_log_that_parted_behind_is_the_same() -> None:
    """A promotion that lost nothing of what was taken stops no query."""
    check(PaperSource(parts_at=7), READ.taken(6))
    check(PaperSource(parts_at=8, first=7), READ.taken(6))


def test_what_the_log_cannot_tell_is_not_held_against_it() -> None:
    """Entries that are not there yet, or long gone: reading them is refused elsewhere."""
    assert "" == chain_after(READ, READ.position(), LAST + 1)
    check(PaperSource(last=4), READ.taken(6))
    check(PaperSource(first=9, parts_at=6), READ.taken(6))
    assert "" == chain_after(PaperSource(first=9), LogPosition(first_index=1, last_index=9), 3)
