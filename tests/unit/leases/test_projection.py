"""The optional face of a medium that shows something to people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.leases.orders import Project
from holdfast.leases.projection import (
    Changes,
    MessageKey,
    MessageRow,
    Projection,
    QueueRow,
    Span,
)
from trials.leased.model_log import ModelLog
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import LOST, DirectPassage, Fate
from trials.leased.showing_log import ShowingLog

CHANGES = Changes(gone=(7,))


def row(number: int, depth: int = 0, as_of_index: int = 1) -> QueueRow:
    return QueueRow(
        number=number,
        name=f"q{number}",
        depth=depth,
        bytes=0,
        enqueued=0,
        dequeued=0,
        oldest_at=0,
        as_of_index=as_of_index,
    )


def message_row(number: int, sequence: int) -> MessageRow:
    return MessageRow(
        queue_number=number,
        sequence=sequence,
        idx=1,
        container=f"queue://q{number}",
        message_id="",
        stored_at=0,
        expires_at=0,
        priority=4,
        size=0,
        headers="{}",
        body=None,
        as_of_index=1,
    )


def test_a_medium_has_the_face_or_not() -> None:
    """By what it can do: no other medium has to know of it."""
    assert isinstance(ShowingLog(ModelMedium(), DirectPassage()), Projection)
    assert not isinstance(ModelLog(ModelMedium(), DirectPassage()), Projection)


def test_bodies_of_changes_are_values() -> None:
    """Equal where all that they tell is equal, so that what is shown already need not be told."""
    assert row(1, 2) == row(1, 2)
    assert Changes(queues=(row(1),)) != Changes(queues=(row(1, 1),))


@pytest.mark.parametrize(
    "changes",
    [
        Changes(messages=(message_row(1, 1),)),
        Changes(settled=(Span(1, 1, 2),)),
        Changes(ended=(4,)),
        Changes(subscriptions_stale_before=3),
        Changes(keys_after=MessageKey(-1, 0)),
    ],
)
def test_what_is_of_messages_needs_their_tables(changes: Changes) -> None:
    """All else is written without: who shows queues only never makes them."""
    assert changes.is_of_messages
    assert not Changes(queues=(row(1),), gone=(2,), stale_before=3).is_of_messages


def test_a_row_shows_no_contents_where_it_is_logged() -> None:
    """What people send stands in no log of ours."""
    assert "secret" not in repr(replace(message_row(1, 1), headers="secret", body=b"secret"))


def test_what_is_shown_need_not_last(broker: Callable[..., Any]) -> None:
    """
    So it is no sign of life to go by, and after an outage, in which the medium may have crashed,
    all is told anew.
    """
    holder = broker("a", log_type=ShowingLog).serve()
    renewed_at = holder.driver._state.renewed_at
    holder.driver.project(CHANGES)
    holder.turn()
    assert isinstance(holder.orders[0], Project)
    holder.perform()
    assert renewed_at == holder.driver._state.renewed_at
    assert [(1, CHANGES)] == holder.medium.shown
    lost = holder.driver.projections_lost
    holder.passage.fates.append(Fate(before=LOST))
    holder.store(b"one")

    assert lost < holder.driver.projections_lost


def test_what_messages_are_shown_is_asked_for(broker: Callable[..., Any]) -> None:
    """The answer stays until the next one, whatever else is written meanwhile."""
    holder = broker("a", log_type=ShowingLog).serve()
    rows = (message_row(1, 5), message_row(2, 3))
    for changes in (
        Changes(messages=rows),
        Changes(keys_after=MessageKey(1, 5)),
        Changes(settled=(Span(2, 1, 9),)),
    ):
        holder.driver.project(changes)
        holder.until(lambda: holder.driver.can_project)
    assert (MessageKey(2, 3),) == holder.driver.shown_keys
    holder.driver.project(Changes(keys_after=MessageKey(-1, 0)))
    holder.until(lambda: holder.driver.can_project)

    assert (MessageKey(1, 5),) == holder.driver.shown_keys
