"""
Several databases as a model, each with its own lease row and set, and a broker's ways to them.

What is done to one of them is done by statements that may be lost or late, each on its own; one may
be away from all brokers or from one of them, or full, while the others answer.

Invariants:
    A statement is atomic in its database; nothing is atomic over two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    AppendRefusedError,
    CorruptEntryError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import (
    HEADER_BYTES,
    KIND_RECORDS,
    Entry,
    bytes_of,
    parse_header,
    seal_entry,
)
from holdfast.leases.contract import Claimant, MediumFacts, Outcome, Place, Waiter
from holdfast.leases.projection import Changes, MessageKey
from holdfast.mirrors.mirror_set import MirrorSet, Number, found_set, newest_of
from holdfast.raidb.member import (
    AstrayError,
    KnownSet,
    Row,
    Token,
    UnconnectedError,
    require_end,
)
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import LOST, Fate, Passage, Sent, ask

if TYPE_CHECKING:
    from trials.leased.simulated_broker import SimulatedBroker


class ModelDatabase(ModelMedium):
    """One of them."""

    def __init__(self, name: str) -> None:
        super().__init__(identity=name * 32)
        self.member = f"{name}-member"
        self.written: KnownSet | None = None
        self.is_away = self.is_full = False
        self.room_bytes = 0
        """What is stored at once has no more; 0: any."""
        self.bytes_per_second = 0
        """How much goes the way to it in a second; 0: any."""
        self.is_put_right: Callable[[], bool] = lambda: False
        """Whether the address that leads to this copy leads to its own one again."""

    def put_back(self, backup: dict[str, Any]) -> None:
        """Go back to a backup; what it goes through at this moment goes on."""
        troubles = ("is_away", "is_full", "room_bytes", "bytes_per_second", "is_put_right")
        now = {name: getattr(self, name) for name in troubles}
        self.restore(backup | now)

    def seconds_for(self, count: int) -> float:
        """How long so many bytes are on their way."""
        return count / self.bytes_per_second if self.bytes_per_second else 0.0

    def row(self) -> Row:
        """Everything in the lease row."""
        return Row(
            member=self.member, log_id=self.identity, lease=self.read(), written=self.written
        )

    def found(self, row: Row, written: KnownSet) -> None:
        """Write the first set, if nothing was done since."""
        if self._is_as(row) and self.written is None:
            self.written, self.identity = written, written.known.set_id
            self.beat += 1

    def _is_as(self, row: Row) -> bool:
        return self.is_as(row.lease)

    def seize(self, row: Row, token: Token, claimant: Claimant) -> bool:
        """Let the token count, if nothing was done since."""
        if not self._is_as(row):
            return False
        self.epoch, self.claimant, self.is_released = token.epoch, claimant, False
        self.beat += 1
        self.takes.append((token.epoch, token.holder))
        return True

    def write_set(self, row: Row, token: Token, written: KnownSet) -> None:
        """Replace the set, if nothing was done since."""
        if self.is_held_by(token.epoch, token.holder) and self.beat == row.lease.beat:
            self.written, self.identity = written, written.known.set_id
            self.beat += 1

    def end_at(self, row: Row, token: Token, end: Place, first: int) -> None:
        """Let the log end there, if nothing was done since."""
        if self.is_held_by(token.epoch, token.holder) and self.beat == row.lease.beat:
            for index in [it for it in self.rows if it > end.index or it < first]:
                del self.rows[index]
            for index in [it for it in self.history if it > end.index or first > end.index]:
                del self.history[index]  # One that is emptied had another past.
            self.end, self.first_index = end, first
            self.beat += 1

    def mend(self, token: Token, entry: Entry) -> Outcome:
        """Write an entry anew, if it is kept."""
        if not self.is_held_by(token.epoch, token.holder):
            return Outcome.DEPOSED
        self.beat += 1
        if self.first_index <= entry.index <= self.end.index:
            self.rows[entry.index] = entry.raw
        return Outcome.STORED

    def show(self, token: Token, last_index: int, changes: Changes) -> str:
        """Write what is shown, unless the log went on; or tell why not."""
        if not self.is_held_by(token.epoch, token.holder) or self.end.index > last_index:
            return "another broker has taken it"
        self.beat += 1
        self.shown.append((token.epoch, changes))
        return ""

    def keep(self, entries: list[Entry]) -> None:
        """Write the rows and the lease's."""
        for entry in entries:
            assert entry.index not in self.rows, f"entry {entry.index} is stored twice"
            self.rows[entry.index] = entry.raw
            self.history[entry.index] = entry.chain
        self.end = Place(entries[-1].index, entries[-1].chain)
        self.beat += 1


def is_whole(database: ModelDatabase, index: int) -> bool:
    """Whether it has an entry as it was written."""
    try:
        return bool(database.entries(index - 1, index, 1))
    except CorruptEntryError:
        return False


def copied(database: ModelDatabase, count: int, epochs: int = 1) -> ModelDatabase:
    """
    Give a copy of a database with all its ids that others went on with.

    It was copied before the epoch in which they do began anywhere else: entries of an epoch are all
    of whoever took it, so none of a later holder's are in it.

    Args:
        count: So many entries they stored.
        epochs: How many times they took it; negative: as if it was copied so long ago.
    """
    made = ModelDatabase("z")
    made.restore(database.backup())
    made.takes, made.is_away, made.is_full = [], False, False
    made.bytes_per_second = made.room_bytes = 0
    made.epoch = max(made.epoch + epochs, 1)
    made.claimant = Claimant(holder="e" * 32, name="staging", admin="", stomp="")
    _go_back(made)
    go_on(made, count)
    return made


def _go_back(database: ModelDatabase) -> None:
    """Let it end before the first entry of its epoch."""
    while (raw := database.rows.get(database.end.index)) is not None:
        if parse_header(raw[:HEADER_BYTES]).term < database.epoch:
            break
        index = database.end.index
        del database.rows[index], database.history[index]
        database.end = Place(index - 1, database.history.get(index - 1, bytes(16)))
    database.first_index = min(database.first_index, database.end.index + 1)


def cloned(database: ModelDatabase, count: int, starts: int) -> ModelDatabase:
    """
    Give a copy of a database in which others began sets of their own, as a staging system has it.

    They had copies of all that counted, so each is active in theirs. Who takes a database and
    begins a set writes two times.

    Args:
        count: So many entries they stored.
        starts: How many starts later than here theirs is.
    """
    made = copied(database, count, starts)
    assert database.written is not None, "it is of a set"
    known = database.written.known
    made.beat += 2
    begun = replace(
        known,
        states=tuple((member, "active") for member, _ in known.states),
        number=Number(made.epoch, 1),
        before=(),
        promised=made.epoch,
        begun_by="e" * 32,
    )
    made.written = replace(database.written, known=begun)
    return made


def another_log(count: int) -> ModelDatabase:
    """Give a database of a log of others, with so many entries."""
    made = ModelDatabase("z")
    made.epoch = 1
    made.claimant = Claimant(holder="e" * 32, name="staging", admin="", stomp="")
    made.written = KnownSet(found_set(made.identity, [made.member]))
    go_on(made, count)
    return made


def go_on(database: ModelDatabase, count: int) -> None:
    """Let others store so many entries in it."""
    for number in range(count):
        entry = seal_entry(
            index=database.end.index + 1,
            term=database.epoch,
            kind=KIND_RECORDS,
            timestamp=database.end.index + 1,
            first_record=database.end.index + 1,
            record_count=1,
            parts=[b"of others %d" % number],
            previous_chain=database.end.chain,
        )
        database.keep([entry])


class ModelSet:
    """All of them, as who judges a world from outside sees them."""

    has_lease_row = True

    def __init__(self, count: int) -> None:
        self.databases = [ModelDatabase(name) for name in "abcde"[:count]]
        self.shown: list[tuple[int, Changes]] = []
        """Nothing is shown to people in these worlds."""
        self._read: list[tuple[KnownSet | None, int]] = []
        """The sets and epochs by which was judged last."""
        self._of_read: tuple[MirrorSet | None, list[ModelDatabase]] = (None, [])

    @property
    def newest(self) -> MirrorSet | None:
        """The newest set there is anywhere."""
        return self._judged()[0]

    @property
    def active(self) -> list[ModelDatabase]:
        """Those that have everything, by the newest set."""
        return self._judged()[1]

    def _judged(self) -> tuple[MirrorSet | None, list[ModelDatabase]]:
        """Both of them; they are asked for at each confirm, and change with a set."""
        read = [(it.written, it.epoch) for it in self.databases]
        if read != self._read:
            rows = {it.member: it.row().copy for it in self.databases}
            copies = {member: copy for member, copy in rows.items() if copy is not None}
            newest = newest_of(copies) if copies else None
            active = [it for it in self.databases if newest and it.member in newest.active]
            self._read, self._of_read = read, (newest, active)
        return self._of_read

    @property
    def end(self) -> Place:
        """Where the longest of them ends."""
        ends = [it.end for it in self.active]
        return max(ends, key=lambda it: it.index, default=Place(0, bytes(16)))

    @property
    def epoch(self) -> int:
        """The highest one."""
        return max(it.epoch for it in self.databases)

    @property
    def first_index(self) -> int:
        """What is kept by all."""
        return max((it.first_index for it in self.active), default=1)

    @property
    def history(self) -> dict[int, bytes]:
        """The chain of every entry of the log, also of those dropped since."""
        found: dict[int, bytes] = {}
        for it in self.active:
            found |= it.history
        return found

    @property
    def rows(self) -> dict[int, bytes]:
        """The entries of one of them."""
        return self.active[0].rows if self.active else {}

    @property
    def takes(self) -> list[tuple[int, str]]:
        """Epoch and holder of each member that was taken."""
        return [take for it in self.databases for take in it.takes]


class MemberWay:
    """One broker's way to one database."""

    def __init__(self, broker: SimulatedBroker, database: ModelDatabase) -> None:
        self._broker = broker
        self._database = database
        self.is_cut = False

    def fate(self, statement: str) -> Fate:
        """What becomes of a statement."""
        if self.is_cut or self._database.is_away:
            return Fate(before=LOST, is_quick=self._broker.chance.random() < 0.7)
        if self._database.is_full and statement == "append":
            return Fate(refusal="this model is full")
        return self._broker.fate(statement)

    def send(self, seconds: float, sent: Sent) -> None:
        """It is under way now."""
        self._broker.send(seconds, sent)

    def wait(self, seconds: float) -> None:
        """The strand that asked waits."""
        self._broker.wait(seconds)


class ModelMember:
    """A broker's connection to one of them."""

    lease_seconds = 5.0
    low_room = ""

    def __init__(self, database: ModelDatabase, way: Passage) -> None:
        self.home = database
        self.leads_to: ModelDatabase | None = None
        """Where connections lead that are made from now on, if not to its own database."""
        self.is_let_in = True
        """Whether a connection can be made: those that there are go on."""
        self._way = way
        self.place_name = database.member
        self.may_lay_out = True
        self._meant = ""
        self._held_under: Token | None = None

    @property
    def database(self) -> ModelDatabase:
        """Where it leads to now."""
        other = self.leads_to
        return self.home if other is None or other.is_put_right() else other

    @property
    def place(self) -> str:
        """Where it is, whichever database that is by now."""
        return self.place_name

    def facts(self) -> MediumFacts:
        """What it is."""
        return MediumFacts(kind="model", place=self.place)

    @contextmanager
    def reaching(self, member: str, token: Token | None = None) -> Iterator[None]:
        """Mean this one."""
        if not self.is_let_in:
            raise UnconnectedError(f"{self.place} lets no more connections in")
        self._meant, self._held_under = member, token
        try:
            yield
        finally:
            self._meant, self._held_under = "", None

    def _ask(
        self,
        kind: str,
        seconds: float,
        statement: Callable[[ModelDatabase], Any],
        count: int = 0,
    ) -> Any:
        database, meant, token = self.database, self._meant, self._held_under

        def on_one_connection() -> Any:
            """It leads to one database for as long as it lasts: what is seen there stays so."""
            if meant and database.member != meant:
                raise AstrayError(f"{self.place} leads to another database")
            claimant = database.claimant
            holder = "" if claimant is None else claimant.holder
            if token is not None and (database.epoch, holder) != (token.epoch, token.holder):
                raise AstrayError(f"{self.place} leads to a copy")
            return statement(database)

        return ask(self._way, kind, seconds, on_one_connection, database.seconds_for(count))

    def read(self, seconds: float) -> Row:
        """Read the row."""
        row: Row = self._ask("observe", seconds, ModelDatabase.row)
        return row

    def found(self, row: Row, written: KnownSet, seconds: float) -> None:
        """Write the first set."""
        self._ask("write", seconds, lambda it: it.found(row, written))

    def seize(self, row: Row, token: Token, claimant: Claimant, seconds: float) -> bool:
        """Take it."""
        done: bool = self._ask("take", seconds, lambda it: it.seize(row, token, claimant))
        return done

    def write_set(
        self, token: Token, written: KnownSet, seconds: float, *, end: Place | None = None
    ) -> Outcome:
        """Read, write, look."""
        row = self.read(seconds / 3)
        if not self._is_ours(row, token):
            return Outcome.DEPOSED
        require_end(row, end, self.place)
        self._ask("write", seconds / 3, lambda it: it.write_set(row, token, written))
        if self.read(seconds / 3).written == written:
            return Outcome.STORED
        raise UnreachableError("written by somebody else meanwhile")

    def _is_ours(self, row: Row, token: Token) -> bool:
        if row.lease.epoch < token.epoch:
            raise StoreError(f"{self.place} went back in time")
        return row.is_held_by(token)

    def beat(self, token: Token, seconds: float, *, end: Place | None = None) -> Outcome:
        """Give a sign of life."""

        def renew(it: ModelDatabase) -> Outcome:
            if it.is_held_by(token.epoch, token.holder):
                require_end(it.row(), end, self.place)
            return it.renew(token.epoch, token.holder)

        outcome: Outcome = self._ask("renew", seconds, renew)
        return outcome

    def give_back(self, token: Token, seconds: float) -> None:
        """Give it back."""
        self._ask("release", seconds, lambda it: it.release(token.epoch, token.holder))

    def store(self, token: Token, entries: list[Entry], before: Place, seconds: float) -> Outcome:
        """Store entries."""
        given = list(entries)
        if 0 < self.database.room_bytes < bytes_of(given):
            raise AppendRefusedError("this model has no room for so much")
        outcome: Outcome = self._ask(
            "append",
            seconds,
            lambda it: it.append(token.epoch, token.holder, given, before),
            bytes_of(given),
        )
        return outcome

    def mend(self, token: Token, entry: Entry, seconds: float) -> Outcome:
        """Write an entry anew."""
        outcome: Outcome = self._ask("write", seconds, lambda it: it.mend(token, entry))
        return outcome

    def cut(self, token: Token, end: Place, seconds: float) -> Outcome:
        """Let the log end there."""
        row = self.read(seconds / 3)
        return self._end_at(row, token, end, min(row.lease.first_index, end.index + 1), seconds / 3)

    def clear(self, token: Token, first_index: int, seconds: float) -> Outcome:
        """Empty it."""
        row = self.read(seconds / 3)
        return self._end_at(row, token, Place(first_index - 1, bytes(16)), first_index, seconds / 3)

    def _end_at(self, row: Row, token: Token, end: Place, first: int, seconds: float) -> Outcome:
        if not self._is_ours(row, token):
            return Outcome.DEPOSED
        self._ask("write", seconds, lambda it: it.end_at(row, token, end, first))
        if self.read(seconds).lease.end != end:
            raise UnreachableError("written by somebody else meanwhile")
        return Outcome.STORED

    def entries(self, after: int, through: int, bytes_max: int, seconds: float) -> list[Entry]:
        """Read entries."""
        found: list[Entry] = self._ask(
            "entries",
            seconds,
            lambda it: it.entries(after, through, bytes_max),
            len(self.database.rows.get(after + 1, b"")),
        )
        return found

    def piece(self, index: int, start: int, count: int, seconds: float) -> bytes:
        """Read some bytes of one."""
        found: bytes = self._ask(
            "entries",
            seconds,
            lambda it: it.rows.get(index, b"")[start : start + count],
            min(count, len(self.database.rows.get(index, b""))),
        )
        return found

    def make_shown(self, token: Token, changes: Changes, seconds: float) -> str:
        """There is what it is shown in."""
        del token, changes, seconds
        return ""

    def show(self, token: Token, last_index: int, changes: Changes, seconds: float) -> str:
        """Show it."""
        why: str = self._ask("project", seconds, lambda it: it.show(token, last_index, changes))
        return why

    def shown_keys(self, after: MessageKey, seconds: float) -> list[MessageKey]:
        """Read what is shown."""
        keys: list[MessageKey] = self._ask("keys", seconds, lambda it: it.shown_keys(after))
        return keys

    def drop(self, token: Token, index: int, seconds: float) -> bool:
        """Forget entries."""
        is_more: bool = self._ask(
            "drop",
            seconds,
            lambda it: it.drop_before(token.epoch, token.holder, index),
        )
        return is_more

    def tell(self, waiter: Waiter, seconds: float) -> None:
        """Write this broker's line."""
        name = waiter.claimant.name
        self._ask("tell", seconds, lambda it: it.waiters.__setitem__(name, waiter))

    def waiters(self, seconds: float) -> list[Waiter]:
        """Read all lines."""
        found: list[Waiter] = self._ask(
            "waiters", seconds, lambda it: [each for _, each in sorted(it.waiters.items())]
        )
        return found

    def forget(self, name: str, seconds: float) -> None:
        """Drop a line."""
        self._ask("forget", seconds, lambda it: it.waiters.pop(name, None))

    def forget_all(self, seconds: float) -> None:
        """Drop all lines."""
        self._ask("forget", seconds, lambda it: it.waiters.clear())

    def close(self) -> None:
        """Let go."""
