"""
Who may have a durable subscription, by whose the log says it is.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic
from holdfast.broker.serving.access_book import AccessBook
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import ForbiddenError
from holdfast.model.access_records import UserRecord
from holdfast.model.owners import NOBODY, Owner
from holdfast.model.topic_records import part_name
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.sessions.ownership import named, owner_of, require_own

ANN, EVE = Principal("ann"), Principal("eve")


@pytest.fixture
def book() -> AccessBook:
    state = BrokerState(BrokerSettings())
    users = [UserRecord("ann", '{"life":7}', 9), UserRecord("eve", "{}", 9)]
    state.apply(1, users, 1)
    return AccessBook(state)


@pytest.mark.parametrize(
    ("owner", "client_id", "who"),
    [
        (Owner("ann", 7), "c", ANN),
        (Owner("eve"), "ann:c", EVE),
        (Owner("ben"), "c", Principal("ben", authority="jwt.c")),
        (NOBODY, "c", ANN),
        (NOBODY, "c", ANONYMOUS),
        (NOBODY, "ID:host-1", EVE),
        (NOBODY, "ID:host-1", ANONYMOUS),
        (NOBODY, "ann:c", ANN),
        (NOBODY, ":ann", EVE),
    ],
)
def test_what_is_ones_own_or_nobodys_may_be_had(book, owner, client_id, who) -> None:
    """
    A colon in a client-id says nothing, unless it follows the name of a user.
    """
    require_own(owner, client_id, "d", who, book)


@pytest.mark.parametrize(
    ("owner", "client_id", "who", "why"),
    [
        (Owner("ann", 7), "c", EVE, "belongs to another user, and user 'eve' may not"),
        (Owner("ann", 7), "eve:c", EVE, "belongs to another user"),
        (Owner("ann", 7), "c", ANONYMOUS, "and who is not logged in may not"),
        (Owner("ann", 6), "c", ANN, "left by an earlier user 'ann': an operator gives it"),
        (Owner("ann"), "c", ANN, "left by an earlier user 'ann'"),
        (Owner("ben", 3), "c", Principal("ben", authority="jwt.c"), "left by an earlier"),
        (
            NOBODY,
            "ann:c",
            EVE,
            "'d' of client-id 'ann:c' may be user 'ann'",
        ),
        (NOBODY, "ann:c", ANONYMOUS, "until an operator says whose it is"),
        (NOBODY, "%61nn:c", EVE, "may be user 'ann'"),
    ],
)
def test_what_is_anothers_or_may_be_is_refused(book, owner, client_id, who, why) -> None:
    """
    Also of who had the name before: that was somebody else.
    """
    with pytest.raises(ForbiddenError, match=why):
        require_own(owner, client_id, "d", who, book)


def test_a_part_is_whose_the_whole_is() -> None:
    """
    It is told of messages of parts as of others, and nobody gives a part to anybody.
    """
    topic = LastingTopic(1, "t")
    whole, part = LastingSubscription(5, topic), LastingSubscription(6, topic)
    part.name, whole.owner = part_name(5, 1), Owner("ann", 7)
    assert owner_of(part, {5: whole, 6: part}) == owner_of(whole, {5: whole}) == ("ann", 7)
    assert owner_of(part, {6: part}) == NOBODY
    assert (named(ANN), named(ANONYMOUS)) == ("user 'ann'", "who is not logged in")
