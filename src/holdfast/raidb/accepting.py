"""
Going on with some of several databases alone, whatever was confirmed in others: an operator's word.

For brokers that are stopped, or wait because too few databases are left. Those that are there are
taken first, all of them, under an epoch above all that they promised, and only then the next set is
written in each: broken off anywhere it is done again as it was begun, or what it came to is enough
for brokers to start. Others that went on elsewhere are told by a random mark, and refused. The
lease is given back at once: brokers take it as ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from holdfast.errors import MirrorsMissingError, StoreError, UnreachableError
from holdfast.leases.contract import Claimant, Outcome
from holdfast.mirrors.mirror_set import MirrorSet, Start, accept, newest_of
from holdfast.raidb.databases import Databases, named_each
from holdfast.raidb.member import ActOf, KnownSet, Member, Row, Token

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

    def why_not(self, member: str) -> str:
        """Why a member was not read."""
        trouble = self.databases.troubles.get(self.databases.name(member))
        return "it was not given" if trouble is None else str(trouble)

    def require_answers(self) -> None:
        """
        See that each that was named was read: one that was not may have what the others lack.

        Raises:
            UnreachableError: One was not.
        """
        troubles = self.databases.troubles
        if not troubles:
            return
        known = {self.databases.name(name) for name, _ in newest_of(self.copies).states}
        strange = sorted(troubles.keys() - known)
        of_none = (
            f" ({', '.join(strange)}: none of these databases as far as they know)"
            if strange
            else ""
        )
        gone = " ".join(f"--without {it}" for it in sorted(troubles))
        raise UnreachableError(
            f"{named_each(troubles)}{of_none}. It may have what the others lack, so nothing was"
            f" changed: wait until it answers; if it is gone for good, or is a new one, say so by"
            f" {gone}"
        )

    def accept(
        self, mark: str, holder: str, sleep: Callable[[float], None] = time.sleep
    ) -> MirrorSet:
        """
        Let brokers go on with these alone; of several that are not alike with the longest.

        Args:
            mark: Random, so that databases that went on elsewhere are told.
            holder: Nobody's id, 32 hexadecimal digits.
            sleep: Lets time pass: where somebody may hold the lease, that of a lease.

        Raises:
            StoreError: None of them has all that was confirmed, or one went on apart.
            UnreachableError: One that was named does not answer, or is being written: nothing may
                be assumed.
        """
        self.require_answers()
        accepted = self._of_the_longest(replace(accept(self.copies, mark), begun_by=holder))
        self._wait_for_silence(accepted, sleep)
        token = Token(accepted.number.start, holder)
        claimant = Claimant(holder=holder, name="accept", admin="", stomp="")
        places = tuple((it, self.databases.name(it)) for it, _ in accepted.states)
        written = KnownSet(accepted, places)
        seized: list[str] = []
        try:
            # A set that another one has, and this one never let begin, is of another history.
            for member in sorted(accepted.active):
                seized.append(member)
                self._require_done(member, _seize(self.rows[member], token, claimant))
            for member in sorted(accepted.active):
                self._require_done(member, _write(token, written))
        finally:
            for member in seized:
                with suppress(StoreError):  # Else it runs out by itself.
                    self.databases.ask(member, _give_back(token), CALL_SECONDS_MAX)
        return accepted

    def _require_done(self, member: str, act: ActOf) -> None:
        if self.databases.ask(member, act, CALL_SECONDS_MAX) is not Outcome.STORED:
            raise self._is_written(member)

    def _of_the_longest(self, accepted: MirrorSet) -> MirrorSet:
        """What lacks the end is not enabled: by majority that may have been confirmed."""
        ends = {it: self.rows[it].lease.end.index for it in accepted.active}
        states = dict(accepted.states)
        states |= {it: "failed" for it, end in ends.items() if end < max(ends.values())}
        return replace(accepted, states=tuple(sorted(states.items())))

    def _wait_for_silence(self, accepted: MirrorSet, sleep: Callable[[float], None]) -> None:
        """See that no broker that is there holds the lease in these."""
        held = [
            it.claimant.lease_seconds
            for member in accepted.active
            if (it := self.rows[member].lease).claimant is not None and not it.is_released
        ]
        if not held:
            return
        sleep(max(*held, *(it.lease_seconds for it in self.databases.members)))
        now = self.databases.read(CALL_SECONDS_MAX)
        for member in sorted(accepted.active):
            row = now.get(member)
            if row is None or row.lease.beat != self.rows[member].lease.beat:
                raise self._is_written(member)

    def _is_written(self, member: str) -> UnreachableError:
        return UnreachableError(
            f"{self.databases.name(member)} is being written by a broker, or does not answer any"
            f" more: stop all of them first"
        )


def look_at(databases: Databases) -> FoundDatabases:
    """Read what stands in these databases."""
    return FoundDatabases(databases, databases.read(CALL_SECONDS_MAX))


def _seize(row: Row, token: Token, claimant: Claimant) -> ActOf:
    def seize(member: Member, seconds: float) -> Outcome:
        is_done = member.seize(row, token, claimant, seconds)
        return Outcome.STORED if is_done else Outcome.DEPOSED

    return seize


def _write(token: Token, written: KnownSet) -> ActOf:
    return lambda member, seconds: member.write_set(token, written, seconds)


def _give_back(token: Token) -> ActOf:
    return lambda member, seconds: member.give_back(token, seconds)
