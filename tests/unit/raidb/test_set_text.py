"""How a set stands in a lease row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import MirrorError
from holdfast.mirrors.mirror_set import Acceptance, MirrorSet, Number
from holdfast.raidb.member import KnownSet
from holdfast.raidb.set_text import decode, encode

WHOLE = KnownSet(
    MirrorSet(
        "5" * 32,
        (("a", "active"), ("b", "failed"), ("c", "disabled")),
        Number(7, 3),
        before=(frozenset({"a", "b"}), frozenset({"a", "c"})),
        promised=9,
        accepted=(Acceptance("x", Number(2, 1)),),
        begun_by="b" * 32,
    ),
    (("a", "postgresql://hf@db1:5432/log"), ("b", "sqlite:////b.db")),
)


def test_what_is_written_is_read_again() -> None:
    """Everything that a set says comes back as it was."""
    assert decode(encode(WHOLE), "here") == WHOLE


def test_who_began_it_may_not_be_told() -> None:
    """An older version wrote it."""
    told = replace(WHOLE, known=replace(WHOLE.known, begun_by=""))
    assert "begun_by" not in encode(told)
    assert decode(encode(told), "here") == told


def test_an_empty_text_is_no_set() -> None:
    """A database that is the only one, or new."""
    assert decode("", "here") is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", "7", encode(WHOLE).replace('"set"', '"sat"')])
def test_a_text_that_was_changed_by_hand_is_refused(text: str) -> None:
    """The sentence names the place."""
    with pytest.raises(MirrorError, match=r"members of holdfast_lease in sqlite:///x\.db"):
        decode(text, "sqlite:///x.db")
