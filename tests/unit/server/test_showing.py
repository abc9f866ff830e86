"""What a node has its store show, by what kind of store it has and what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.config.sections import Sections
from holdfast.leases.settings import LeaseSettings
from holdfast.server.leased_group import LeasedGroup
from holdfast.server.projecting import Projecting
from holdfast.server.showing import Showing
from holdfast.server.showing_messages import ShowingMessages
from trials.leased.group_desk import GroupDesk
from trials.leased.model_medium import ModelMedium


class Walk:
    """One that notes how it is asked, and has always something to be written."""

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.is_under_way = False

    def step(self, _now: float, _is_spent: Callable[[], bool], *, is_serving: bool) -> bool:
        self.asked.append(is_serving)
        return is_serving


def showing(driver: object, how: Any = "off") -> tuple[Showing, SimpleNamespace]:
    """Of a node with this driver; and its conductor."""
    scheduled: list[None] = []
    conductor = SimpleNamespace(
        is_within_entry=False,
        role=SimpleNamespace(is_serving=True),
        store=SimpleNamespace(is_handing_over=False),
        budget=SimpleNamespace(begin=lambda: None, is_spent=lambda: False),
        scheduled=scheduled,
        schedule=lambda: scheduled.append(None),
    )
    config: Any = SimpleNamespace(sections=Sections(lease=LeaseSettings(sql_messages=how)))
    parts: Any = SimpleNamespace(conductor=conductor, broker=None, store=None, driver=driver)
    return Showing(config, parts), conductor


@pytest.fixture
def group() -> LeasedGroup:
    return GroupDesk(ModelMedium(), "a").group


@pytest.mark.parametrize("how", ["headers", "full"])
def test_messages_are_shown_where_that_is_asked_for(group: LeasedGroup, how: str) -> None:
    """With their bodies or without; queues always."""
    (queues,) = showing(group)[0].walks
    assert type(queues) is Projecting
    one, other = showing(group, how)[0].walks
    assert (type(one), type(other)) == (Projecting, ShowingMessages)
    assert isinstance(other, ShowingMessages)
    assert other._with_bodies == (how == "full")


def test_a_node_with_a_log_of_its_own_shows_nothing() -> None:
    """There is nowhere to show it."""
    made, conductor = showing(object(), "full")
    made.step(1.0)
    assert (made.walks, made.is_under_way, conductor.scheduled) == ([], False, [])


def test_each_has_its_slice_while_this_broker_serves(group: LeasedGroup) -> None:
    """Not within an entry; who gives the lease back serves no more."""
    made, conductor = showing(group)
    one, other = Walk(), Walk()
    made.walks = [one, other]  # type: ignore[list-item]
    made.step(1.0)
    conductor.is_within_entry = True
    made.step(2.0)
    conductor.is_within_entry = False
    conductor.store.is_handing_over = True
    made.step(3.0)
    assert one.asked == other.asked == [True, False]
    assert len(conductor.scheduled) == 2
    assert not made.is_under_way
    other.is_under_way = True
    assert made.is_under_way
