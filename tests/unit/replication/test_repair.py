"""Tests of replication/repair.py: damage is mended with a proven copy, or not at all."""

from __future__ import annotations

import errno
from copy import copy

import pytest

from holdfast.errors import CorruptEntryError, JournalFailedError, StoreError
from holdfast.journal.damage import Damage
from holdfast.journal.entry import FIRST_CHAIN
from holdfast.journal.jobs import RepairJob
from holdfast.journal.journal import Journal
from holdfast.replication import follower, run_proof
from holdfast.replication.index_set import IndexSet
from holdfast.replication.messages import NO_CHAIN, AppendRequest, RepairRequest, RepairResponse
from holdfast.replication.repair import REPAIRS_MAX, Repairs, answer, is_proven
from holdfast.replication.run_proof import RunProof


def asked(bench, repairs):
    repairs.ask(bench.state)
    return [(peer, message.index) for peer, message in bench.sent()]


def brought(bench, repairs, index, copy):
    """A peer's answer comes; the writer does what follows; tell whether it mended the entry."""
    before = repairs.repaired_count
    repairs.ask(bench.state)
    repairs.take(bench.state, RepairResponse(index, copy))
    repairs.work(bench.state)
    bench.store()
    repairs.work(bench.state)
    return repairs.repaired_count > before


def test_the_leader_is_asked_first_then_everybody(member) -> None:
    """Who does not answer in time is not waited for."""
    bench, repairs = member(terms=[2, 2]), Repairs()
    bench.state.leader = "c"
    bench.state.log.damaged.add(2)

    assert [("c", 2)] == asked(bench, repairs)
    assert [] == asked(bench, repairs)
    bench.state.now = repairs.deadline(bench.state)
    ((peer, index),) = asked(bench, repairs)
    assert (True, 2) == (peer in "bc", index)


def test_a_bounded_number_is_asked_for_at_once(member) -> None:
    """A whole bad segment does not flood the peers."""
    bench, repairs = member(terms=[2] * 20), Repairs()
    bench.state.log.damaged.update(range(2, 20))

    assert REPAIRS_MAX == len(asked(bench, repairs))


def test_without_damage_there_is_nothing_to_wait_for(member) -> None:
    """No deadline, no messages."""
    bench, repairs = member(), Repairs()

    assert [] == asked(bench, repairs)
    assert float("inf") == repairs.deadline(bench.state)


def test_a_right_copy_is_written(member) -> None:
    """The neighbours' chain proves it; then the damage is gone."""
    bench, repairs = member(terms=[2, 2, 2]), Repairs()
    bench.state.log.damaged.add(3)
    copy = bench.journal.entry(3)

    assert brought(bench, repairs, 3, copy)
    assert (set(), 1) == (bench.state.log.damaged, repairs.repaired_count)
    assert not brought(bench, repairs, 3, copy)


def lose_headers(bench, *indexes):
    """The headers of these rot, and the process starts again."""
    for index in indexes:
        place = bench.journal.place_of(index)
        bench.disk.flip_bit(place.path, place.byte * 8 + 70)
    bench.reopen()


def exchange(bench, repairs, copies, rounds=20):
    """What is asked for is answered, each time, with one of these; give how often it was."""
    count = 0
    for _ in range(rounds):
        bench.state.now += bench.state.settings.repair_seconds
        for _, index in asked(bench, repairs):
            count += 1
            repairs.take(bench.state, RepairResponse(index, copies.get(index)))
        repairs.work(bench.state)
        bench.store()
        repairs.work(bench.state)
        bench.store()
    return count


@pytest.mark.promise("F17")
def test_where_several_headers_are_lost_the_last_copy_proves_the_others(member) -> None:
    """They are asked for from the end backwards, and written from the first one on."""
    bench, repairs = member(terms=[2] * 6), Repairs()
    copies = {index: bench.journal.entry(index) for index in range(1, 8)}
    lose_headers(bench, 3, 4, 5, 6)
    assert {3, 4, 5, 6} == set(bench.state.log.damaged.smallest(9))

    exchange(bench, repairs, {index: copies[index] for index in (3, 4, 5)})
    assert 0 == repairs.repaired_count
    exchange(bench, repairs, copies)

    assert 4 == repairs.repaired_count
    bench.reopen()
    assert bench.state.log.is_whole
    assert all(bench.journal.entry(index) == copy for index, copy in copies.items())


def test_what_stands_between_two_lost_headers_is_taken_from_the_own_disk(member) -> None:
    """It proves the copy of the first one, and nobody is asked for what stands there itself."""
    bench, repairs = member(terms=[2] * 6), Repairs()
    copies = {index: bench.journal.entry(index) for index in range(1, 8)}
    lose_headers(bench, 3, 6)

    exchange(bench, repairs, {3: copies[3]})
    assert {6} == bench.state.log.damaged
    assert [copies[4], copies[5]] == [bench.journal.entry(4), bench.journal.entry(5)]
    assert brought(bench, repairs, 6, copies[6])


@pytest.mark.promise("F17")
@pytest.mark.parametrize("lost", [(1, 2), (1, 2, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize("mended", [0, 1])
def test_lost_headers_at_the_beginning_prove_no_difference(member, lost, mended) -> None:
    """
    No entry stands before them. Their term was taken from the one behind, and was too high: the
    leader's own entries of a term between were taken for others, and what was stored was cut off.
    """
    bench = member(terms=[2, 2, 3, 3, 4])
    others = [bench.journal.entry(index) for index in range(1, 7)]
    lose_headers(bench, *lost)
    bench.state.term = 5
    if mended:
        exchange(bench, Repairs(), {1: others[0]})
    assert all(bench.journal.term_at(it.index) <= it.term for it in others)

    chain = others[0].chain if mended else FIRST_CHAIN
    message = AppendRequest(5, mended, mended, chain, 0, 0, 1.0, others[mended:])
    follower.on_append(bench.state, "b", message)

    assert 6 == bench.journal.last_index


@pytest.mark.promise("F17")
@pytest.mark.parametrize("rotten", [(6,), (5, 6), (4, 6)])
def test_a_header_behind_damage_tells_though_its_body_is_rotten(member, rotten) -> None:
    """All to the log's end is damaged. What of it still has a header bounds the terms before it."""
    bench = member(terms=[2] * 5)
    others = [bench.journal.entry(index) for index in range(1, 7)]
    lose_headers(bench, *(it for it in range(2, 7) if it not in rotten))
    bench.state.term = 3
    for index in rotten:
        place = bench.journal.place_of(index)
        bench.disk.flip_bit(place.path, (place.byte + place.size - 1) * 8)
        bench.state.log.damaged.add(index)

    message = AppendRequest(3, 1, 1, others[0].chain, 0, 0, 1.0, others[1:3])
    follower.on_append(bench.state, "b", message)

    assert 6 == bench.journal.last_index


@pytest.mark.promise("F17")
@pytest.mark.parametrize("lost", [(3, 6), (3, 4), (3, 4, 5, 6)])
def test_whoever_was_cut_off_proves_nothing_with_what_it_put_there(member, lost) -> None:
    """It continues the entry before as well; only the entry behind tells the two apart."""
    bench, repairs = member(terms=[2, 3, 3, 3, 3, 3]), Repairs()
    copies = {index: bench.journal.entry(index) for index in range(1, 8)}
    deposed = member(terms=[2, 2, 2, 2, 2, 2])
    others = {index: deposed.journal.entry(index) for index in range(3, 8)}
    assert copies[2] == deposed.journal.entry(2)
    lose_headers(bench, *lost)

    exchange(bench, repairs, others)
    assert 0 == repairs.repaired_count
    exchange(bench, repairs, {**others, lost[-1]: copies[lost[-1]]})
    assert 3 in bench.state.log.damaged
    exchange(bench, repairs, copies)
    assert bench.state.log.is_whole
    assert all(bench.journal.entry(index) == copy for index, copy in copies.items())


def test_what_stands_there_and_does_not_continue_the_log_is_not_taken(member) -> None:
    """An older write of the same index, for one, that a later cut had thrown away."""
    bench, repairs = member(terms=[2] * 4), Repairs()
    copy = bench.journal.entry(3)
    other = member(terms=[3, 3, 3])
    place = bench.journal.place_of(4)
    content = bytearray(bench.disk.content(place.path))
    content[place.byte : place.byte + place.size] = other.journal.entry(4).raw
    bench.disk.replace_content(place.path, bytes(content))
    bench.state.log.damaged.update({3, 4})
    for index in (3, 4):
        bench.journal.report_damage(Damage("s", 0, index, "the header checksum is wrong"))

    assert brought(bench, repairs, 3, copy)
    for _ in range(4):
        repairs.work(bench.state)
        bench.store()
    assert {4} == bench.state.log.damaged


def test_an_entry_is_damaged_until_its_repair_is_durable(member) -> None:
    """Nothing is claimed of it before, and the next repair waits its turn."""
    bench, repairs = member(terms=[2, 2, 2]), Repairs()
    bench.state.log.damaged.update({2, 3})
    copies = {index: bench.journal.entry(index) for index in (2, 3)}
    repairs.ask(bench.state)
    for index in (3, 2):
        repairs.take(bench.state, RepairResponse(index, copies[index]))
    repairs.work(bench.state)
    repairs.work(bench.state)

    assert ({2, 3}, 1) == (bench.state.log.damaged, len(bench.state.log.jobs))
    bench.store()
    repairs.work(bench.state)
    assert ({3}, 1) == (bench.state.log.damaged, len(bench.state.log.jobs))
    bench.store()
    repairs.work(bench.state)
    assert (set(), 2) == (bench.state.log.damaged, repairs.repaired_count)


def test_a_repair_whose_sync_fails_is_never_tried_again(member) -> None:
    """A failed sync is final: what the disk holds is unknown, and the kernel tells only once."""
    bench, repairs = member(terms=[2, 2, 2]), Repairs()
    bench.state.log.damaged.add(3)
    copy = bench.journal.entry(3)
    bench.disk.fail_next["sync"] = errno.EIO

    assert not brought(bench, repairs, 3, copy)
    assert bench.writer.failure is not None
    with pytest.raises(JournalFailedError):
        brought(bench, Repairs(), 3, copy)
    assert {3} == bench.state.log.damaged


def test_a_wrong_copy_is_not_written(member, entry_after) -> None:
    """Another entry of that index and term does not fit between its neighbours."""
    bench, repairs = member(terms=[2, 2, 2]), Repairs()
    other = member(terms=[2])
    wrong = entry_after(other.journal, 2, b"something else")
    bench.state.log.damaged.add(3)

    assert not is_proven(bench.state, wrong, RunProof())
    assert not brought(bench, repairs, 3, wrong)
    assert {3} == bench.state.log.damaged


def test_a_peer_without_a_copy_is_no_harm(member) -> None:
    """The next one is asked."""
    bench, repairs = member(terms=[2]), Repairs()
    bench.state.log.damaged.add(2)

    assert not brought(bench, repairs, 2, None)


def test_each_entry_is_asked_of_everybody_in_turn(member) -> None:
    """However many are asked for at once: with an even number each had one peer for ever."""
    bench, repairs = member(terms=[2] * 20), Repairs()
    bench.state.leader = "c"
    for count in range(1, REPAIRS_MAX + 1):
        bench.state.log.damaged.clear()
        bench.state.log.damaged.update(range(2, 2 + 2 * count, 2))
        whom = {}
        for _ in range(2):
            bench.state.now = repairs.deadline(bench.state) + bench.state.settings.repair_seconds
            for peer, index in asked(bench, repairs):
                whom.setdefault(index, []).append(peer)
        assert [{"b", "c"}] * count == [set(peers) for peers in whom.values()]
        bench.state.log.damaged.clear()
        repairs.ask(bench.state)


def test_who_does_not_have_it_is_followed_by_the_next_at_once(member) -> None:
    """And once nobody has, all are left in peace for a while."""
    bench, repairs = member(terms=[2, 2]), Repairs()
    bench.state.leader = "b"
    bench.state.log.damaged.add(2)
    for peer in "bc":
        assert [(peer, 2)] == asked(bench, repairs)
        repairs.take(bench.state, RepairResponse(2, None))
    assert [] == asked(bench, repairs)
    assert repairs.deadline(bench.state) > bench.state.now


def test_a_copy_that_nobody_asked_for_is_not_kept(member) -> None:
    """A peer that sends them without end fills no memory."""
    bench, repairs = member(terms=[2] * 40), Repairs()
    bench.state.log.damaged.update(range(2, 40))
    repairs.ask(bench.state)
    for index in range(20, 40):
        repairs.take(bench.state, RepairResponse(index, bench.journal.entry(index)))
    repairs.work(bench.state)
    assert [] == bench.state.log.jobs


def test_no_chain_value_proves_nothing(member) -> None:
    """Where no header tells, a copy that claims none is not what was there."""
    bench = member(terms=[2] * 4)
    forged = copy(bench.journal.entry(3))
    forged.chain = NO_CHAIN
    lose_headers(bench, 2, 3, 4)
    bench.state.log.damaged.update((2, 3, 4))
    assert bench.state.log.chain_at(3) == NO_CHAIN
    assert not is_proven(bench.state, forged, RunProof())


def test_copies_of_what_was_cleaned_meanwhile_do_not_keep_the_loop(member) -> None:
    """Some are looked at in a turn, and all go with the damage that they were for."""
    bench, repairs = member(terms=[2] * 1200), Repairs()
    log = bench.state.log
    log.damaged.update(range(2, 1200))
    for index in range(2, 1000):
        repairs._put(bench.journal.entry(index))
    log.damaged.keep(1100, 1200)
    repairs.work(bench.state)
    assert repairs.is_busy
    assert repairs.deadline(bench.state) == bench.state.now
    for _ in range(5):
        repairs.work(bench.state)
    assert repairs.deadline(bench.state) > bench.state.now or not repairs._copies
    log.damaged.update(range(2, 10))
    repairs._put(bench.journal.entry(3))
    log.damaged.clear()
    repairs.ask(bench.state)
    assert not repairs.is_busy


def test_a_repair_that_the_journal_refuses_stays_damage(member, caplog, monkeypatch) -> None:
    """It will be asked for again, and the operator is told once what to do if it stays so."""
    bench, repairs = member(terms=[2, 2]), Repairs()
    bench.state.log.damaged.add(2)

    def refuse(_journal, _entry):
        raise StoreError("not the entry that was here")

    monkeypatch.setattr(Journal, "stage_repair", refuse)
    for _ in range(3):
        assert not brought(bench, repairs, 2, bench.journal.entry(2))
    assert {2} == bench.state.log.damaged
    assert 1 == caplog.text.count("start it with an empty data directory")


def test_neighbours_that_are_damaged_prove_nothing(member) -> None:
    """Then the chain in the entry's own header has to agree."""
    bench = member(terms=[2, 2, 2])
    bench.state.log.damaged.update({2, 3, 4})

    assert is_proven(bench.state, bench.journal.entry(3), RunProof())


def test_our_copy_is_sent_on_request(member) -> None:
    """Or the word that there is none."""
    bench = member(terms=[2])

    answer(bench.state, "b", RepairRequest(2))
    answer(bench.state, "b", RepairRequest(99))

    assert [
        ("b", RepairResponse(2, bench.journal.entry(2))),
        ("b", RepairResponse(99, None)),
    ] == bench.sent()


def test_who_asks_for_what_is_reclaimed_is_told_to_start_later(leading, entry_after) -> None:
    """The leader keeps no copy, and nothing lives there any more."""
    bench = leading()
    for _ in range(4):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    bench.store()
    base = bench.journal.segments()[1].base_index
    bench.journal.drop_before(base)

    answer(bench.state, "b", RepairRequest(1))

    ((peer, message),) = bench.sent()
    assert ("b", base) == (peer, message.base_index)


@pytest.mark.promise("F35")
def test_a_witness_that_leads_lets_nobody_give_up_what_it_lacks(leading, entry_after) -> None:
    """It dropped what all data nodes held: the others have a good copy, and are asked."""
    bench = leading("a", "b", "w:witness", name="w")
    for _ in range(4):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    bench.store()
    bench.journal.drop_before(bench.journal.segments()[1].base_index)

    answer(bench.state, "b", RepairRequest(1))

    assert [("b", RepairResponse(1, None))] == bench.sent()


def test_a_neighbour_that_is_damaged_too_proves_nothing(member, monkeypatch) -> None:
    """It is met only now: it joins the damage, and the one before must do as proof."""
    bench = member(terms=[2, 2, 2])
    copy = bench.journal.entry(3)
    bench.state.log.damaged.add(3)
    read = bench.journal.entry

    def unreadable(index):
        if index == 4:
            raise CorruptEntryError("gone", index=4)
        return read(index)

    monkeypatch.setattr(bench.journal, "entry", unreadable)

    assert is_proven(bench.state, copy, RunProof())
    assert {3, 4} == bench.state.log.damaged


def test_a_copy_of_what_is_reclaimed_meanwhile_is_left_alone(leading, entry_after) -> None:
    """The answer came late: neither the entry nor its neighbours are in the log any more."""
    bench = leading()
    for _ in range(4):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    bench.store()
    copy, repairs = bench.journal.entry(1), Repairs()
    bench.state.log.damaged.add(1)
    repairs.ask(bench.state)
    repairs.take(bench.state, RepairResponse(1, copy))
    bench.journal.drop_before(bench.journal.segments()[1].base_index)
    repairs.work(bench.state)
    assert set() == bench.state.log.damaged
    assert [] == [job for job in bench.state.log.jobs if isinstance(job, RepairJob)]


def test_who_lost_the_entry_that_names_the_members_asks_whoever_is_linked(member) -> None:
    """Its neighbours prove the copy, whoever sends it; then its members rule."""
    bench, repairs = member(terms=[2]), Repairs()
    state = bench.state
    copy, members = bench.journal.entry(1), state.membership
    state.membership, state.members, state.config_index = None, {}, 0
    state.log.damaged.add(1)

    assert [1] == [index for _, index in asked(bench, repairs)]
    assert brought(bench, repairs, 1, copy)
    assert members == state.membership


def test_what_is_missing_behind_the_log_is_not_mended_in_place(member) -> None:
    """It was stored once, so it counts as damaged; its place comes with the leader's entries."""
    other, bench = member(terms=[2, 2]), member(terms=[2])
    bench.state.log.damaged.add(3)

    assert not brought(bench, Repairs(), 3, other.journal.entry(3))
    assert {3} == bench.state.log.damaged


def test_asking_for_the_first_of_very_many_looks_at_no_others(member) -> None:
    """A lost file may have held 100,000 entries; each turn asks what is the first of them."""
    bench, repairs = member(terms=[2] * 20), Repairs()
    damaged = Looked(range(2, 100_002))
    bench.state.log.damaged = damaged

    for _ in range(10):
        bench.state.now += 0.01
        asked(bench, repairs)
        assert 1 >= bench.state.log.acknowledgeable_index
        bench.state.log.forget_dropped()
    assert 0 < damaged.looked_at_count < 10 * 10 * REPAIRS_MAX


class Looked(IndexSet):
    """Counts the indexes that were given out."""

    looked_at_count = 0

    def __iter__(self):
        for index in super().__iter__():
            self.looked_at_count += 1
            yield index


def test_nothing_is_due_where_nobody_can_be_asked(member) -> None:
    """Nor for what was asked for and is mended: whoever waits for that turns for ever."""
    bench, repairs = member(terms=[2, 2, 2]), Repairs()
    state = bench.state
    state.log.damaged.update((2, 3))
    assert 2 == len(asked(bench, repairs))
    state.log.damaged.discard(2)
    state.now = repairs.deadline(state)
    asked(bench, repairs)
    assert repairs.deadline(state) > state.now

    state.connected.clear()
    state.now = repairs.deadline(state)
    assert [] == asked(bench, repairs)
    assert repairs.deadline(state) > state.now


def test_nothing_is_due_for_a_run_whose_end_nobody_looks_for(member, monkeypatch) -> None:
    """Without a peer, or while the disk hangs: whoever is due at once then turns for ever."""
    monkeypatch.setattr(run_proof, "_SOUGHT_MAX", 2)
    bench, repairs = member(terms=[2] * 20), Repairs()
    state = bench.state
    lose_headers(bench, *range(3, 18))
    state = bench.state
    state.log.damaged.update(range(3, 18))
    repairs.ask(state)
    assert repairs.deadline(state) == state.now
    linked = dict(state.connected)
    state.connected.clear()
    repairs.ask(state)
    assert repairs.deadline(state) > state.now
    state.connected.update(linked)
    repairs.ask(state)
    assert repairs.deadline(state) == state.now
    state.is_disk_hanging = True
    assert repairs.deadline(state) > state.now
