"""Making databases alike that were taken: what one lacks, what is slow, what nobody was told of."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from holdfast.errors import MirrorHistoriesError, UnreachableError
from holdfast.leases.contract import Holding, Outcome, TakeGoesOnError
from holdfast.raidb.levelling import Levelling
from holdfast.raidb.member import Token
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import Writer
from tests.unit.raidb.several import Killed, Several, Way
from trials.leased.model_databases import ModelDatabase

CALL_SECONDS = 4.0
FAR_BYTES_PER_SECOND = 100_000


def lacking(database: ModelDatabase, count: int) -> None:
    """Let a database be as it was that many entries before."""
    last = database.end.index - count
    for index in range(last + 1, database.end.index + 1):
        del database.rows[index]
        del database.history[index]
    database.end = type(database.end)(last, database.history[last])


def left_behind(bodies: list[bytes], lack: list[int], *, slow: bool = True) -> Several:
    """
    Three databases whose holder is gone, the last entries of which some lack.

    Args:
        bodies: Of entries that one append stored.
        lack: How many of these each database lacks.
        slow: Whether the way to those that lack any is slow.
    """
    several = Several()
    writer = several.writer()
    writer.append(b"one")
    writer.append(*bodies)
    for database, count in zip(several.databases, lack, strict=True):
        if count:
            lacking(database, count)
            database.bytes_per_second = FAR_BYTES_PER_SECOND if slow else 0
    return several


def taken(
    several: Several,
    ways: list[Way] | None = None,
    *,
    calls_max: int = 60,
    known_index: int = 0,
) -> tuple[Holding, Writer, list[str]]:
    """Take it, in as many calls as it needs; what was told meanwhile of the second database."""
    writer = Writer(several.log(several.ways() if ways is None else ways), "b")
    writer.claimant = replace(writer.claimant, known_index=known_index)
    seen = writer.log.observe(CALL_SECONDS)
    told: list[str] = []
    for _ in range(calls_max):
        began = several.now
        try:
            return writer.take(seen, CALL_SECONDS), writer, told
        except TakeGoesOnError:
            states = {it: state for it, _, state in writer.log.facts().members}
            told.append(states["b-member"])
        assert several.now - began < 2 * CALL_SECONDS, "a call is bounded"
    raise AssertionError("it never ends")


def test_what_is_in_too_few_to_be_confirmed_is_cut_where_it_takes_too_long() -> None:
    """J6: a large message was under way when the holder died, and only the nearest one has it."""
    several = left_behind([bytes(800_000)], [0, 1, 1])
    holding, writer, _ = taken(several)

    assert holding.end.index == 1
    assert several.ends() == [1, 1, 1]
    assert several.states() == "active active active"
    writer.append(b"next")
    several.pass_time(60.0)
    assert several.ends() == [2, 2, 2], "nothing of it comes late"
    writer.append(b"last")
    assert several.states() == "active active active"


def test_what_is_in_too_few_is_copied_where_that_is_soon_done() -> None:
    """As after any loss: whoever sent it need not send it again."""
    several = left_behind([bytes(800_000)], [0, 1, 1], slow=False)

    assert taken(several)[0].end.index == 2
    assert several.ends() == [2, 2, 2]


def test_what_there_is_no_room_for_is_cut() -> None:
    """J3: two of three are full, and the third has stored what they refused."""
    several = left_behind([bytes(100_000)], [0, 1, 1], slow=False)
    several.databases[1].is_full = several.databases[2].is_full = True

    assert taken(several)[0].end.index == 1
    assert several.ends() == [1, 1, 1]
    assert several.states() == "active active active"


def lagging(last: list[bytes]) -> Several:
    """Three databases of which the first alone has these, two have no room, and the third lags."""
    several = Several()
    writer = several.writer()
    for body in (b"one", b"two", *last):
        writer.append(body)
    for database, count in zip(several.databases[1:], (len(last), len(last) + 1), strict=True):
        lacking(database, count)
        database.is_full = True
    return several


@pytest.mark.parametrize("known_index", [0, 1, 2])
def test_what_was_in_flight_is_cut_to_what_is_sure_and_not_to_the_shortest(
    known_index: int,
) -> None:
    """By majority one may lag: what it lacks is no reason to wait for room. It is left out."""
    several = lagging([bytes(100_000)])

    assert taken(several, known_index=known_index)[0].end.index == 2
    assert several.ends() == [2, 2, 1]
    assert several.states() == "active active failed"


def test_what_is_known_to_be_final_stays_where_more_is_cut() -> None:
    """This broker has read the third entry: it is copied once there is room, and the fourth not."""
    several = lagging([b"three", bytes(100_000)])
    with pytest.raises(UnreachableError, match="too few databases are left"):
        taken(several, known_index=3)
    assert several.ends() == [3, 2, 1]
    several.databases[1].is_full = False
    assert taken(several, known_index=3)[0].end.index == 3
    assert several.ends() == [3, 3, 1]


@pytest.mark.parametrize(("size", "known_index"), [(100_000, 2), (100, 0)])
def test_what_may_have_been_confirmed_is_waited_for(size: int, known_index: int) -> None:
    """
    One that was put back by one entry lacks no more than one that never got it: what this broker
    knows to be final stays, and whatever is small.
    """
    several = left_behind([bytes(size)], [0, 1, 1], slow=False)
    several.databases[1].is_full = several.databases[2].is_full = True
    with pytest.raises(UnreachableError, match="too few databases are left"):
        taken(several, known_index=known_index)
    assert several.ends() == [2, 1, 1]
    several.databases[1].is_full = several.databases[2].is_full = False
    assert taken(several, known_index=known_index)[0].end.index == 2


def test_what_more_than_half_may_have_is_copied_however_long_it_takes() -> None:
    """J5: one of the two that had it is away; the other one holds the lease for as long."""
    several = left_behind([bytes(20_000)] * 60, [0, 60, 0])
    several.databases[2].is_away = True
    ways = several.ways()
    holding, _, told = taken(several, ways)

    assert holding.end.index == 61
    assert several.ends()[:2] == [61, 61]
    assert several.states() == "active active failed"
    assert len(told) > 2
    assert told[0].startswith("active: gets entries 2 to 61 before anybody serves: ")
    shares = [int(it.split(" %")[0].split()[-1]) for it in told if "%" in it]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 100
    assert ways[0].asked.count("renew") > 3, "the others hear of it"


def test_one_entry_that_takes_longer_than_a_lease_is_stored() -> None:
    """It is one piece, and is given twice as long each time that it fails."""
    several = left_behind([bytes(1_500_000)], [0, 1, 0])
    several.databases[2].is_away = True
    ways = several.ways()

    assert taken(several, ways)[0].end.index == 2
    assert several.ends()[:2] == [2, 2]
    assert ways[0].asked.count("renew") > 3


def test_older_states_of_most_take_nothing_with_them() -> None:
    """What they lack is more than one append can be: it was confirmed once, and is copied."""
    several = left_behind([bytes(300_000)] * 4, [0, 4, 4])

    assert taken(several)[0].end.index == 5
    assert several.databases[0].end.index == 5


def test_what_an_earlier_epoch_stored_is_not_cut() -> None:
    """Whoever began the last epoch had made all alike: who lacks it was put back."""
    several = left_behind([bytes(500_000)], [0, 0, 0])
    Writer(several.log(), "c").take()
    for database in several.databases[1:]:
        lacking(database, 1)
        database.bytes_per_second = FAR_BYTES_PER_SECOND

    assert taken(several)[0].end.index == 2


def test_of_four_half_are_too_few_to_have_confirmed() -> None:
    """Two that have it are not most; three are, and then it is copied."""
    for lack, end in (([0, 0, 1, 1], 2), ([0, 1, 1, 1], 1)):
        several = Several(4)
        writer = several.writer()
        writer.append(b"one")
        writer.append(bytes(3_000_000))
        for database, count in zip(several.databases, lack, strict=True):
            if count:
                lacking(database, count)
                database.bytes_per_second = FAR_BYTES_PER_SECOND
        # Those that can be spared are left out rather than that anything is cut off.
        assert taken(several)[0].end.index == end


def test_another_broker_that_takes_it_ends_it() -> None:
    """Whoever was paused for longer than a lease has nothing more to say."""
    several = left_behind([bytes(20_000)] * 60, [0, 60, 0])
    several.databases[2].is_away = True
    writer = Writer(several.log(), "b")
    seen = writer.log.observe(CALL_SECONDS)
    with pytest.raises(TakeGoesOnError):
        writer.take(seen, CALL_SECONDS)
    taken(several)

    with pytest.raises(UnreachableError, match="another broker has taken"):
        writer.take(seen, CALL_SECONDS)
    assert not several.databases[0].is_released


def test_one_that_is_needed_and_has_no_room_is_told() -> None:
    """What it lacks may have been confirmed: the lease is given back, and the sentence says why."""
    several = left_behind([b"two"], [0, 1, 0], slow=False)
    several.databases[1].is_full = True
    several.databases[2].is_away = True
    writer = Writer(several.log(), "b")

    with pytest.raises(
        UnreachableError, match="b-member: b-member is full: without that too few databases"
    ):
        writer.take()
    assert several.databases[0].is_released
    assert several.databases[0].end.index == 2
    several.databases[1].is_full = False
    assert writer.take().end.index == 2


def test_one_that_stops_answering_is_no_matter_of_time() -> None:
    """It is given back at once, and the next take begins where this one came to."""
    several = left_behind([bytes(20_000)] * 60, [0, 60, 0])
    several.databases[2].is_away = True
    ways = several.ways()
    writer = Writer(several.log(ways), "b")
    seen = writer.log.observe(CALL_SECONDS)
    with pytest.raises(TakeGoesOnError):
        writer.take(seen, CALL_SECONDS)
    ways[1].is_cut = True
    began = several.now

    with pytest.raises(UnreachableError, match="too few databases are left"):
        for _ in range(60):
            try:
                writer.take(seen, CALL_SECONDS)
            except TakeGoesOnError:
                continue
    assert several.now - began < 10 * CALL_SECONDS
    assert several.databases[0].is_released
    ways[1].is_cut = False
    several.pass_time(10.0)
    assert several.databases[1].end.index > 1
    assert taken(several)[0].end.index == 61


def test_what_comes_late_after_a_cut_is_refused() -> None:
    """All are taken anew before it: what was sent under the epoch of the take fits no more."""
    several = left_behind([bytes(800_000)], [0, 1, 1])
    _, writer, _ = taken(several)
    assert several.under_way, "the copies are on their way still"
    assert isinstance(writer.log, RaidbLog)
    epochs = [it.epoch for it in several.databases]
    assert min(epochs) > writer.epoch

    several.pass_time(60.0)
    assert several.ends() == [1, 1, 1]
    assert writer.send(writer.sealed(b"two")) is Outcome.STORED


@pytest.mark.parametrize("lack", [[0, 1, 1], [0, 1, 0]])
def test_a_taker_that_dies_at_any_step_leaves_it_to_the_next(lack: list[int]) -> None:
    """Also between what it cuts off and the set: what most had is there, and all are alike."""
    ends = set()
    for count in range(1, 200):
        several = left_behind([bytes(2_000_000)], lack)
        writer = Writer(several.log(), "b")
        seen = writer.log.observe(CALL_SECONDS)
        several.statements_left = count
        try:
            while True:
                with suppress(TakeGoesOnError):
                    writer.take(seen, CALL_SECONDS)
                    break
        except Killed:
            several.statements_left = -1
        else:
            break
        several.pass_time(30.0)
        holding, after, _ = taken(several)
        ends.add(holding.end.index)
        after.append(b"more")
        assert several.states().count("active") >= 2
    else:
        raise AssertionError("it never comes to an end")
    assert ends == ({2} if lack.count(0) == 2 else {1, 2})


def test_two_histories_are_never_called_alike() -> None:
    """L8: the entry that tells them apart could not be read; nothing is cut off, or copied."""
    several = left_behind([b"two", bytes(100_000)], [0, 1, 1], slow=False)
    longest, *others = several.databases
    for it in others:
        it.history[2] = b"f" * 16
        it.end = type(it.end)(2, it.history[2])
    whole = longest.rows[2]
    longest.rows[2] = whole[:-1] + bytes([whole[-1] ^ 1])
    with pytest.raises(UnreachableError, match="the lease was not taken everywhere"):
        taken(several)
    assert several.ends() == [3, 2, 2]
    longest.rows[2] = whole
    with pytest.raises(MirrorHistoriesError):
        taken(several)


def test_a_take_of_ones_own_that_comes_late_is_no_other_brokers() -> None:
    """It was sent, and its answer lost: then the token before counts no more. Seeds 46 and 241."""
    before, after = Token(7, "a" * 32, "m"), Token(8, "a" * 32, "m")
    levelling = object.__new__(Levelling)
    levelling._sent, levelling._beating = {"m": after}, {"m": lambda: None}  # type: ignore[dict-item]
    levelling._tenure = SimpleNamespace(tokens={"m": before})  # type: ignore[assignment]
    levelling._beaten_at, levelling._clock = {}, lambda: 0.0
    levelling._are_beaten({"m": Outcome.DEPOSED})
    assert levelling._tenure.tokens == {"m": after}
    levelling._beating = {"m": lambda: None}  # type: ignore[dict-item]
    levelling._databases = SimpleNamespace(name=str)  # type: ignore[assignment]
    with pytest.raises(UnreachableError, match="another broker has taken m"):
        levelling._are_beaten({"m": Outcome.DEPOSED})
