"""A log in several databases that is confirmed once most of them have it."""

from __future__ import annotations

import pytest

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.raidb.majority import MajorityTenure
from holdfast.raidb.member import Member
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import SECONDS, Writer, read_all
from tests.unit.raidb.several import TIMEOUT, Several, Way, fill


def held(several: Several, **settings: int) -> tuple[Writer, list[Way], MajorityTenure]:
    ways = several.ways()
    writer = Writer(several.log(ways, by_majority=True, **settings))
    writer.take()
    return writer, ways, tenure_of(writer)


def tenure_of(writer: Writer) -> MajorityTenure:
    assert isinstance(writer.log, RaidbLog)
    tenure = writer.log._tenure
    assert isinstance(tenure, MajorityTenure)
    return tenure


def go_on_for_long(several: Several, writer: Writer) -> None:
    """Store some, until who fails meanwhile has failed for long enough."""
    for number in range(4):
        writer.append(b"%d" % number)
        several.now += TIMEOUT / 2


def test_most_are_enough_and_the_rest_follows() -> None:
    """One that does not answer is not waited for; once it does it is sent what it lacks."""
    several = Several()
    writer, ways, tenure = held(several)
    ways[2].is_cut = True
    writer.append(b"one")
    writer.append(b"two")
    assert several.ends() == [2, 2, 0]
    assert several.states() == "active active active"
    assert tenure.whole == ["a-member", "b-member"]
    states = {it: state for it, _, state in writer.log.facts().members}
    lacking = sum(len(it.raw) for it in writer.stored)
    assert states["a-member"] == "active"
    assert states["c-member"] == f"active: {lacking:,} bytes behind the others"

    ways[2].is_cut = False
    assert writer.log.renew(SECONDS) is Outcome.STORED
    writer.append(b"three")
    assert tenure.level(SECONDS)
    assert several.ends() == [3, 3, 3]
    assert tenure.whole == ["a-member", "b-member", "c-member"]


def test_half_is_not_most() -> None:
    """Two of four that have it confirm nothing."""
    several = Several(4)
    writer, ways, _ = held(several)
    ways[1].is_cut = ways[2].is_cut = True
    entries = writer.sealed(b"one")

    with pytest.raises(UnreachableError, match="b-member"):
        writer.send(entries)
    ways[1].is_cut = False
    assert writer.send(entries) is Outcome.STORED


def test_whoever_takes_over_has_what_was_confirmed() -> None:
    """Of the two that it needs one has it, and the other one is made alike before it serves."""
    several = Several()
    writer, ways, _ = held(several)
    ways[2].is_cut = True
    writer.append(b"one")
    several.databases[0].is_away = True

    other = Writer(several.log(by_majority=True), "b")
    assert other.take().end.index == 1
    assert several.ends() == [1, 1, 1]
    assert several.states() == "failed active active"


def test_whoever_is_kept_has_everything_first() -> None:
    """One of those that confirmed is lost: the one that lagged is sent it before the set is."""
    several = Several()
    writer, ways, _ = held(several)
    ways[2].is_cut = True
    writer.append(b"one")
    several.databases[0].is_away = True
    entries = writer.sealed(b"two")
    for _ in range(3):
        with pytest.raises(UnreachableError):
            writer.send(entries)
        several.now += TIMEOUT
    assert several.states() == "active active active"

    ways[2].is_cut = False
    assert writer.send(entries) is Outcome.STORED
    assert several.ends() == [1, 2, 2]
    assert several.states() == "failed active active"


def test_a_set_is_not_changed_while_one_lacks_something() -> None:
    """Whatever the change is: the next set would name one that has not all that was confirmed."""
    several = Several(4)
    writer, ways, tenure = held(several)
    ways[3].is_cut = True
    writer.append(b"one")

    with pytest.raises(UnreachableError, match="not all databases that are kept have everything"):
        tenure.change({"a-member": "disabled"})
    tenure.change({"d-member": "disabled"})


def test_one_that_fails_is_left_out_beside_what_is_confirmed() -> None:
    """Nobody waits for it, and once it has failed for long enough it does not count any more."""
    several = Several()
    writer, _, _ = held(several)
    several.databases[0].is_away = True
    go_on_for_long(several, writer)

    assert several.states() == "failed active active"
    several.databases[0].is_away = False
    fill(writer)
    assert several.states() == "active active active"
    assert several.ends() == [4, 4, 4]


def test_of_two_that_are_left_both_confirm() -> None:
    """Most of two are two, and one alone only after it has everything."""
    several = Several()
    writer, ways, _ = held(several)
    several.databases[0].is_away = True
    go_on_for_long(several, writer)
    ways[1].is_cut = True
    entries = writer.sealed(b"more")

    with pytest.raises(UnreachableError):
        writer.send(entries)
    several.now += TIMEOUT
    assert writer.send(entries) is Outcome.STORED
    assert several.states() == "failed failed active"


def test_one_that_lacks_too_much_is_waited_for() -> None:
    """What is kept for it is bounded; it is left out if it does not get on."""
    several = Several()
    writer, ways, _ = held(several, behind_bytes_max=1000)
    ways[2].is_cut = True
    writer.append(bytes(800))
    entries = writer.sealed(bytes(800))

    with pytest.raises(UnreachableError):
        writer.send(entries)
    assert several.ends() == [2, 2, 0]
    several.now += TIMEOUT
    assert writer.send(entries) is Outcome.STORED
    assert several.states() == "active active failed"


def test_nothing_is_dropped_that_one_lacks() -> None:
    """It is copied from the others, also by whoever takes over."""
    several = Several()
    writer, ways, tenure = held(several)
    writer.append(b"one", b"two")
    assert tenure.level(SECONDS)
    ways[2].is_cut = True
    writer.append(b"three", b"four")
    assert tenure.droppable(4) == 2
    while writer.log.drop_before(4, SECONDS):
        pass
    assert [it.first_index for it in several.databases] == [2, 2, 1]
    several.databases[0].is_away = True

    other = Writer(several.log(by_majority=True), "b")
    assert other.take().end.index == 4
    assert several.ends()[1:] == [4, 4]


def test_a_sign_of_life_is_one_of_most() -> None:
    """One that is away does not matter, two of three do."""
    several = Several()
    writer, ways, tenure = held(several)
    ways[2].is_cut = True
    assert writer.log.renew(SECONDS) is Outcome.STORED
    assert tenure.proved_count == tenure.begun_count
    ways[1].is_cut = True
    with pytest.raises(UnreachableError):
        writer.log.renew(SECONDS)
    assert tenure.proved_count < tenure.begun_count


def test_what_was_begun_earlier_is_no_sign_of_life() -> None:
    """It may have been done long before this one was asked for: it is given once more."""
    several = Several()
    writer, ways, _ = held(several)
    writer.append(b"one")
    ways[0].is_cut = True
    asked = len(ways[2].asked)

    assert writer.log.renew(SECONDS) is Outcome.STORED
    assert ways[2].asked[asked:] == ["append", "renew"]


def test_all_that_refuse_alike_are_all_kept() -> None:
    """L53 by majority: nothing of it is stored anywhere, the lease is kept, and later it is."""
    several = Several()
    writer, _, tenure = held(several)
    for it in several.databases:
        it.is_full = True
    entries = writer.sealed(b"one")

    for _ in range(3):
        with pytest.raises(AppendRefusedError, match="full"):
            writer.send(entries)
        several.now += TIMEOUT
        assert writer.log.renew(SECONDS) is Outcome.STORED
    assert not tenure.is_in_flight
    for it in several.databases:
        it.is_full = False
    assert writer.send(entries) is Outcome.STORED
    assert tenure.level(SECONDS)
    assert several.ends() == [1, 1, 1]


def test_one_that_refuses_gives_signs_of_life_all_the_same() -> None:
    """J3: two of three are full: nothing is confirmed, and the lease is not lost for it."""
    several = Several()
    writer, _, tenure = held(several)
    several.databases[0].is_full = several.databases[1].is_full = True
    entries = writer.sealed(b"one")
    for _ in range(3):
        with pytest.raises(AppendRefusedError, match="full"):
            writer.send(entries)
        several.now += TIMEOUT
        assert writer.log.renew(SECONDS) is Outcome.STORED
    assert tenure.is_in_flight, "the third one has it"
    assert several.states() == "active active active"

    several.databases[0].is_full = False
    assert writer.send(entries) is Outcome.STORED


def test_a_higher_epoch_in_any_that_answers_deposes() -> None:
    """Also in one that need not be waited for, by the next call."""
    several = Several()
    writer, _, _ = held(several)
    several.databases[0].epoch += 1

    assert writer.send(writer.sealed(b"one")) is Outcome.DEPOSED


def test_where_all_make_no_sense_it_is_told() -> None:
    """Nobody is left to go on with."""
    several = Several()
    writer, _, _ = held(several)
    for it in several.databases:
        it.has_lease_row = False

    with pytest.raises(StoreError, match="gone"):
        writer.append(b"one")


def test_a_lease_is_given_back_with_all_alike() -> None:
    """Whoever takes it next has nothing to copy."""
    several = Several()
    writer, ways, _ = held(several)
    ways[2].is_cut = True
    writer.append(b"one")
    ways[2].is_cut = False

    writer.log.release(SECONDS)
    assert several.ends() == [1, 1, 1]
    assert all(it.is_released for it in several.databases)


def test_a_broker_that_waits_for_all_takes_over_from_one_that_does_not() -> None:
    """The rule of who has what is the same for both."""
    several = Several()
    writer, ways, _ = held(several)
    ways[2].is_cut = True
    writer.append(b"one")

    other = Writer(several.log(), "b")
    assert other.take().end.index == 1
    other.append(b"two")
    assert several.ends() == [2, 2, 2]
    assert [bytes(it.body) for it in read_all(several.log())] == [b"one", b"two"]


def test_one_that_lags_by_more_than_half_a_lease_is_waited_for() -> None:
    """J5: when another one is lost it is needed, and has what it lacks within the lease."""
    several = Several()
    writer, ways, tenure = held(several, behind_bytes_max=32 << 20)

    def store(_: Member, __: float) -> Outcome:
        several.now += 0.5
        return Outcome.STORED

    measured = tenure.rates.measured("c-member", store, 500_000)
    measured(writer.log.databases.members[2], 5.0)  # type: ignore[attr-defined]
    ways[2].is_cut = True
    writer.append(bytes(900_000))
    entries = writer.sealed(bytes(900_000))
    with pytest.raises(UnreachableError):
        writer.send(entries)

    ways[2].is_cut = False
    assert writer.send(entries) is Outcome.STORED
