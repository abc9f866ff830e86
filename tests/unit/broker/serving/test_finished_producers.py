"""
Producers that are done with: who is forgotten, who is not, and in what steps.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.serving.finished_producers import NAMES_MAX
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import ProducerFinishedError, RefusedError
from holdfast.model.limits import FLOOR_ID
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
    for number in range(NAMES_MAX):
        desk.broker.finished.forget(f"{NAME}{number}", 1)
    with pytest.raises(RefusedError, match="may wait"):
        desk.broker.finished.forget("one-too-many", 1)
    assert len(desk.broker.errands.under_way) == 1
    assert known(desk) == set()
    know(desk, f"{NAME}-2-0")
    desk.broker.finished.forget(NAME, 3)
    assert known(desk) == set()


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
