"""
Who listens to what: found by name, forgotten with the last of them.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.backlogs import Backlogs
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.listeners import ADVISORIES_WAITING_MAX, Listeners
from holdfast.broker.serving.subscription import Subscription
from holdfast.errors import DestinationError
from holdfast.model.limits import WILDCARD_SHAPES_MAX
from holdfast.model.wildcards import parse_pattern


class Somebody:
    id = "1"
    room_bytes = 1


def listen(listeners, name, *, is_xml: bool = False, pending_max: int | None = None):
    topic = listeners.topic(parse_pattern(f"topic://{name}"), is_xml=is_xml)
    subscription = Subscription(Somebody(), "s", mode=AcknowledgeMode.AUTO, prefetch=1)
    subscription.pending_max = pending_max
    topic.add_subscription(subscription)
    return topic, subscription


def test_an_advisory_is_found_by_all_that_mean_it() -> None:
    """
    By its name and by wildcards, in each form; those who write the same have one topic together.
    """
    listeners = Listeners()
    exact, _ = listen(listeners, "A.b.c")
    assert listen(listeners, "A.b.c")[0] is exact
    in_xml, _ = listen(listeners, "A.b.c", is_xml=True)
    rest, _ = listen(listeners, "A.>")
    one, _ = listen(listeners, "A.*.c")
    assert set(listeners.of("A.b.c")) == {exact, in_xml, rest, one}
    assert set(listeners.of("A.b.d")) == {rest}
    assert listeners.of("B") == []
    assert rest.means("A.x")
    assert not one.means("A.x")


@pytest.mark.parametrize("name", ["A.b", "A.*", "A.>"])
def test_with_the_last_of_them_a_topic_is_gone(name) -> None:
    """
    Nothing is left of it, so that what nobody listens to costs nothing.
    """
    listeners, backlogs = Listeners(), Backlogs(0)
    topic, first = listen(listeners, name)
    other, alone = listen(listeners, name, is_xml=True)
    _, second = listen(listeners, name)
    topic.close_subscription(first, backlogs)
    assert topic in listeners.of("A.b")
    topic.close_subscription(second, backlogs)
    assert listeners.of("A.b") == [other]
    other.close_subscription(alone, backlogs)
    assert len(listeners) == 0
    assert topic.is_deleted


def test_a_topic_that_nobody_came_to_is_nowhere() -> None:
    """
    A SUBSCRIBE that is refused after it was found leaves nothing.
    """
    listeners = Listeners()
    listeners.topic(parse_pattern("topic://A.b"), is_xml=False)
    assert len(listeners) == 0


@pytest.mark.parametrize(
    ("wanted", "most"),
    [
        *((each, ADVISORIES_WAITING_MAX) for each in (None, -1, 10**9)),
        *((0, 0), (5, 5)),
    ],
)
def test_so_many_wait_for_a_listener_and_no_more(wanted, most) -> None:
    """
    It may wish for fewer: nobody can be let wait for it.
    """
    assert listen(Listeners(), "A.b", pending_max=wanted)[1].pending_max == most


def test_there_are_so_many_kinds_of_patterns() -> None:
    """
    What one advisory costs has a bound; those of known kinds, and names, are still taken.
    """
    listeners = Listeners()
    for number in range(WILDCARD_SHAPES_MAX):
        listen(listeners, "x." * number + "*")
    with pytest.raises(DestinationError, match="at most 256"):
        listen(listeners, "*.x")
    listen(listeners, "y.*")
    listen(listeners, "y")
    listeners.clear()
    assert len(listeners) == 0
