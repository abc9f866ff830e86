"""The lease and the log in a directory: takes, appends, zombies, failures."""

from __future__ import annotations

import errno

import pytest

from holdfast.environment.disk import NoRoomError
from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.shared.lease_files import CurrentFile, claim
from holdfast.shared.reserve import Reserve
from holdfast.shared.settings import SharedSettings
from trials.simulation.local_share import LocalShare, claimant, end_of, seal
from trials.simulation.simulated_disk import PowerCut

TAKES = SharedSettings().takes_with_room


@pytest.fixture
def share() -> LocalShare:
    return LocalShare()


def test_an_empty_directory_is_nobodys(share: LocalShare) -> None:
    """Epoch 0 has no holder, no entry and nothing that is sure."""
    found = share.log().observe()

    assert (found.epoch, found.claimant, found.first_index) == (0, None, 1)
    assert found.end == found.sure
    assert found.end.index == 0


def test_what_was_stored_is_found_by_the_next_holder(share: LocalShare) -> None:
    """Also when it was one entry after another and several at once, over several segments."""
    log, holding = share.taken("a")
    entries = seal(holding.end, 1, *[bytes([65 + n]) * 2000 for n in range(10)])
    for group in (entries[:1], entries[1:5], entries[5:]):
        assert log.append(group) is Outcome.STORED

    other, taken = share.taken("b")
    assert taken.epoch == 2
    assert taken.end == taken.sure == end_of(entries)
    assert other.entries(0, 10, 10**9) == entries


def test_the_same_again_is_stored_once(share: LocalShare) -> None:
    """A reply that was lost is asked for again, and nothing is there twice."""
    log, holding = share.taken()
    entries = seal(holding.end, 1, b"a", b"b")
    assert log.append(entries) is Outcome.STORED
    assert log.append(entries) is Outcome.STORED

    assert log.entries(0, 9, 10**9) == entries


def test_a_zombie_confirms_nothing_and_is_not_seen(share: LocalShare) -> None:
    """What it writes after the take is dead, also after further takes (L13, L14)."""
    zombie, holding = share.taken("a")
    first = seal(holding.end, 1, b"first")
    zombie.append(first)
    zombie_segment = zombie._held._segment
    other, _ = share.taken("b")
    late = seal(end_of(first), 1, b"late")
    # Written after the taker has read, as if it had been asked for before.
    zombie_segment.write(late)

    assert zombie.append(late) is Outcome.DEPOSED
    assert zombie.renew() is Outcome.DEPOSED
    assert zombie.append(late) is Outcome.DEPOSED
    second = seal(end_of(first), 2, b"second")
    assert other.append(second) is Outcome.STORED
    third, taken = share.taken("c")
    assert taken.end == end_of(second)
    assert third.entries(0, 9, 10**9) == first + second


def test_what_was_synced_before_the_take_is_kept_though_unconfirmed(share: LocalShare) -> None:
    """Paused between the sync and the look at the lease: the taker has it, the zombie no word."""
    holder, holding = share.taken("a")
    entries = seal(holding.end, 1, b"first")
    taken = []
    is_newest = CurrentFile.is_newest

    def paused(current, epoch, who):
        if not taken:
            taken.append(None)
            taken[0] = share.taken("b")
        return is_newest(current, epoch, who)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CurrentFile, "is_newest", paused)
        assert holder.append(entries) is Outcome.DEPOSED

    other, after = taken[0]
    assert after.end == end_of(entries)
    assert other.entries(0, 9, 10**9) == entries


def test_of_two_that_saw_the_same_one_takes(share: LocalShare) -> None:
    """The other one reads who won, and that it has not been heard of yet (L5)."""
    first, second = share.log(), share.log()
    seen = first.observe(), second.observe()

    assert first.take(seen[0], claimant("a")) is not None
    assert second.take(seen[1], claimant("b")) is None
    found = second.observe()
    assert (found.epoch, found.claimant.name) == (1, "a")


def test_a_beat_or_an_append_since_keeps_the_lease(share: LocalShare) -> None:
    """What was seen must be as it was, or nothing is taken (L10)."""
    holder, holding = share.taken("a")
    waiter = share.log()
    seen = waiter.observe()
    holder.renew()
    assert waiter.take(seen, claimant("b")) is None

    seen = waiter.observe()
    holder.append(seal(holding.end, 1, b"x"))
    assert waiter.take(seen, claimant("b")) is None
    assert holder.renew() is Outcome.STORED


def test_a_claim_that_never_begins_is_passed_over(share: LocalShare) -> None:
    """Its winner died between claim and `current`: the next epoch is taken (L21)."""
    _, holding = share.taken("a")
    claim(share.disk, share.places, 2, claimant("dead"))
    waiter = share.log()
    assert waiter.take(waiter.observe(), claimant("b")) is None

    seen = waiter.observe()
    assert (seen.epoch, seen.beat, seen.claimant.name) == (2, 0, "dead")
    taken = waiter.take(seen, claimant("b"))
    assert taken.epoch == 3
    assert taken.end == holding.end


def test_a_take_that_is_cut_off_anywhere_loses_nothing(share: LocalShare) -> None:
    """The power fails at each step of a take, with all seeds of the disk: the next one has all."""
    for step in range(1, 60):
        share = LocalShare()
        share.disk._random.seed(step)
        log, holding = share.taken("a")
        entries = seal(holding.end, 1, b"a" * 100, b"b" * 3000)
        log.append(entries[:1])
        log.append(entries[1:])
        share.disk.cut_at = share.disk.operations + step
        try:
            share.taken("b")
        except PowerCut:
            share.disk.power_cut()
        share.disk.cut_at = 0
        last = share.log()
        while (taken := last.take(last.observe(), claimant("c"))) is None:
            pass

        assert last.entries(0, 9, 10**9) == entries
        assert taken.end == end_of(entries)


def test_nothing_that_a_taker_copied_hangs_on_anothers_sync(share: LocalShare) -> None:
    """What was read and never synced is gone with the power; the taker has its own copy."""
    holder, holding = share.taken("a")
    entries = seal(holding.end, 1, b"unsynced")
    segment = holder._held._segment
    share.disk.open(share.places.journal / segment.name).write(entries[0].raw, 4096)
    other, taken = share.taken("b")
    assert taken.end == end_of(entries)
    more = seal(taken.end, 2, b"more")
    other.append(more)
    share.disk.power_cut()

    last, taken = share.taken("c")
    assert last.entries(0, 9, 10**9) == entries + more


def test_a_holder_that_came_back_under_the_same_name_is_another(share: LocalShare) -> None:
    """A name says nothing: the process does (L8)."""
    first, _ = share.taken("same")
    second, taken = share.taken("same")

    assert taken.epoch == 2
    assert first.renew() is Outcome.DEPOSED
    assert second.renew() is Outcome.STORED


def test_a_released_lease_says_so_and_stores_nothing(share: LocalShare) -> None:
    """Who waits may take it at once (L6)."""
    log, holding = share.taken("a")
    log.release()
    log.release()

    assert share.log().observe().is_released
    assert log.append(seal(holding.end, 1, b"x")) is Outcome.DEPOSED
    assert log.renew() is Outcome.DEPOSED


def test_a_full_disk_refuses_and_keeps_the_lease(share: LocalShare) -> None:
    """Nothing of it is kept; when there is room again the same is stored."""
    log, holding = share.taken()
    entries = seal(holding.end, 1, b"x" * 20_000)
    share.disk.limit(100)
    with pytest.raises(AppendRefusedError, match="there is no room in /share"):
        log.append(entries)
    assert share.log().observe().end.index == 0
    assert log.renew() is Outcome.STORED

    share.disk.limit(None)
    assert log.append(entries) is Outcome.STORED
    assert share.log().observe().end == end_of(entries)


@pytest.mark.parametrize("left", [0, 100, 4096, 5000, 9000, 13_000, 17_000])
def test_a_share_that_others_have_filled_is_taken_all_the_same(
    share: LocalShare, left: int
) -> None:
    """Room was kept for several takes, and each of them stores what makes room (L39)."""
    log, holding = share.taken("a")
    entries = seal(holding.end, 1, b"a" * 3000)
    log.append(entries)
    for _ in range(TAKES):
        log.renew()
    share.disk.limit(left)
    for number in range(TAKES):
        log, holding = share.taken(f"b{number}")
        assert holding.epoch == 2 + number
        more = seal(holding.end, holding.epoch, b"acknowledged")
        assert log.append(more) is Outcome.STORED
        entries += more
        share.disk.limit(left)
    assert log.entries(0, 99, 10**9) == entries

    log = share.log()
    with pytest.raises(NoRoomError):
        while log.take(log.observe(), claimant("c")) is None:
            pass
    share.disk.limit(None)
    while log.take(log.observe(), claimant("c")) is None:
        pass
    assert log.entries(0, 99, 10**9) == entries


def test_whether_a_lease_may_be_given_up_is_said_by_what_there_is_now(
    share: LocalShare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Not by the last beat, which may be long ago: the next take must have room. What cannot be seen
    is not counted upon (seed 1144 of the simulation with others that fill the share).
    """

    def is_kept() -> bool:
        with pytest.raises(AppendRefusedError) as caught:
            log.append(entries)
        return caught.value.keeps_lease

    log, holding = share.taken()
    entries = seal(holding.end, 1, b"x" * 20_000)
    share.disk.limit(0)
    assert is_kept(), "nothing is kept yet"
    share.disk.limit(None)
    for _ in range(TAKES):
        log.renew()
    share.disk.limit(0)
    assert not is_kept()
    with monkeypatch.context() as patched:
        patched.setattr(Reserve, "takes_left", lambda _: (_ for _ in ()).throw(OSError()))
        assert is_kept()
    for number in range(TAKES - 1):
        share.disk.unlink(share.places.reserve(number))
    share.disk.limit(0)
    assert is_kept(), "one is for who follows"


def test_no_room_is_kept_where_there_is_little(share: LocalShare) -> None:
    """Below what is to be left for acknowledgements nothing is made of it."""
    log, _ = share.taken("a")
    share.disk.limit(60_000)
    assert log.renew() is Outcome.STORED
    assert log.low_room
    assert not share.disk.exists(share.places.reserve(TAKES - 1))
    share.disk.limit(None)
    log.renew()
    assert share.disk.exists(share.places.reserve(TAKES - 1))


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("step", ["write", "sync"])
def test_a_failed_write_is_unknown_and_goes_on_in_a_new_file(
    share: LocalShare, number: int, step: str
) -> None:
    """The file is not believed any more; the same again is stored in another (L17)."""
    log, holding = share.taken()
    first = seal(holding.end, 1, b"first")
    log.append(first)
    second = seal(end_of(first), 1, b"second", b"third")
    share.disk.fail_next[step] = number
    with pytest.raises(UnreachableError, match="/share could not be written"):
        log.append(second)

    assert log.append(second) is Outcome.STORED
    names = share.disk.list_directory(share.places.journal)
    assert len(names) == 2
    other, _ = share.taken("b")
    assert other.entries(0, 9, 10**9) == first + second


def test_a_failed_write_of_a_deposed_holder_says_deposed(share: LocalShare) -> None:
    """A client of NFS that lost its locks gets EIO: the lease tells why (L17)."""
    zombie, holding = share.taken("a")
    share.taken("b")
    share.disk.fail_next["sync"] = errno.EIO

    assert zombie.append(seal(holding.end, 1, b"x")) is Outcome.DEPOSED


def test_an_unknown_look_at_the_lease_is_asked_again(share: LocalShare) -> None:
    """Durable and not confirmed: the same again asks only."""
    log, holding = share.taken()
    entries = seal(holding.end, 1, b"x")
    share.disk.fail_next["open"] = errno.EIO
    with pytest.raises(OSError):
        log.append(entries)

    assert log.append(entries) is Outcome.STORED
    assert log.append(seal(end_of(entries), 1, b"y")) is Outcome.STORED


def test_an_append_that_does_not_follow_is_refused(share: LocalShare) -> None:
    """A gap, or another history, is an error of ours that stops."""
    log, holding = share.taken()
    first, second = seal(holding.end, 1, b"a", b"b")
    with pytest.raises(StoreError, match="do not follow on entry 0"):
        log.append([second])
    log.append([first])
    with pytest.raises(StoreError, match="do not follow on entry 1"):
        log.append(seal(holding.end, 1, b"other"))


def test_appends_are_beats_and_tell_what_is_sure(share: LocalShare) -> None:
    """Under load nobody renews: each append is seen, and what is confirmed is told now and then."""
    log, holding = share.taken()
    waiter = share.log()
    before = waiter.observe()
    first = seal(holding.end, 1, b"a")
    log.append(first)
    seen = waiter.observe()
    assert seen.beat != before.beat
    assert (seen.end.index, seen.sure.index) == (1, 0)

    share.now += 2
    log.append(seal(end_of(first), 1, b"b"))
    assert waiter.observe().sure.index == 2


def test_dropping_goes_by_whole_segments_and_is_told_first(share: LocalShare) -> None:
    """The first index is exact; files go that hold nothing from there on, the newest never."""
    log, holding = share.taken()
    entries = seal(holding.end, 1, *[bytes([65 + n]) * 3500 for n in range(30)])
    for entry in entries:
        log.append([entry])
    before = share.disk.list_directory(share.places.journal)
    rounds = 1
    while log.drop_before(99):
        rounds += 1

    assert len(before) == 11
    assert rounds == 2
    assert share.disk.list_directory(share.places.journal) == before[-1:]
    assert share.log().observe().first_index == 31
    other, taken = share.taken("b")
    assert taken.first_index == 31
    assert other.append(seal(taken.end, 2, b"x")) is Outcome.STORED


def test_a_deposed_holder_drops_nothing(share: LocalShare) -> None:
    """Its cleaning was pending when it was paused (L12)."""
    zombie, holding = share.taken("a")
    entries = seal(holding.end, 1, *[bytes([65 + n]) * 3500 for n in range(8)])
    for entry in entries:
        zombie.append([entry])
    share.taken("b")
    before = share.disk.list_directory(share.places.journal)

    assert zombie.drop_before(6) is False
    assert zombie.drop_before(6) is False
    assert share.disk.list_directory(share.places.journal) == before
    assert share.log().observe().first_index == 1


def test_dead_files_go_once_the_log_begins_behind_them(share: LocalShare) -> None:
    """What an earlier epoch left that is no part of the log."""
    zombie, holding = share.taken("a")
    entries = seal(holding.end, 1, b"a" * 3000)
    segment = zombie._held._segment.name
    log, taken = share.taken("b")
    for entry in seal(taken.end, 2, *[bytes([65 + n]) * 3500 for n in range(8)]):
        log.append([entry])
    assert segment in share.disk.list_directory(share.places.journal)
    while log.drop_before(5):
        pass

    assert segment not in share.disk.list_directory(share.places.journal)
    assert len(entries) == 1


def test_the_lock_tells_that_a_holder_is_gone(share: LocalShare) -> None:
    """A hint: held while it is held, free when its process has let go, unknown before it began."""
    log, holding = share.taken("a")
    waiter = share.log()
    assert not waiter.is_holder_gone(holding)
    log.close()

    assert waiter.is_holder_gone(holding)
    claim(share.disk, share.places, 2, claimant("b"))
    assert waiter.take(holding, claimant("c")) is None
    assert not waiter.is_holder_gone(waiter.observe())


def test_a_damaged_page_of_the_holder_is_read_from_its_claim(share: LocalShare) -> None:
    """Who holds the lease stands in two places."""
    log, holding = share.taken("a")
    share.disk.flip_bit(share.places.current, (4096 + 20) * 8)

    found = share.log().observe()
    assert (found.epoch, found.claimant) == (1, holding.claimant)
    assert log.renew() is Outcome.DEPOSED


def test_a_take_whose_files_were_dropped_meanwhile_is_none(share: LocalShare) -> None:
    """A younger holder has cleaned up behind a taker that slept: it has lost, and no more."""
    share.taken("a")
    late = share.log()
    seen = late.observe()
    make = type(share.disk).create
    overtaken = []

    def create(disk, path):
        made = make(disk, path)
        if path.name.endswith("-2.seg") and not overtaken:
            overtaken.append(share.log())
            again = overtaken[0]
            taken = again.take(again.observe(), claimant("c"))
            assert taken is not None and taken.epoch == 3
            disk.unlink(path)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(share.disk), "create", create)
        assert late.take(seen, claimant("b")) is None
    assert overtaken[0].renew() is Outcome.STORED
