"""Filling one database, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Outcome, Place
from holdfast.mirrors.mirror_set import Acceptance, Number
from holdfast.raidb.member import NOTHING, KnownSet, Token
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.returning import Returning, Step
from holdfast.raidb.settings import RaidbSettings
from tests.stores.leased_log_suite import SECONDS, Writer, claimant
from tests.unit.raidb.several import Several, until_left_out
from trials.leased.model_databases import ModelMember


@pytest.fixture
def several() -> Several:
    return Several()


def left_out(several: Several) -> tuple[Writer, Returning]:
    writer = several.writer()
    writer.append(b"one")
    several.databases[2].is_away = True
    entries = writer.sealed(b"two")
    until_left_out(several, lambda: writer.send(entries))
    several.databases[2].is_away = False
    log = writer.log
    assert isinstance(log, RaidbLog)
    assert log._tenure is not None
    log.databases.read(3.0)
    return writer, Returning(log.databases, RaidbSettings(), log._tenure, "c-member")


def test_it_is_taken_only_under_a_lease_that_is_good(several: Several) -> None:
    """After it was read, a write in all the others has to succeed first."""
    writer, returning = left_out(several)
    for _ in range(3):
        assert returning.step(SECONDS) is Step.LATER
    assert returning.token is None
    writer.log.renew(SECONDS)

    assert returning.step(SECONDS) is Step.MORE
    assert returning.token == Token(2, writer.claimant.holder, "c-member")


def test_one_that_somebody_else_uses_is_left_alone(several: Several) -> None:
    """What was read of it has changed since: it is read anew, and proved anew."""
    writer, returning = left_out(several)
    for _ in range(5):
        row = several.databases[2].row()
        other = claimant("z")
        token = Token(row.lease.epoch + 1, other.holder)
        assert several.databases[2].seize(row, token, other)
        writer.log.renew(SECONDS)
        assert returning.step(SECONDS) is Step.LATER
    assert returning.token is None


def test_it_is_filled_and_then_the_holders_to_finish(several: Several) -> None:
    """Taken, compared, copied; what came since is copied between two batches."""
    writer, returning = left_out(several)
    returning.step(SECONDS)
    writer.log.renew(SECONDS)
    steps = [returning.step(SECONDS) for _ in range(3)]
    assert steps == [Step.MORE, Step.MORE, Step.READY]
    assert (returning.copied, returning.to_copy) == (1, 1)
    writer.append(b"three")

    assert several.ends() == [3, 3, 2]
    assert returning.finish(SECONDS)
    assert several.ends() == [3, 3, 3]


def test_it_is_not_finished_once_another_one_has_taken_it(several: Several) -> None:
    """Its token does not count any more."""
    writer, returning = left_out(several)
    returning.step(SECONDS)
    writer.log.renew(SECONDS)
    while returning.step(SECONDS) is not Step.READY:
        pass
    other = claimant("z")
    row = several.databases[2].row()
    assert several.databases[2].seize(row, Token(9, other.holder), other)

    assert not returning.finish(SECONDS)


def test_one_that_is_away_is_asked_as_briefly_as_before(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Only a piece that was too long for its time gets more of it: a call that hangs for minutes would
    not see that the database is back.
    """
    writer, returning = left_out(several)
    returning.step(SECONDS)
    writer.log.renew(SECONDS)
    assert [returning.step(SECONDS) for _ in range(2)] == [Step.MORE, Step.MORE]
    asked: list[tuple[str, float]] = []
    ask = returning._databases.ask

    def heard(member: str, action: Callable[..., Any], seconds_max: float) -> Any:
        asked.append((member, seconds_max))
        return ask(member, action, seconds_max)

    monkeypatch.setattr(returning._databases, "ask", heard)
    several.databases[2].is_away = True
    for _ in range(5):
        assert returning.step(SECONDS) is Step.LATER
    assert [("c-member", SECONDS)] * 5 == asked
    several.databases[2].is_away = False

    assert returning.step(SECONDS) is Step.READY
    assert {SECONDS} == {seconds for _, seconds in asked}


def test_a_database_of_another_log_is_not_written_over(several: Several) -> None:
    """Why stands in its trouble."""
    _, returning = left_out(several)
    database = several.databases[2]
    database.written = None

    assert returning.step(SECONDS) is Step.LATER
    assert "has another log: empty it" in returning.trouble


def test_one_that_went_on_apart_is_not_written_over(several: Several) -> None:
    """An operator let it go on: what it has may be wanted."""
    from dataclasses import replace

    _, returning = left_out(several)
    database = several.databases[2]
    assert database.written is not None
    known = replace(database.written.known, accepted=(Acceptance("x", Number(1, 1)),))
    database.written = KnownSet(known)

    assert returning.step(SECONDS) is Step.LATER
    assert "went on apart" in returning.trouble
    assert several.ends() == [2, 2, 1]


def test_entries_that_were_dropped_while_it_was_filled_begin_it_anew(several: Several) -> None:
    """What it has is not the log's any more: it is emptied, and filled from what is kept."""
    writer, returning = left_out(several)
    returning.step(SECONDS)
    writer.log.renew(SECONDS)
    returning.step(SECONDS)
    returning.step(SECONDS)
    assert returning._is_compared
    writer.append(b"three", b"four", b"five")
    while writer.log.drop_before(4, SECONDS):
        pass

    while returning.step(SECONDS) is not Step.READY:
        pass
    assert sorted(several.databases[2].rows) == [4, 5]


def test_a_rotten_source_does_not_keep_a_member_from_being_filled(several: Several) -> None:
    """Another active one has it whole; and what cannot be read there proves no difference."""
    writer, returning = left_out(several)
    sources = several.databases[:2]
    rotten = min(sources, key=lambda it: it.row().member)
    third = several.databases[2]
    third.rows.clear()
    third.end, third.first_index = NOTHING, 1
    raw = bytearray(rotten.rows[1])
    raw[-1] ^= 1
    rotten.rows[1] = bytes(raw)
    for _ in range(40):
        if returning.step(SECONDS) is Step.READY:
            break
        writer.log.renew(SECONDS)
    assert returning.is_ready
    whole = next(it for it in sources if it is not rotten)
    assert third.rows == whole.rows


def test_a_piece_that_takes_long_is_given_twice_the_time(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it was too short: a long entry goes to a database behind a slow link as well."""
    writer, returning = left_out(several)
    bounds: list[float] = []
    store = ModelMember.store

    def slow(
        self: ModelMember, token: Token, entries: list[Entry], before: Place, seconds: float
    ) -> Outcome:
        if self.place == "c-member" and token.member == "c-member":
            bounds.append(seconds)
            if seconds < 4 * SECONDS:
                several.pass_time(seconds)
                raise UnreachableError("timed out")
        return store(self, token, entries, before, seconds)

    monkeypatch.setattr(ModelMember, "store", slow)
    for _ in range(40):
        if returning.step(SECONDS) is Step.READY:
            break
        writer.log.renew(SECONDS)
    assert returning.is_ready
    assert [round(it / SECONDS) for it in bounds] == [1, 2, 4]


@pytest.mark.parametrize(
    "error", [AppendRefusedError("full"), UnreachableError("refused")], ids=["full", "away"]
)
def test_a_piece_that_fails_at_once_is_given_no_more_time(
    several: Several, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    """Else what is lost on its way later on is waited for 160 s, and nothing is filled."""
    writer, returning = left_out(several)
    bounds: list[float] = []
    store = ModelMember.store

    def fail(
        self: ModelMember, token: Token, entries: list[Entry], before: Place, seconds: float
    ) -> Outcome:
        if self.place == "c-member" and token.member == "c-member":
            bounds.append(seconds)
            if len(bounds) < 6:
                raise error
        return store(self, token, entries, before, seconds)

    monkeypatch.setattr(ModelMember, "store", fail)
    for _ in range(40):
        if returning.step(SECONDS) is Step.READY:
            break
        writer.log.renew(SECONDS)
    assert returning.is_ready
    assert [SECONDS] * 6 == bounds
