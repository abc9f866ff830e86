"""
Floors: who is done with sends nothing more, whatever is known of it and whoever leads.
"""

from __future__ import annotations

import pytest

from holdfast.broker.cleaning import homeless
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.serving.finished_producers import NAME_BYTES_MAX
from holdfast.broker.serving.producer_floors import ProducerFloors, number_behind
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import ProducerFinishedError, RefusedError
from holdfast.model.limits import FLOOR_ID
from holdfast.model.owners import NOBODY, Owner
from holdfast.model.producer_ids import room_of
from holdfast.model.records import ForgetProducerRecord, ProducerRecord

NAME = "spark-query"


@pytest.fixture
def desk(new_desk):
    return new_desk(BrokerSettings())


def send(desk, producer_id: str, sequence: int) -> None:
    desk.broker.send(desk.queue(), b"", b"x", desk.client, None, producer_id, sequence)


def is_refused(desk, producer_id: str, sequence: int) -> bool:
    try:
        send(desk, producer_id, sequence)
    except ProducerFinishedError:
        return True
    return False


def finish(desk, before: int, name: str = NAME) -> None:
    desk.broker.finished.forget(name, before)
    desk.broker.errands.finish()
    desk.turn()


def floors(desk) -> ProducerFloors:
    return desk.broker.destinations.leadership.numbers.floors


def count(desk) -> int:
    return desk.state.live_count()


def test_who_was_forgotten_does_not_begin_anew(desk) -> None:
    """
    The late task of an old batch, from its first row on: nothing of it is stored once more.
    """
    for batch in (6, 7):
        send(desk, f"{NAME}-{batch}-0", 1)
    desk.turn()
    finish(desk, 7)
    assert set(desk.state.producers.by_id) == {f"{NAME}-7-0", FLOOR_ID + NAME}
    assert is_refused(desk, f"{NAME}-6-0", 1)
    assert is_refused(desk, f"{NAME}-6-0", 2)
    assert is_refused(desk, f"{NAME}-0-more-of-it", 1)
    assert not is_refused(desk, f"{NAME}-7-0", 2)
    desk.turn()
    assert count(desk) == 3


def test_others_are_not_meant(desk) -> None:
    """
    By number, not by letters, and under this very name.
    """
    finish(desk, 7)
    others = (f"{NAME}-10-0", f"{NAME}2-1-0", f"{NAME}-x-0", f"{NAME}-3", f"x{NAME}-1-0", NAME)
    assert not [each for each in others if is_refused(desk, each, 1)]
    finish(desk, 4, f"{NAME}-10")
    assert is_refused(desk, f"{NAME}-10-3-0", 1)
    assert not is_refused(desk, f"{NAME}-10-4-0", 1)


def test_from_the_moment_on_when_the_leader_was_told(desk) -> None:
    """
    What stands behind the floor in the log would be stored: it is refused before that is applied.

    What was taken before is confirmed, and its repetition too; nothing new, also behind messages
    that are still on their way.
    """
    send(desk, f"{NAME}-0-0", 1)
    send(desk, f"{NAME}-0-1", 1)
    desk.turn()
    send(desk, f"{NAME}-0-0", 2)
    desk.broker.finished.forget(NAME, 1)
    assert is_refused(desk, f"{NAME}-0-0", 3)
    assert is_refused(desk, f"{NAME}-0-1", 2)
    assert is_refused(desk, f"{NAME}-0-2", 1)
    assert not is_refused(desk, f"{NAME}-0-0", 2)
    assert not is_refused(desk, f"{NAME}-0-1", 1)
    desk.turn()
    assert count(desk) == 3
    assert is_refused(desk, f"{NAME}-0-0", 3)


def test_a_transaction_of_one_who_is_done_with_is_refused_whole(desk) -> None:
    """
    Its number is a producer's like any other.
    """
    finish(desk, 1)
    transaction = desk.broker.begin("t")
    with pytest.raises(ProducerFinishedError):
        desk.broker.commit(transaction, desk.client, None, f"{NAME}-0-0", 1)
    assert not desk.broker.receipts.has_batch()


def test_every_leader_to_come_knows_the_floor(desk) -> None:
    """
    It is a record of the log, told once, and it stands before what is forgotten because of it.
    """
    send(desk, f"{NAME}-0-0", 1)
    for before in (1, 1, 0, 3, 2):
        finish(desk, before)
    bodies = b"".join(body for _, _, body in desk.log)
    floor, forgotten = bodies.index(FLOOR_ID.encode()), bodies.rindex(f"{NAME}-0-0".encode())
    assert floor < forgotten
    assert bodies.count(FLOOR_ID.encode()) == 2
    state = desk.replayed()
    assert digest_of(state) == digest_of(desk.state)
    assert state.producers.floor_names == {NAME}
    assert state.producers.last(FLOOR_ID + NAME) == 3
    desk.broker.follow()
    desk.broker.lead()
    assert is_refused(desk, f"{NAME}-2-0", 1)
    assert not is_refused(desk, f"{NAME}-3-0", 1)


def test_what_never_reached_the_log_ends_with_the_leadership(desk) -> None:
    """
    The application was not told that it is stored, and nothing was forgotten because of it.
    """
    finish(desk, 1)
    for name, before in ((NAME, 5), ("another-query", 5)):
        desk.broker.finished.forget(name, before)
    desk.broker.follow()
    desk.broker.lead()
    assert desk.state.producers.floor_names == {NAME}
    assert not floors(desk).raised
    assert is_refused(desk, f"{NAME}-0-0", 1)
    assert not is_refused(desk, f"{NAME}-1-0", 1)
    assert not is_refused(desk, "another-query-1-0", 1)


def test_a_floor_is_forgotten_as_a_producer_is(desk) -> None:
    """
    So there are no more of them than of producers; not while it is raised again.
    """
    finish(desk, 3)
    desk.broker.finished.forget(NAME, 4)
    desk.state.apply(10**6, [ForgetProducerRecord(FLOOR_ID + NAME)], 1)
    assert is_refused(desk, f"{NAME}-3-0", 1)
    desk.turn()
    assert is_refused(desk, f"{NAME}-3-0", 1)
    desk.broker.receipts.add_records([ForgetProducerRecord(FLOOR_ID + NAME)])
    desk.turn()
    assert not desk.state.producers.by_id
    assert not desk.state.producers.floor_names
    assert not floors(desk).raised
    assert not is_refused(desk, f"{NAME}-3-0", 1)


def test_the_cleaner_carries_a_floor_on_and_forgets_none_that_is_raised_just_now(desk) -> None:
    """
    As a producer's last number is, with the time when it was told.
    """
    finish(desk, 3)
    told_at = desk.log[-1][1]
    carried = [each for piece in homeless(desk.broker, 100, told_at + 1) for each in piece]
    (floor,) = [each for each in carried if isinstance(each, ProducerRecord)]
    assert (floor.producer_id, floor.sequence, floor.used_at) == (FLOOR_ID + NAME, 3, told_at)
    desk.broker.finished.forget(NAME, 4)
    idle = told_at + int(desk.settings.producer_idle_seconds * 1_000_000) + 1
    carried = [each for piece in homeless(desk.broker, 100, idle) for each in piece]
    assert not [each for each in carried if isinstance(each, ForgetProducerRecord)]
    desk.turn()
    assert floors(desk).of(NAME) == 4


def test_a_name_that_leaves_no_room_for_a_floor_is_refused(desk) -> None:
    """
    The floor's id is a producer's id, which has a limit.
    """
    finish(desk, 1, "x" * NAME_BYTES_MAX)
    with pytest.raises(RefusedError, match="bytes is needed"):
        desk.broker.finished.forget("x" * (NAME_BYTES_MAX + 1), 2)


@pytest.mark.parametrize(
    ("producer_id", "number"),
    [
        ("app-7-x", 7),
        ("app-7", -1),
        ("app-\u0667-x", -1),
        ("app-\u00b2-x", -1),
        ("app-1_0-x", -1),
        ("app-" + "9" * 5_000 + "-x", -1),
    ],
)
def test_the_number_behind_a_name_is_its_digits_alone(producer_id: str, number: int) -> None:
    """
    An id is whatever a client sends: nothing in it may be read in two ways.
    """
    assert number == number_behind(producer_id, 3)


def test_a_floor_stands_under_nobody_elses_producers(desk) -> None:
    """
    Not even where the name of a user, or what he calls his, looks like it.
    """
    finish(desk, 1000, "payments")
    for owner in (Owner("payments-1-x"), Owner("payments"), NOBODY):
        assert not is_refused(desk, f"{room_of(owner)}orders-1-x", 1)
    finish(desk, 1000, f"{room_of(Owner('ann'))}payments")
    assert not is_refused(desk, f"{room_of(Owner('ann', 1))}payments2-1-x", 1)
    assert is_refused(desk, f"{room_of(Owner('ann'))}payments-1-x", 1)
    with pytest.raises(ProducerFinishedError) as caught:
        send(desk, f"{room_of(Owner('ann'))}payments-1-x", 1)
    assert str(caught.value) == (
        "producer payments-1-x is done with: its application has said that of payments only"
        " numbers from 1000 on still come"
    )
