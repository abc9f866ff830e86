"""
A random walk over a log in several databases: one holder after the other, step by step.

Beside the worlds of `simulator`, which are long and have whole brokers, this is short and has only
what one holder does and what happens to databases between two calls: a database takes sets and no
entries, is away, or is cut off from the holder, and the holder ends at any moment. So thousands of
walks are gone in the time of a few worlds.

Invariants (a walk that breaks one gives a sentence):
    Whoever takes the lease has all that was ever called stored.
    What is called stored is in more than half of the databases that count, at that moment.
    Nothing but being unreachable or full is ever raised.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, Entry, seal_entry
from holdfast.leases.contract import Claimant, Outcome, Place
from holdfast.raidb.lanes import InTurn
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.settings import Confirm, RaidbSettings
from trials.leased.model_databases import ModelDatabase, ModelMember, ModelSet
from trials.leased.passage import LOST, Fate, Sent

STEPS = 80
SECONDS = 4.0
TIMEOUT = 2.0


class _Way:
    """The present holder's way to one database."""

    def __init__(self, walk: Walk, database: ModelDatabase) -> None:
        self._walk = walk
        self.database = database
        self.is_cut = False

    def fate(self, statement: str) -> Fate:
        """What becomes of a statement."""
        if self.is_cut or self.database.is_away:
            return Fate(before=LOST, is_quick=True)
        if self.database.is_full and statement == "append":
            return Fate(refusal=f"{self.database.member} is full")
        lot = 1.0 if self._walk.is_calm else self._walk.chance.random()
        if lot < 0.02:
            return Fate(before=LOST)
        return Fate(after=LOST) if lot < 0.04 else Fate()

    def send(self, seconds: float, sent: Sent) -> None:
        """It is done at once."""
        assert seconds == 0.0, "nothing is late here"
        sent.take_effect()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self._walk.now += seconds


class Walk:
    """One of them."""

    def __init__(self, seed: int, databases: int, confirm: Confirm) -> None:
        self.chance = random.Random(f"walk {seed}")  # noqa: S311 - to be repeated
        self.now = 1000.0
        self.medium = ModelSet(databases)
        self.stored: dict[int, bytes] = {}
        self.takes = 0
        self.is_calm = False
        """From now on no statement is lost."""
        self._confirm: Confirm = confirm
        self._epoch = 0
        self._end = Place(0, FIRST_CHAIN)
        self._pending: list[Entry] = []
        self._begin()

    def go(self) -> str:
        """Take all steps; what was broken."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (8, self._append),
            (2, self._renew),
            (3, self._fill),
            (1, self._clean),
            (3, self._trouble),
            (3, self._heal_one),
            (2, self._pass_time),
            (2, self._want),
            (1, self._end_holder),
        ]
        weights, acts = [it for it, _ in steps], [it for _, it in steps]
        try:
            for act in self.chance.choices(acts, weights, k=STEPS):
                act()
            self._end_well()
        except (StoreError, AssertionError) as error:
            return str(error) or repr(error)
        return ""

    def _begin(self) -> None:
        """Another process begins."""
        self.ways = [_Way(self, it) for it in self.medium.databases]
        members = [ModelMember(it.database, it) for it in self.ways]
        settings = RaidbSettings(
            confirm=self._confirm,
            behind_bytes_max=1 << 20,
            member_timeout_seconds=TIMEOUT,
            copy_bytes=64 * 1024,
        )
        lanes = InTurn(self.chance.shuffle, lambda: self.chance.random() < 0.5, lambda: self.now)
        self.log = RaidbLog(members, settings, lanes=lanes, clock=lambda: self.now)
        self.log.open_seconds = SECONDS
        self._is_holding = False
        self._pending = []

    def _take(self) -> bool:
        if self._is_holding:
            return True
        try:
            self.log.open()
            seen = self.log.observe(SECONDS)
            holder = f"{self.takes:032x}"
            claimant = Claimant(holder=holder, name="a", admin="", stomp="")
            held = self.log.take(seen, claimant, SECONDS)
        except UnreachableError:
            return False
        if held is None:
            return False  # One was read only the second time: somebody might have been there.
        self.takes += 1
        self._is_holding, self._epoch = True, held.epoch
        self._end = held.end
        history = self.medium.history
        for index, chain in self.stored.items():
            is_dropped = index < self.medium.first_index and index not in history
            assert is_dropped or history.get(index) == chain, (
                f"entry {index} was stored and is not there"
            )
        assert not self.stored or held.end.index >= max(self.stored), (
            f"the log ends with {held.end.index}, and {max(self.stored)} was stored"
        )
        return True

    def _append(self) -> None:
        if not self._take():
            return
        if not self._pending:
            self._pending = self._sealed(self.chance.randint(1, 3))
        try:
            outcome = self.log.append(self._pending, SECONDS)
        except (UnreachableError, AppendRefusedError):
            return
        assert outcome is Outcome.STORED, "nobody else is there"
        active = self.medium.active
        for it in self._pending:
            count = sum(each.history.get(it.index) == it.chain for each in active)
            assert 2 * count > len(active), f"{count} of {len(active)} have entry {it.index}"
            self.stored[it.index] = it.chain
        self._end = Place(self._pending[-1].index, self._pending[-1].chain)
        self._pending = []

    def _sealed(self, count: int) -> list[Entry]:
        entries: list[Entry] = []
        index, chain = self._end.index, self._end.chain if self._end.index else FIRST_CHAIN
        for _ in range(count):
            entry = seal_entry(
                index=index + 1,
                term=self._epoch,
                kind=KIND_RECORDS,
                timestamp=1_000_000 + index,
                first_record=index + 1,
                record_count=1,
                parts=[self.chance.randbytes(20)],
                previous_chain=chain,
            )
            entries.append(entry)
            index, chain = entry.index, entry.chain
        return entries

    def _renew(self) -> None:
        if self._is_holding:
            try:
                outcome = self.log.renew(SECONDS)
            except UnreachableError:
                return
            assert outcome is Outcome.STORED, "nobody else is there"

    def _fill(self) -> None:
        for _ in range(3):
            self.log.caretaker.step()
            self._renew()

    def _clean(self) -> None:
        if self._is_holding and not self._pending and self._end.index > 1:
            try:
                self.log.drop_before(self._end.index, SECONDS)
            except UnreachableError:
                return

    def _trouble(self) -> None:
        match self.chance.randrange(3):
            case 0:
                self.chance.choice(self.ways).is_cut = True
            case 1:
                self.chance.choice(self.medium.databases).is_away = True
            case _:
                self.chance.choice(self.medium.databases).is_full = True

    def _heal_one(self) -> None:
        way = self.chance.choice(self.ways)
        way.is_cut = way.database.is_away = way.database.is_full = False

    def _end_well(self) -> None:
        """All databases are there: somebody takes it, and stores."""
        for it in self.medium.databases:
            it.is_away = it.is_full = False
        self.is_calm = True
        self._end_holder()
        for _ in range(5):
            if self._is_holding:
                break
            self.now += 10 * TIMEOUT
            self._take()
        assert self._is_holding, "nobody takes it although all is well"
        count = len(self.stored)
        self._append()
        assert len(self.stored) > count, "nothing is stored although all is well"

    def _want(self) -> None:
        """An operator disables a database, or enables one."""
        newest = self.medium.newest
        if not self._is_holding or newest is None:
            return
        member = self.chance.choice(self.medium.databases).member
        is_disabled = newest.state_of(member) == "disabled"
        self.log.caretaker.want_soon({member: "joining" if is_disabled else "disabled"})

    def _pass_time(self) -> None:
        self.now += self.chance.uniform(0.0, 1.5 * TIMEOUT)

    def _end_holder(self) -> None:
        """The process ends, and another one takes over if it can."""
        self._begin()
        self._take()


def walk(seed: int, confirm: Confirm = "majority") -> str:
    """Go one walk; what was broken."""
    return Walk(seed, 3 + seed % 3, confirm).go()
