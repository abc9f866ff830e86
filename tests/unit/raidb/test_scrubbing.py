"""What rots in one of several databases is found and written anew from another one."""

from __future__ import annotations

import logging

import pytest

from holdfast.errors import UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Outcome
from holdfast.raidb.member import Token
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.scrubbing import Scrubber
from tests.stores.leased_log_suite import SECONDS, Writer
from tests.unit.raidb.several import Several, fill, until_left_out
from trials.leased.model_databases import ModelMember, is_whole

PLENTY = 1 << 20


@pytest.fixture
def several() -> Several:
    return Several()


def held(several: Several) -> tuple[Writer, RaidbLog, Scrubber]:
    writer = several.writer()
    writer.append(b"one", b"two", b"three")
    assert isinstance(writer.log, RaidbLog)
    scrubber = writer.log.caretaker._scrubber
    assert scrubber is not None
    return writer, writer.log, scrubber


def one_round(log: RaidbLog, scrubber: Scrubber) -> None:
    before = scrubber.rounds
    for _ in range(100):
        log.caretaker.scrub()
        if scrubber.rounds > before:
            return
    raise AssertionError("a round does not end")


def test_what_rots_in_one_is_written_anew_from_another(
    several: Several, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged row and one that is gone; nobody has read them."""
    writer, log, scrubber = held(several)
    first, second, third = several.databases
    first.damage(2)
    del second.rows[3]
    with caplog.at_level(logging.WARNING):
        one_round(log, scrubber)

    assert first.rows == second.rows == third.rows
    assert log.caretaker.mended_count == 2
    assert "checksum is wrong at segment of the model byte 0 (entry 2): written" in caplog.text
    assert "b-member: entry 3 is missing from the model: written anew from a-member" in caplog.text
    writer.append(b"four")


def test_several_in_a_row_are_each_taken_from_who_has_it(several: Several) -> None:
    """Two rot in each of two databases, in one piece that is read at once."""
    _, log, scrubber = held(several)
    first, second, third = several.databases
    first.damage(1)
    first.damage(2)
    second.damage(2)
    second.damage(3)
    one_round(log, scrubber)

    assert first.rows == second.rows == third.rows


def test_what_a_read_met_is_looked_at_first(several: Several) -> None:
    """The entry was given whole all the same, of another database."""
    _, log, scrubber = held(several)
    several.databases[1].damage(3)
    several.databases[0].damage(3)
    assert log.entries(2, 3, PLENTY, SECONDS)[0].index == 3
    assert scrubber.is_urgent

    log.caretaker.scrub()
    log.caretaker.scrub()
    assert not scrubber.is_urgent
    assert all(is_whole(it, 3) for it in several.databases)


def test_what_no_database_has_whole_is_told(several: Several) -> None:
    """In the state of each, until a round finds it mended."""
    _, log, scrubber = held(several)
    kept = several.databases[0].rows[2]
    for it in several.databases:
        it.damage(2)
    for _ in range(4):
        log.caretaker.scrub()
    told = {state for _, _, state in log.facts().members}
    assert "active: entry 2 is whole in no enabled database" in told

    several.databases[0].rows[2] = kept
    one_round(log, scrubber)
    one_round(log, scrubber)
    assert {state for _, _, state in log.facts().members} == {"active"}
    assert all(it.rows[2] == kept for it in several.databases)


def test_one_that_may_have_it_and_is_away_is_waited_for(several: Several) -> None:
    """Nothing is called lost while it does not answer."""
    _, log, scrubber = held(several)
    several.databases[0].damage(2)
    several.databases[1].damage(2)
    several.databases[2].is_away = True
    for _ in range(10):
        log.caretaker.scrub()
    assert not scrubber.lost

    several.databases[2].is_away = False
    one_round(log, scrubber)
    one_round(log, scrubber)
    assert all(is_whole(it, 2) for it in several.databases)


def test_what_was_dropped_is_not_written_again(several: Several) -> None:
    """A read met it before the log was cleaned."""
    writer, log, scrubber = held(several)
    log.caretaker.met("a-member", 1)
    del several.databases[0].rows[1]
    while writer.log.drop_before(3, SECONDS):
        pass

    log.caretaker.scrub()
    assert 1 not in several.databases[0].rows
    assert scrubber.mended_count == 0


def test_one_that_was_left_out_is_not_read_over(several: Several) -> None:
    """It is filled, and read with the next round."""
    writer, log, scrubber = held(several)
    several.databases[1].is_away = True
    entries = writer.sealed(b"four")
    assert until_left_out(several, lambda: writer.send(entries)) is Outcome.STORED
    several.databases[1].is_away = False
    several.databases[1].damage(2)
    one_round(log, scrubber)
    assert not is_whole(several.databases[1], 2)

    fill(writer)
    one_round(log, scrubber)
    assert is_whole(several.databases[1], 2)


def test_a_deposed_holder_writes_nothing_anew(several: Several) -> None:
    """Whoever holds the lease does."""
    _, log, scrubber = held(several)
    several.databases[0].damage(2)
    for it in several.databases:
        it.epoch += 1

    log.caretaker.scrub()
    assert not is_whole(several.databases[0], 2)
    assert scrubber.mended_count == 0


def test_without_the_lease_nothing_is_read_over(several: Several) -> None:
    """Nor with nothing stored yet is there anything to do."""
    log = several.log()
    log.caretaker.scrub()
    log.caretaker.met("a-member", 1)
    assert log.caretaker.mended_count == 0

    writer = several.writer()
    assert isinstance(writer.log, RaidbLog)
    for _ in range(5):
        writer.log.caretaker.scrub()


LARGE = 3_000_000
FAR = 1_000_000
"""Bytes a second: it takes three of the second that a piece may take."""


def far_and_rotten(several: Several) -> tuple[Writer, RaidbLog, Scrubber]:
    """Behind the others there is a large entry, and each way is slow; in one database it rots."""
    writer, log, scrubber = held(several)
    writer.append(bytes(LARGE))
    writer.append(b"five")
    several.databases[1].damage(4)
    for it in several.databases:
        it.bytes_per_second = FAR
    return writer, log, scrubber


@pytest.mark.parametrize("has_time", [True, False], ids=["as it is", "without its own time"])
def test_what_is_too_large_for_a_piece_has_its_own_time(
    several: Several, monkeypatch: pytest.MonkeyPatch, has_time: bool
) -> None:
    """Rot in what takes longer than a piece may was never found: it was passed over each time."""
    if not has_time:
        monkeypatch.setattr(Scrubber, "_one_seconds_max", 0.0)
    _, log, scrubber = far_and_rotten(several)
    one_round(log, scrubber)

    assert is_whole(several.databases[1], 4) is has_time
    assert scrubber.mended_count == has_time


def test_what_was_met_and_is_large_has_its_own_time_too(several: Several) -> None:
    """It is looked at before all else, and not given up for the first time."""
    _, log, scrubber = far_and_rotten(several)
    log.caretaker.met("b-member", 4)
    for _ in range(5):
        log.caretaker.scrub()
    assert not scrubber.is_urgent
    assert is_whole(several.databases[1], 4)


def test_one_that_is_slow_for_ever_is_passed_over(several: Several) -> None:
    """The round goes on, and what comes behind it is mended; no read takes longer than 20 s."""
    writer, log, scrubber = held(several)
    writer.append(bytes(LARGE))
    writer.append(b"five")
    several.databases[1].bytes_per_second = LARGE // 60
    several.databases[1].damage(5)
    longest, before = 0.0, scrubber.rounds
    while scrubber.rounds == before:
        began = several.now
        log.caretaker.scrub()
        longest = max(longest, several.now - began)
    assert is_whole(several.databases[1], 5)
    assert 10.0 < longest <= 20.0


def test_what_cannot_be_written_anew_in_time_is_told(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its state, until it could be: what is stored is held up by it for a part of a lease."""
    writer, log, scrubber = far_and_rotten(several)
    mend = ModelMember.mend
    seconds: list[float] = []

    def late(self: ModelMember, token: Token, entry: Entry, seconds_max: float) -> Outcome:
        seconds.append(seconds_max)
        raise UnreachableError("it did not answer in time")

    monkeypatch.setattr(ModelMember, "mend", late)
    while not seconds:
        log.caretaker.scrub()
    log.caretaker.scrub()
    told = {it: state for it, _, state in log.facts().members}
    assert told["b-member"] == "active: entry 4 is damaged, and was not written anew in time"
    assert seconds[0] == pytest.approx(writer.claimant.lease_seconds / 3)
    monkeypatch.setattr(ModelMember, "mend", mend)
    one_round(log, scrubber)
    one_round(log, scrubber)
    assert is_whole(several.databases[1], 4)
    assert {state for _, _, state in log.facts().members} == {"active"}
