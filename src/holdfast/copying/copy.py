"""
Copy a log: every entry that is kept, the same bytes, and then read both again before it counts.

Invariants:
    Each entry is seen to follow on the one before it before it is stored.
    A copy becomes whole only once all of it was read back and is the source's, byte for byte, and
    nobody has served the source meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from holdfast.copying.contract import Source, Target
from holdfast.errors import StoreError
from holdfast.journal.entry import Entry, verify_chain
from holdfast.leases.copies import CopyPlan

Told = Callable[[str, int, int], None]
"""Told of each step ("copied", "compared") how many entries are done, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What was copied."""

    identity: str
    first_index: int
    last_index: int
    chain: str
    entries: int
    """That a broker on the copy reads; the anchor, if there is one, is none."""

    bytes: int
    was_done: int
    """Of them, those that an earlier attempt had stored."""

    was_whole: bool
    """The copy was there already, and was only compared."""

    start: str
    """How a broker is started on it."""


def copy(source: Source, target: Target, told: Told = lambda *_: None) -> Copied:
    """
    Let the target be a copy of the source; see `Source` and `Target` for what they raise.

    Raises:
        StoreError: The source is damaged, or what was copied is not the same.
    """
    plan = source.plan
    begun = target.begin(plan)
    first = plan.begins_behind.index
    total = plan.end.index - first
    for entries in _behind(source, begun.index, begun.chain):
        target.append(entries)
        source.keep()
        target.keep()
        told("copied", entries[-1].index - first, total)
    size = _compare(source, target, told)
    start = target.finish(lambda: source.keep(at_once=True))
    _require_unserved(source, target)
    return Copied(
        identity=plan.identity,
        first_index=first + 1,
        last_index=plan.end.index,
        chain=plan.end.chain.hex(),
        entries=total,
        bytes=size,
        was_done=begun.index - first,
        was_whole=target.is_whole,
        start=start,
    )


def _require_unserved(source: Source, target: Target) -> None:
    """
    See once more that nobody has served the source, while the copy became whole.

    Raises:
        StoreError: Somebody has: the copy lacks what was confirmed there since.
    """
    try:
        source.keep(at_once=True)
    except StoreError as error:
        raise StoreError(
            f"{error}; it may have been served while {target.place} became whole, which then lacks"
            f" what was confirmed meanwhile: start no broker on {target.place}, remove it, stop all"
            f" brokers of {source.place}, and copy again"
        ) from error


def _behind(source: Source, index: int, chain: bytes) -> Iterator[list[Entry]]:
    """Chunks of what follows on this entry, each entry seen to follow on the one before."""
    plan = source.plan
    if index > plan.begins_behind.index:
        found = source.entries(index - 1)
        if not found or found[0].chain != chain:
            raise StoreError(
                f"what was copied ends with another entry {index:,} than {source.place} has: it is"
                f" a copy of something else; empty it, and copy again"
            )
    before: Entry | None = None
    while index < plan.end.index:
        entries = source.entries(index)
        for entry in entries:
            index += 1
            is_next = entry.index == index and verify_chain(entry, chain)
            if before is not None:
                is_next = is_next and entry.first_record == before.next_record
                is_next = is_next and entry.term >= before.term
            if not is_next:
                raise StoreError(
                    f"entry {index:,} of {source.place} does not follow on the one before it: the"
                    f" log was changed by hand; nothing of it is served from the copy"
                )
            before, chain = entry, entry.chain
        if not entries:
            raise StoreError(f"{source.place} has no entry {index + 1:,} any more")
        yield entries


def _compare(source: Source, target: Target, told: Told) -> int:
    """Read both again, and see that they are the same; give the bytes of all entries."""
    plan = source.plan
    first = plan.begins_behind.index
    total = plan.end.index - first
    size, index = 0, first
    for ours, theirs in zip_longest(_each(source, plan), _each(target, plan)):
        if ours is None or theirs is None or ours.raw != theirs.raw:
            raise StoreError(
                f"entry {index + 1:,} of {target.place} is not that of {source.place}: it was"
                f" copied and cannot be read back as it was; look at the disk below it, empty it,"
                f" and copy again"
            )
        index = ours.index
        size += len(ours.raw)
        if index % 256 == 0 or index == plan.end.index:
            source.keep()
            target.keep()
            told("compared", index - first, total)
    if index != plan.end.index:
        raise StoreError(f"{target.place} ends with entry {index:,}, and not {plan.end.index:,}")
    return size


def _each(log: Source | Target, plan: CopyPlan) -> Iterator[Entry]:
    """Every entry of a log, in order."""
    index = plan.begins_behind.index
    while index < plan.end.index:
        entries = log.entries(index)
        if not entries:
            return
        yield from entries
        index = entries[-1].index
