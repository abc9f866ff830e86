"""Who asks the admin port just now."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.admin.person import (
    CLUSTER,
    MACHINE,
    NOBODY,
    Person,
    act_for,
    acting,
    on_behalf,
    read_on_behalf,
)
from holdfast.errors import AccessError
from holdfast.security.names import require_name
from holdfast.security.roles import Duty


def test_two_requests_at_once_are_each_for_its_own_person() -> None:
    """What one changes is never noted with the other's name."""

    async def work(who: str) -> str:
        act_for(Person(who, "", Duty.GOVERN))
        await asyncio.sleep(0)
        return acting().who

    async def scenario() -> list[str]:
        return list(await asyncio.gather(work("ann"), work("ben")))

    assert asyncio.run(scenario()) == ["ann", "ben"]
    assert acting() is NOBODY


def test_no_user_is_taken_for_the_machine_or_the_secret() -> None:
    """Their names cannot be those of users."""
    for name in (MACHINE, CLUSTER):
        assert not Person(name, "", Duty.GOVERN).is_user
        with pytest.raises(AccessError):
            require_name(name, "user")
    assert Person("ann", "", Duty.NONE).is_user
    assert not NOBODY.is_user


@pytest.mark.parametrize("who", ["ann", "Jürgen", "\U0001f600", MACHINE])
def test_for_whom_a_request_is_passed_on_is_read_as_it_was_written(who: str) -> None:
    """In a header's letters, whatever the name has."""
    for mark in ("", "0a" * 32):
        written = on_behalf(Person(who, "::1", Duty.VIEW, mark=mark))
        assert written.isascii()
        assert read_on_behalf(written) == Person(who, "::1", Duty.NONE, mark=mark)


def test_what_somebody_may_is_told_where_the_log_does_not_know_him() -> None:
    """The leader cannot find it out: he has shown a password to another node."""
    eve = Person("eve", "::1", Duty.OPERATE, is_vouched=True)
    assert read_on_behalf(on_behalf(eve)) == eve


@pytest.mark.parametrize(
    "header",
    [
        "",
        "ann",
        '["ann"]',
        '[1, "::1"]',
        '["a", "b", 9]',
        '["a", "b", ["3"]]',
        '["a", "b", null]',
        '["a", "b", 1, 2]',
        "[" * 5000,
        '["a"' + " " * 2000,
    ],
)
def test_what_makes_no_sense_names_nobody(header: str) -> None:
    """It is refused, not guessed."""
    assert read_on_behalf(header) is None
    assert on_behalf(NOBODY) == ""
