"""
What several members say together: who holds the lease, where the log ends, whether that is sure.

Values only. What is judged is the newest set among the rows that were read, by the rules of
`mirrors.mirror_set`: with more than half of its active members, whoever looks has at least one that
any other one needs as well.

Invariants:
    The end is that of the longest log among the active members that were read: what one that starts
    with them goes on with.
    Sure is what more than half of all active members have: whatever others start with has it, and
    makes it the end again.
    The epoch is that of the newest set: a take that did not come to a set has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from holdfast.errors import MirrorHistoriesError
from holdfast.leases.contract import Claimant, Holding, Waiter
from holdfast.mirrors.mirror_set import Start
from holdfast.raidb.member import Row

_SEVERAL = "0" * 32
"""Stands for the holder where members name different ones: it is nobody's."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What was found."""

    start: Start
    holding: Holding
    by_length: tuple[str, ...]
    """The active members that were read, the one with the longest log first."""

    def is_of_one_set(self, rows: Mapping[str, Row]) -> bool:
        """Whether each active member that was read has the newest set itself."""
        number = self.start.newest.number
        return all(
            (copy := rows[it].copy) is not None and copy.number == number for it in self.start.holds
        )


def look(rows: Mapping[str, Row], known: Mapping[str, Row]) -> Sight:
    """
    Judge the rows that were just read; `known` has those read before as well, for their beats.

    Raises:
        ForeignMirrorError: They are of different sets.
        MirrorHistoriesError: Some went on apart from others, by an operator's word.
        MirrorsMissingError: Too few were read to be sure.
    """
    start = Start({member: copy for member, row in rows.items() if (copy := row.copy) is not None})
    active = [rows[it].lease for it in sorted(start.holds)]
    ends = sorted((it.end for it in active), key=lambda it: it.index, reverse=True)
    claimant, is_released = _holder(rows[it].lease for it in sorted(start.witnesses))
    holding = Holding(
        epoch=start.newest.number.start,
        beat=_beat({**known, **rows}),
        claimant=claimant,
        is_released=is_released,
        first_index=min(max(it.first_index for it in active), ends[0].index + 1),
        end=ends[0],
        sure=ends[min(len(start.newest.active) // 2, len(ends) - 1)],
    )
    by_length = sorted(start.holds, key=lambda it: (-rows[it].lease.end.index, it))
    return Sight(start, holding, tuple(by_length))


def told_by_each(lines: Iterable[Waiter]) -> list[Waiter]:
    """Give what each broker told last, by name, of the lines of all members."""
    told: dict[str, Waiter] = {}
    for it in lines:
        known = told.setdefault(it.claimant.name, it)
        if known.claimant.holder == it.claimant.holder and known.beat < it.beat:
            told[it.claimant.name] = it  # The other database missed the last time.
    return [told[name] for name in sorted(told)]


def told_apart(
    error: MirrorHistoriesError, rows: Mapping[str, Row], name: Callable[[str], str]
) -> MirrorHistoriesError:
    """Name two that went on apart by their addresses, with what each has: one is to be chosen."""

    def shown(member: str) -> str:
        row = rows.get(member)
        ends = "" if row is None else f" (through entry {row.lease.end.index:,})"
        return f"{name(member)}{ends}"

    return MirrorHistoriesError(shown(error.first), shown(error.second), error.where)


def _holder(leases: Iterable[Holding]) -> tuple[Claimant | None, bool]:
    """Who may hold the lease, and whether it was given back everywhere."""
    taken = [it for it in leases if it.claimant is not None]
    if not taken:
        return None, False
    held = [it for it in taken if not it.is_released]
    newest = max(held or taken, key=lambda it: it.epoch).claimant
    assert newest is not None, "those without were left out"
    holders = {it.claimant.holder: it.claimant for it in held if it.claimant is not None}
    if len(holders) > 1:
        # No shortcut is taken past any of them: each is waited for, the longest as well.
        longest = max(it.lease_seconds for it in holders.values())
        return replace(newest, holder=_SEVERAL, admin="", lease_seconds=longest), False
    return newest, not held


def _beat(rows: Mapping[str, Row]) -> int:
    """A number that is another one as soon as there was any sign of life in any member."""
    told = [(it, rows[it].lease.epoch, rows[it].lease.beat) for it in sorted(rows)]
    if not any(epoch for _, epoch, _ in told):
        return 0
    return int.from_bytes(blake2b(repr(told).encode(), digest_size=7).digest(), "big")
