"""
Producers that are done with: who is forgotten, who is not, and in what steps.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import ProducerFinishedError, RefusedError
from holdfast.model.limits import FLOOR_ID
from holdfast.model.owners import Owner
from holdfast.model.producer_ids import room_of
from holdfast.model.records import ProducerRecord

NAME = "spark-query"


@pytest.fixture
def desk(new_desk):
    return new_desk(BrokerSettings())


def know(desk, *ids: str) -> None:
    desk.broker.receipts.add_records([ProducerRecord(each, 3) for each in ids])
    desk.turn()


def known(desk) -> set[str]:
    desk.broker.errands.finish()
    desk.turn()
    assert digest_of(desk.state) == digest_of(desk.replayed())
    return {each for each in desk.state.producers.by_id if not each.startswith(FLOOR_ID)}


def test_lower_numbers_of_the_name_are_forgotten(desk) -> None:
    """
    By number, not by letters; ids that only look alike are somebody else's.
    """
    stay = {f"{NAME}-10-0", f"{NAME}-11-0", f"{NAME}2-1-0", f"{NAME}-x-0", f"{NAME}-3", "other-1-0"}
    know(desk, f"{NAME}-9-0", f"{NAME}-2-1-more", f"{NAME}-0-", *stay)
    desk.broker.finished.forget(NAME, 10)
    assert known(desk) == stay


def test_one_with_a_number_on_its_way_stays(desk) -> None:
    """
    What is being stored belongs to somebody who is there.
    """
    know(desk, f"{NAME}-1-0", f"{NAME}-1-1")
    desk.broker.send(desk.queue(), b"", b"x", desk.client, None, f"{NAME}-1-1", 4)
    desk.broker.finished.forget(NAME, 2)
    assert known(desk) == {f"{NAME}-1-1"}
    with pytest.raises(ProducerFinishedError):
        desk.broker.send(desk.queue(), b"", b"x", desk.client, None, f"{NAME}-1-0", 4)


def test_it_is_done_in_steps_and_one_search_serves_all_who_ask_meanwhile(desk) -> None:
    """
    Neither a step nor the number of errands grows with what there is to do.
    """
    know(desk, *(f"{NAME}-1-{number}" for number in range(3_000)))
    desk.broker.finished.forget(NAME, 2)
    assert len(desk.broker.receipts.batch.records) <= 1_001
    for number in range(500):
        desk.broker.finished.forget(f"{NAME}{number}", 1)
    assert len(desk.broker.errands.under_way) == 1
    assert known(desk) == set()
    know(desk, f"{NAME}-2-0")
    desk.broker.finished.forget(NAME, 3)
    assert known(desk) == set()


def test_nobody_waits_behind_the_names_of_another(desk) -> None:
    """
    Sixty-four names of all users together waited, and whoever said one more had his COMMIT refused
    with all that was in it: a user with a queue of her own kept another's out for good.
    """
    anna, eve = (room_of(Owner(name)) for name in ("anna", "eve"))
    know(desk, *(f"{eve}hers-1-{number}" for number in range(2_000)), f"{anna}{NAME}-1-0")
    desk.broker.finished.forget(f"{eve}evesname", 1)
    for number in range(300):
        desk.broker.finished.forget(f"{eve}evesname-{number}", number + 1)
    desk.broker.finished.forget(f"{anna}{NAME}", 2)
    assert len(desk.broker.errands.under_way) == 1
    assert known(desk) == {f"{eve}hers-1-{number}" for number in range(2_000)}


def test_nobody_is_forgotten_by_a_floor_that_his_user_may_take_back(desk) -> None:
    """
    One from before there were users stands under his as well, until he has said one of his own:
    what was stored of them must be known by then, or it would be stored twice.
    """
    anna = room_of(Owner("anna"))
    know(desk, f"{NAME}-1-0", f"{anna}{NAME}-1-0")
    desk.broker.finished.forget(NAME, 2)
    assert known(desk) == {f"{anna}{NAME}-1-0"}
    desk.broker.finished.forget(f"{anna}{NAME}", 2)
    assert known(desk) == set()


def test_a_step_is_as_short_where_ids_have_many_dashes(desk) -> None:
    """
    Behind each a name may end: what is looked at is counted by them.
    """
    know(desk, *("-" * 200 + f"{number}" for number in range(40)))
    desk.broker.finished.forget(NAME, 2)
    (errands,) = desk.broker.errands.under_way.values()
    (errand,) = errands
    left = 1 + sum(1 for _ in errand)
    assert 7 <= left <= 9, "two hundred of a thousand each, the first five of them looked at"


def test_what_was_asked_ends_with_the_leadership(desk) -> None:
    """
    The next leader is asked again, and begins a search of its own.
    """
    know(desk, *(f"{NAME}-1-{number}" for number in range(3_000)))
    desk.broker.finished.forget(NAME, 2)
    desk.broker.follow()
    desk.broker.lead()
    assert len(known(desk)) == 3_000
    desk.broker.finished.forget(NAME, 2)
    assert known(desk) == set()


def test_a_name_that_could_be_anybodys_is_refused(desk) -> None:
    """
    An empty one would mean every producer.
    """
    with pytest.raises(RefusedError, match="bytes is needed"):
        desk.broker.finished.forget("spark", 2)
