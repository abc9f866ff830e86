"""
Whose the buckets of groups are: by rendezvous, and changed only when nothing of one is out.
"""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode, Claim, Consumer
from holdfast.broker.serving.effective import Sharing
from holdfast.broker.serving.router.owners import Owners


class Somewhere:
    """Room without end."""

    room_bytes = 1 << 30


def consumer(name: str, *, priority: int = 0) -> Consumer:
    made = Consumer(
        Somewhere(),  # type: ignore[arg-type]
        "1",
        mode=AcknowledgeMode.INDIVIDUAL,
        prefetch=1,
        client=name,
    )
    made.claim = Claim(priority)
    return made


@pytest.fixture
def three() -> list[Consumer]:
    return [consumer(name) for name in ("a", "b", "c")]


def filled(consumers: list[Consumer], buckets: int = 4096, **sharing: bool) -> Owners:
    owners = Owners(Sharing(**sharing))  # type: ignore[arg-type]
    for bucket in range(buckets):
        owners.choose(bucket, consumers, len(consumers))
    return owners


def test_each_has_about_as_many(three) -> None:
    """No more than a quarter above the mean, however few or many there are."""
    for buckets in (3, 30, 4096):
        owners = filled(three, buckets)
        counts = Counter(owners.taker(bucket) for bucket in range(buckets))
        assert set(counts) == set(three)
        assert max(counts.values()) <= 1.25 * (buckets + 1) / 3 + 1


def test_the_same_names_have_the_same_buckets_again(three) -> None:
    """
    Q7: under another leader, whoever comes first there and in whatever order messages come.
    """
    before = filled(three)
    again = [consumer(name) for name in ("c", "a", "b")]
    after = Owners(Sharing())
    for bucket in range(4095, -1, -1):
        after.choose(bucket, again, 3)
    same = 0
    for bucket in range(4096):
        was, now = before.taker(bucket), after.taker(bucket)
        assert was is not None and now is not None
        same += was.client == now.client
    assert same >= 0.95 * 4096


def test_only_those_with_room_are_asked_and_somebody_always_gets_it(three) -> None:
    """Who is far above the mean is taken where nobody else has room."""
    owners = Owners(Sharing())
    for bucket in range(10):
        assert owners.choose(bucket, three[:1], 3) is three[0]
    assert owners.choose(10, three, 3) is not three[0]


def test_who_comes_gets_what_prefers_it_and_nothing_else_moves(three) -> None:
    """About its share; what stays stays with whom it was."""
    owners = filled(three)
    before = [owners.taker(bucket) for bucket in range(4096)]
    new = consumer("d")
    changed = set(owners.came(new, 4, range(4096)))
    assert 4096 / 5 < len(changed) < 4096 / 3
    for bucket in range(4096):
        assert owners.taker(bucket) is (new if bucket in changed else before[bucket])


def test_who_comes_gets_nothing_where_a_policy_says_so(three) -> None:
    """As ActiveMQ has it; nor before somebody of a higher priority."""
    assert not filled(three, rebalances_groups=False).came(consumer("d"), 4, range(4096))
    assert not filled(three).came(consumer("d", priority=-1), 4, range(4096))


def test_a_bucket_moves_when_nothing_of_it_is_out(three) -> None:
    """Until then nothing of it goes to anybody."""
    owners = filled(three)
    new = consumer("d")
    bucket = filled(three).came(consumer("d"), 4, range(4096))[0]
    owner = owners.taker(bucket)
    owners.went_out(7, bucket)
    owners.went_out(8, bucket)
    assert bucket in owners.came(new, 4, range(4096))
    assert owners.taker(bucket) is None
    assert not owners.is_free(bucket)
    assert owners.came_in(7) is None
    assert owners.taker(bucket) is None
    assert owners.came_in(8) == bucket
    assert owners.taker(bucket) is new is not owner


def test_a_move_ends_with_who_was_to_have_it(three) -> None:
    """Whose it is has it on; and what its owner leaves behind is nobody's."""
    owners = filled(three)
    new = consumer("d")
    moving = filled(three).came(consumer("d"), 4, range(4096))
    for bucket in moving:
        owners.went_out(bucket + 1, bucket)
    before = {bucket: owners.taker(bucket) for bucket in moving}
    owners.came(new, 4, range(4096))
    assert set(owners.left(new)) == set(moving)
    assert {bucket: owners.taker(bucket) for bucket in moving} == before
    owners.came(consumer("d"), 4, range(4096))
    gone = before[moving[0]]
    assert gone is not None
    assert moving[0] in owners.left(gone)
    assert owners.taker(moving[0]) is None
    assert not owners.is_free(moving[0])
    assert owners.came_in(moving[0] + 1) == moving[0]
    assert owners.is_free(moving[0])


def test_what_is_behind_a_delayed_one_waits_for_it(three) -> None:
    """And for the last of several; where a policy lets it pass nothing waits."""
    owners = filled(three)
    owner = owners.taker(5)
    assert (owners.delay(7, 5), owners.delay(8, 5), owners.delay(8, 5)) == (True, False, False)
    assert owners.taker(5) is None
    assert not owners.is_free(5)
    assert owners.end_delay(7) is None
    assert owners.taker(5) is None
    assert (owners.end_delay(9), owners.end_delay(8)) == (None, 5)
    assert owners.taker(5) is owner
    passing = filled(three, redelivery_keeps_order=False)
    assert not passing.delay(7, 5)
    assert passing.taker(5) is owner


def test_the_only_one_has_all_but_what_transactions_of_others_hold(three) -> None:
    """And keeps what it was given of it, when all get messages again."""
    owners = filled(three[:2])
    owners.went_out(1, 10)
    owners.begin_alone(three[2])
    assert (owners.taker(10), owners.taker(11)) == (None, three[2])
    assert not owners.came(consumer("d"), 4, range(4096))
    owners.went_out(2, 11)
    assert owners.came_in(1) == 10
    assert owners.taker(10) is three[2]
    owners.end_alone()
    assert owners.taker(11) is three[2]
    assert owners.is_free(10)


def test_a_million_groups_cost_as_much_as_there_are_buckets(three) -> None:
    """Whatever they are called: what is out is known, and nothing else."""
    owners = Owners(Sharing(bucket_count=16))
    for group in range(10_000):
        if owners.is_free(group % 16):
            owners.choose(group % 16, three, 3)
        owners.went_out(group + 1, group % 16)
        owners.came_in(group + 1)
    assert len(owners) == 16
    assert not any(len(each) for each in owners.empty())


def test_consumers_without_names_share_groups_too() -> None:
    """Many have no client-id and the same subscription: they are told apart, and forgotten."""
    same = [consumer("") for _ in range(3)]
    owners = filled(same)
    counts = Counter(owners.taker(bucket) for bucket in range(4096))
    assert min(counts.values()) > 4096 / 4
    new = consumer("")
    assert 4096 / 5 < len(owners.came(new, 4, range(4096))) < 4096 / 3
    for each in (*same, new):
        owners.left(each)
    assert not len(owners)


def test_a_bucket_that_is_lent_is_to_be_had_once_nothing_is_out(three) -> None:
    """Who borrows it has it for what he is given next; then whoever is chosen, as ever."""
    owners = filled(three, 30)
    owner = owners.taker(7)
    assert owner is not None
    borrower = next(each for each in three if each is not owner)
    owners.lend(7, borrower)
    assert owners.taker(7) is borrower
    owners.went_out(70, 7)
    assert owners.came_in(70) == 7
    assert owners.is_free(7)
    assert owners.taker(7) is None
    assert owners.choose(7, [owner], 3) is owner
    owners.went_out(71, 7)
    assert owners.came_in(71) is None, "it is his for good again"


def test_who_borrows_what_is_his_own_keeps_it(three) -> None:
    """Nothing changes by it."""
    owners = filled(three, 30)
    owner = owners.taker(7)
    assert owner is not None
    owners.lend(7, owner)
    owners.went_out(70, 7)
    assert owners.came_in(70) is None
    assert owners.taker(7) is owner


def test_nothing_is_lent_of_which_something_is_out_or_comes_later(three) -> None:
    """Whoever waits for it is told once."""
    owners = filled(three, 30)
    for key in (70, 71):
        owners.went_out(key, 7)
    assert not owners.is_at_hand(7)
    owners.await_all(7)
    assert owners.came_in(70) is None
    assert owners.came_in(71) == 7
    assert owners.is_at_hand(7)
    owners.delay(72, 7)
    assert not owners.is_at_hand(7)
    owners.went_out(73, 7)
    assert owners.came_in(73) is None, "nobody waits any more"


def test_a_borrower_that_leaves_takes_nothing_along(three) -> None:
    """What he had comes back, and the bucket is to be had."""
    owners = filled(three, 30)
    owner = owners.taker(7)
    borrower = next(each for each in three if each is not owner)
    owners.lend(7, borrower)
    owners.went_out(70, 7)
    assert 7 in owners.left(borrower)
    assert not owners.is_free(7)
    assert owners.came_in(70) == 7
    assert owners.is_free(7)


def test_a_newcomer_gets_what_is_lent_in_its_turn(three) -> None:
    """He is to have it: so he does when nothing is out, for good."""
    owners = filled(three, 30)
    newcomer = consumer("d")
    lent = owners.came(newcomer, 4, range(30))[0]
    again = filled(three, 30)
    borrower = next(each for each in three if each is not again.taker(lent))
    again.lend(lent, borrower)
    again.went_out(70, lent)
    assert lent in again.came(newcomer, 4, [lent])
    assert again.taker(lent) is None
    assert again.came_in(70) == lent
    assert again.taker(lent) is newcomer
    again.went_out(71, lent)
    assert again.came_in(71) is None
    assert again.taker(lent) is newcomer


def test_what_is_forgotten_lends_nothing(three) -> None:
    """All single messages are gone: so what was lent for one is to be had."""
    owners = filled(three, 30)
    owner = owners.taker(7)
    owners.lend(7, next(each for each in three if each is not owner))
    owners.went_out(70, 7)
    owners.empty()
    assert owners.is_free(7)
