"""
Which addresses lead to a wrong database: of another log, or to one that another address leads to.

What is stored twice in one database is stored once. And as long as a broker knows nothing of the
log that it is to serve, another one must not be taken for it because an address leads to that.

Pure: it judges what was read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from holdfast.errors import StoreError, UnreachableError
from holdfast.raidb.member import Member, Row


class Addresses:
    """All that a broker was given."""

    def __init__(self, count: int, set_id: str, *, are_meant: bool) -> None:
        """
        Take what is known of them.

        Args:
            count: How many there are.
            set_id: Whose databases they are to be; empty: those that most of them lead to.
            are_meant: An operator named them for a command: which log that is, those that answer
                say.
        """
        self._count = count
        self._set_id = set_id
        self._are_meant = are_meant

    def leading_wrong(self, answers: Mapping[Member, Row]) -> dict[Member, StoreError]:
        """
        Give the members that are not to be counted, and why.

        Args:
            answers: Of two ways to one database the first counts.

        Raises:
            StoreError: Two lead to one database, and nothing stands in it of a set yet.
        """
        ours = self._set_id or _set_of_most(answers.values(), self._count)
        misled: dict[Member, StoreError] = {}
        first: dict[str, Member] = {}
        for member, row in answers.items():
            of = set_of(row)
            if of and not ours and self._may_be_of_others(of, answers):
                misled[member] = _not_known(member.place, of, row)
            elif ours and of and of != ours:
                misled[member] = UnreachableError(
                    f"{member.place} has another log now ({of}) than the one of these brokers"
                    f" ({ours}): see where this address leads to"
                )
            elif row.member in first:
                misled[member] = StoreError(
                    f"{first[row.member].place} and {member.place} are one database: what is kept"
                    f" in both would be kept once; give each --store a database of its own"
                )
                if row.written is None:
                    raise misled[member]
            else:
                first[row.member] = member
        return misled

    def _may_be_of_others(self, set_id: str, answers: Mapping[Member, Row]) -> bool:
        """Whether more lead elsewhere or do not answer than this set has more databases."""
        if self._are_meant or len(answers) == self._count:
            return False  # What is of two logs is refused.
        found = {it.member: it for it in answers.values() if set_of(it) == set_id}
        new_count = sum(it.written is None for it in answers.values())
        missing = {
            name
            for it in found.values()
            if it.written is not None
            for name, _ in it.written.known.states
        } - found.keys()
        return self._count - len(found) - new_count > len(missing)


def _not_known(place: str, set_id: str, row: Row) -> UnreachableError:
    """What is to be told of a log that may be that of these brokers; nobody else can say it."""
    own = ", ".join(it for _, it in row.written.places) if row.written is not None else ""
    return UnreachableError(
        f"{place} has a log ({set_id}) of fewer databases than are named here, and the others do"
        f" not answer: it is not known whether it is that of these brokers. It is tried again; if"
        f" it is, name only the databases of that log ({own}), or give this broker the --data of"
        f" one that served it"
    )


def set_of(row: Row) -> str:
    """Of which set it is; empty where it is of none yet."""
    return "" if row.written is None else row.written.known.set_id


def _set_of_most(rows: Iterable[Row], address_count: int) -> str:
    """The set that more than half of all addresses lead to; nothing if there is none."""
    sets = {it.member: it.written.known.set_id for it in rows if it.written is not None}
    counts = Counter(sets.values())
    return next((it for it, count in counts.items() if 2 * count > address_count), "")
