"""What is so of a user, as the log has it."""

from __future__ import annotations

import json

import pytest

from holdfast.security.user_values import Token, UserValues, mark_of, marks_of, read_values


def test_roles_password_and_tokens_are_read() -> None:
    """And what this version does not know is passed over."""
    text = json.dumps(
        {
            "roles": ["a", "b"],
            "password": "$argon2id$x",
            "tokens": [{"name": "ci", "sha256": "00", "expires_ms": 7}, {"sha256": "01"}],
            "scram": {"later": True},
        }
    )
    found = read_values(text)
    assert found.roles == {"a", "b"}
    assert found.password == "$argon2id$x"
    assert found.tokens == (Token("ci", "00", 7), Token("", "01", 0))
    assert "argon2id" not in repr(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "{",
        "[" * 100_000,
        "{}",
        '{"roles":"a","password":7,"tokens":{}}',
        '{"roles":[1,null,["a"]],"password":null,"tokens":["x",{"sha256":7},{"expires_ms":"7"}]}',
    ],
)
def test_what_cannot_be_read_gives_nobody_anything(text: str) -> None:
    """It is written by a later version, or by hand."""
    assert read_values(text) == (frozenset(), "", (), 0, None, (0, 0))


@pytest.mark.parametrize(
    ("said", "place"),
    [("[3,5]", (3, 5)), ("[3]", (0, 0)), ('["3",5]', (0, 0)), ("[true,5]", (0, 0)), ("3", (0, 0))],
)
def test_from_where_on_what_is_scheduled_is_his_is_two_numbers(said, place) -> None:
    """
    What makes no sense is none: all of his name is his then, as of a user of before.
    """
    assert read_values(f'{{"schedule":{said}}}').schedules_from == place


def test_a_mark_of_what_somebody_was_found_by_is_good_until_that_is_replaced() -> None:
    """
    A password, a token, or his name in this life of it, which his certificate has.
    """
    tokens = (Token("t", "digest", 0),)
    before = UserValues(frozenset(), "kept", tokens, life=7)
    found = {kept: mark_of(kept, before) for kept in ("kept", "digest", "")}
    assert set(marks_of(before)) == set(found.values())
    assert "kept" not in "".join(found.values())
    replaced = before._replace(password="another")
    assert found["kept"] not in marks_of(replaced)
    assert {found["digest"], found[""]} <= set(marks_of(replaced))
    assert found["digest"] not in marks_of(before._replace(tokens=()))
    assert not set(found.values()) & set(marks_of(before._replace(life=9)))
