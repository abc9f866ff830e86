"""
How owners are written, and how client-ids of users look.
"""

from __future__ import annotations

import pytest

from holdfast.model.owners import (
    NOBODY,
    OWNER,
    Owner,
    mark_of,
    owner_bytes,
    owner_mark,
    sent_id,
)


def test_no_two_users_have_the_same_client_ids() -> None:
    """
    However names and client-ids are spelled: a mark has one colon, and it is its end.
    """
    names = ["a", "a:b", "a%3Ab", "%", ":", "a%"]
    marks = [owner_mark(it) for it in names]
    assert len(set(marks)) == len(names)
    assert all(it.index(":") == len(it) - 1 for it in marks)
    assert owner_mark("") == ""


@pytest.mark.parametrize(
    ("client_id", "mark"),
    [("ann:c", "ann:"), ("a:b:c", "a:"), ("ann", ""), (":c", ""), ("", ""), ("ann:", "ann:")],
)
def test_what_may_be_a_users_begins_with_a_mark(client_id, mark) -> None:
    """
    An empty name is nobody's.
    """
    assert mark_of(client_id) == mark


def test_whose_it_is_is_known_by_his_name_and_the_client_id() -> None:
    """
    Also of what was made before he was its owner; of what he made himself once.
    """
    assert sent_id(Owner("ann", 7), "c") == sent_id(Owner("ann"), "ann:c") == "ann:c"
    assert sent_id(NOBODY, "c") == "c"
    assert sent_id(Owner("ann"), "eve:c") == "ann:eve:c"


def test_an_owner_is_written_with_its_life_and_nobody_with_nothing() -> None:
    """Records and checkpoints have the same bytes."""
    assert owner_bytes(NOBODY) == b""
    written = owner_bytes(Owner("ännchen", 7))
    life, length = OWNER.unpack_from(written)
    assert (life, written[OWNER.size :]) == (7, "ännchen".encode())
    assert length == len("ännchen".encode())
