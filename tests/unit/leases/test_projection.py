"""The optional face of a medium that shows something to people."""

from __future__ import annotations

from holdfast.leases.projection import Changes, Projection, QueueRow
from trials.leased.model_log import ModelLog
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import DirectPassage
from trials.leased.showing_log import ShowingLog


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


def test_a_medium_has_the_face_or_not() -> None:
    """By what it can do: no other medium has to know of it."""
    assert isinstance(ShowingLog(ModelMedium(), DirectPassage()), Projection)
    assert not isinstance(ModelLog(ModelMedium(), DirectPassage()), Projection)


def test_bodies_of_changes_are_values() -> None:
    """Equal where all that they tell is equal, so that what is shown already need not be told."""
    assert row(1, 2) == row(1, 2)
    assert Changes(queues=(row(1),)) != Changes(queues=(row(1, 1),))
