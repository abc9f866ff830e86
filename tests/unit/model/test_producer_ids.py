"""
By what producers are known: rooms that nobody can spell himself into.
"""

from __future__ import annotations

import pytest

from holdfast.model.owners import NOBODY, Owner
from holdfast.model.producer_ids import RESERVED, ROOM_ID, room_length, room_of, said_id

OWNERS = [
    *(NOBODY, Owner("anna"), Owner("anna", 7), Owner("anna", 77), Owner("7"), Owner("a:b", 1)),
    *(Owner("a%3Ab", 1), Owner(":", 0), Owner("payments-1-x"), Owner("holdfast-finished")),
]


def test_rooms_of_two_users_never_meet() -> None:
    """
    No room begins as another one does, so no id in one can be spelled as one in the other.
    """
    rooms = [room_of(owner) for owner in OWNERS]
    for room in rooms:
        assert room.startswith(RESERVED)
        assert [other for other in rooms if other.startswith(room)] == [room]


@pytest.mark.parametrize("said", ["shop-1", "a:b", ":", f"{ROOM_ID}anna:7:x", "a-7-b:c"])
@pytest.mark.parametrize("owner", OWNERS)
def test_what_the_client_says_stands_behind_its_room(owner, said) -> None:
    """
    Whatever colons there are in it, or in the name.
    """
    known = room_of(owner) + said
    assert known[: room_length(known)] == room_of(owner)
    assert said_id(known) == said


def test_without_a_room_it_is_what_the_client_says() -> None:
    """
    As all were before there were users.
    """
    assert room_length("anna:7:x") == 0
    assert said_id("anna:7:x") == "anna:7:x"
