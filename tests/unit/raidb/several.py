"""
Several modelled databases, brokers' logs over them, and what is done to them between two calls.

Time passes where a statement waits and where a test lets it; every statement can be lost, before it
is done or after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.leases.contract import Outcome
from holdfast.raidb.databases import Databases
from holdfast.raidb.lanes import InTurn
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.settings import RaidbSettings
from tests.stores.leased_log_suite import Writer
from trials.leased.model_databases import ModelDatabase, ModelMember, ModelSet
from trials.leased.passage import LOST, Fate, Sent

TIMEOUT = 2.0


class Killed(BaseException):
    """The process of a broker ends here."""


class Several:
    """The databases."""

    def __init__(self, count: int = 3) -> None:
        self.medium = ModelSet(count)
        self.now = 1000.0
        self.under_way: list[tuple[float, Sent]] = []
        """What takes effect later, whoever waits for it."""
        self.statements_left = -1
        """The process ends at this statement from now on; -1: it does not."""

    @property
    def databases(self) -> list[ModelDatabase]:
        return self.medium.databases

    def clock(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        """Let it pass, and let take effect what is due."""
        self.now += seconds
        due = [sent for when, sent in self.under_way if when <= self.now]
        self.under_way = [it for it in self.under_way if it[0] > self.now]
        for sent in due:
            sent.take_effect()

    def ways(self) -> list[Way]:
        return [Way(self, it) for it in self.databases]

    def log(
        self,
        ways: list[Way] | None = None,
        *,
        is_open: bool = True,
        by_majority: bool = False,
        behind_bytes_max: int = 1 << 20,
    ) -> RaidbLog:
        ways = self.ways() if ways is None else ways
        members = [ModelMember(it.database, it) for it in ways]
        settings = RaidbSettings(
            confirm="majority" if by_majority else "all",
            behind_bytes_max=behind_bytes_max,
            member_timeout_seconds=TIMEOUT,
            copy_bytes=64 * 1024,
        )
        lanes = InTurn(is_left=lambda: True, clock=self.clock)
        log = RaidbLog(members, settings, lanes=lanes, clock=self.clock)
        log.open_seconds = 3.0
        if is_open:
            log.open()
        return log

    def reached(self, ways: list[Way] | None = None) -> Databases:
        """Those ways, or those to all that are not away: an operator names what is left."""
        ways = [it for it in self.ways() if not it.database.is_away] if ways is None else ways
        found = Databases([ModelMember(it.database, it) for it in ways], InTurn())
        found.read(3.0)
        return found

    def writer(self, name: str = "a") -> Writer:
        writer = Writer(self.log(), name)
        writer.take()
        return writer

    def ends(self) -> list[int]:
        return [it.end.index for it in self.databases]

    def states(self) -> str:
        newest = self.medium.newest
        assert newest is not None
        return " ".join(state for _, state in newest.states)


class Way:
    """One broker's way to one database."""

    def __init__(self, several: Several, database: ModelDatabase) -> None:
        self.several = several
        self.database = database
        self.is_cut = False
        self.lost: dict[str, str] = {}
        """Of the next statement of this kind the `request` or the `reply` is lost."""
        self.asked: list[str] = []

    def fate(self, statement: str) -> Fate:
        several = self.several
        if several.statements_left == 0:
            raise Killed
        several.statements_left -= several.statements_left > 0
        self.asked.append(statement)
        if self.is_cut or self.database.is_away:
            return Fate(before=LOST, is_quick=True)
        if self.database.is_full and statement == "append":
            return Fate(refusal=f"{self.database.member} is full")
        lost = self.lost.pop(statement, "")
        if lost:
            return Fate(before=LOST) if lost == "request" else Fate(after=LOST)
        return Fate()

    def send(self, seconds: float, sent: Sent) -> None:
        if seconds:
            self.several.under_way.append((self.several.now + seconds, sent))
        else:
            sent.take_effect()

    def wait(self, seconds: float) -> None:
        self.several.pass_time(seconds)


def fill(writer: Writer, steps: int = 200) -> None:
    """Let the holder's caretaker work until nothing is to be filled, with signs of life between."""
    log = writer.log
    assert isinstance(log, RaidbLog)
    for _ in range(steps):
        log.caretaker.step()
        assert log.renew(3.0) is Outcome.STORED


def until_left_out(several: Several, call: Callable[[], Any], seconds: float = TIMEOUT) -> Any:
    """Make a call that fails, and once more when the member has failed for long enough."""
    try:
        return call()
    except Exception:  # noqa: BLE001 - what it is, the next call's result tells
        several.now += seconds
        return call()
