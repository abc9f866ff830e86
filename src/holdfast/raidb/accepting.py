"""
Going on with some of several databases alone, whatever was confirmed in others: an operator's word.

For brokers that are stopped, or wait because too few databases are left. The next set is written in
those that are there, under an epoch above all that they promised; others that went on elsewhere are
told by a random mark, and refused. The lease is given back at once: brokers take it as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.errors import MirrorsMissingError, StoreError, UnreachableError
from holdfast.leases.contract import Claimant, Outcome
from holdfast.mirrors.mirror_set import MirrorSet, Start, accept
from holdfast.raidb.databases import ActOf, Databases
from holdfast.raidb.member import KnownSet, Member, Row, Token

CALL_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class FoundDatabases:
    """Databases that were looked at."""

    databases: Databases
    rows: Mapping[str, Row]

    @property
    def copies(self) -> dict[str, MirrorSet]:
        """The set as each of those has it that are of one."""
        return {it: copy for it, row in self.rows.items() if (copy := row.copy) is not None}

    def trouble(self) -> str:
        """
        Why nobody starts with them; empty if somebody may.

        Raises:
            StoreError: They are of no set, or of several.
        """
        if not self.copies:
            told = "; ".join(map(str, self.databases.troubles.values()))
            raise StoreError(
                f"none of these databases is one of several that hold the same log"
                f"{told and ': '}{told}"
            )
        try:
            Start(self.copies)
        except MirrorsMissingError as error:
            return f"{self.databases.named(error.missing)} cannot be used"
        return ""

    def accept(self, mark: str, holder: str) -> MirrorSet:
        """
        Let brokers go on with these alone.

        Args:
            mark: Random, so that databases that went on elsewhere are told.
            holder: Nobody's id, 32 hexadecimal digits.

        Raises:
            StoreError: None of them has all that was confirmed, or one went on apart.
            UnreachableError: One does not answer, or is being written: nothing may be assumed.
        """
        accepted = accept(self.copies, mark)
        token = Token(accepted.number.start, holder)
        claimant = Claimant(holder=holder, name="accept", admin="", stomp="")
        places = tuple((it, self.databases.name(it)) for it, _ in accepted.states)
        for member in sorted(accepted.active):
            act = _take_and_write(self.rows[member], token, claimant, KnownSet(accepted, places))
            if self.databases.ask(member, act, CALL_SECONDS_MAX) is not Outcome.STORED:
                raise UnreachableError(
                    f"{self.databases.name(member)} is being written by a broker: stop all of them"
                    f" first"
                )
        return accepted


def look_at(databases: Databases) -> FoundDatabases:
    """Read what stands in these databases."""
    return FoundDatabases(databases, databases.read(CALL_SECONDS_MAX))


def _take_and_write(row: Row, token: Token, claimant: Claimant, written: KnownSet) -> ActOf:
    def act(member: Member, seconds: float) -> Outcome:
        if not member.seize(row, token, claimant, seconds):
            return Outcome.DEPOSED
        outcome = member.write_set(token, written, seconds)
        member.give_back(token, seconds)
        return outcome

    return act
