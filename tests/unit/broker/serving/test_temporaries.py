"""
Temporary destinations: made by their owner, gone with it, never more than there may be.
"""

from __future__ import annotations

import pytest

from holdfast.broker.flow_control import require_room
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.temporaries import Temporaries
from holdfast.errors import DestinationError
from tests.unit.broker.served import served


def served_temporary(name: str) -> Queue:
    return served(0, name)


def test_only_the_owner_makes_them_and_they_go_with_it() -> None:
    """
    Somebody who knows the name may use it as long as its connection is there.
    """
    temporaries = Temporaries(9, served_temporary)
    owner, other = object(), object()
    queue = temporaries.queue("q", owner)
    topic = temporaries.topic("t", owner)
    kept = temporaries.queue("kept", other)
    assert (temporaries.queue("q"), temporaries.topic("t")) == (queue, topic)
    assert temporaries.count_of(owner) == 2
    assert list(temporaries.drop(owner)) == [None, queue]
    assert temporaries.count_of(owner) == 0
    assert (queue.is_deleted, topic.is_deleted, kept.is_deleted) == (True, True, False)
    for find, name in ((temporaries.queue, "q"), (temporaries.topic, "t")):
        with pytest.raises(DestinationError, match="does not exist any more"):
            find(name)


def test_one_too_many_is_refused() -> None:
    """
    Those that exist are found at the limit too.
    """
    temporaries = Temporaries(1, served_temporary)
    owner = object()
    temporaries.queue("q", owner)
    assert temporaries.queue("q", owner).name == "q"
    with pytest.raises(DestinationError, match="at most 1"):
        temporaries.queue("r", owner)
    require_room(0, 1, "things")
    with pytest.raises(DestinationError, match="there are 1 things already; at most 1"):
        require_room(1, 1, "things")
