"""Users and grants as the log says them: the last word on each counts, as a whole."""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.access import GrantKey, LastingAccess, UserKey
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord


@pytest.fixture
def access() -> LastingAccess:
    return LastingAccess()


def test_the_last_word_counts_and_nothing_is_the_end_of_it(access: LastingAccess) -> None:
    """Of what was not there either, it is no change."""
    access.apply(UserRecord("ann", '{"roles":["a"]}', 1), 1)
    access.apply(UserRecord("ann", '{"roles":["b"]}', 2), 2)
    access.apply(GrantRecord("a", "queue://b", 3), 3)
    access.apply(GrantRecord("a", "queue://b", 1), 4)
    assert access.users["ann"].values == '{"roles":["b"]}'
    assert access.grants[GrantKey("a", "queue://b")].rights == 1
    assert access.homes == {UserKey("ann"): 2, GrantKey("a", "queue://b"): 4}
    access.apply(UserRecord("ann", "", 3), 5)
    access.apply(GrantRecord("a", "queue://b", 0), 6)
    access.apply(GrantRecord("a", "queue://c", 0), 7)
    assert (access.users, access.grants, access.homes) == ({}, {}, {})


def test_what_is_carried_on_is_the_record_of_before(access: LastingAccess) -> None:
    """The cleaner's work makes nobody log in again, and judges nobody anew."""
    access.apply(UserRecord("ann", "{}", 1), 1)
    access.apply(GrantRecord("a", "b", 1), 2)
    before, changes = access.users["ann"], access.change_count
    access.apply(UserRecord("ann", "{}", 1), 8)
    access.apply(GrantRecord("a", "b", 1), 9)
    assert access.users["ann"] is before
    assert access.change_count == changes
    assert sorted(access.homes.values()) == [8, 9]
    access.apply(UserRecord("ann", "{}", 2), 10)
    assert access.users["ann"] is not before


def test_who_listens_is_told_of_each_grant_that_changes(access: LastingAccess) -> None:
    """And of nothing that is as it was: all the rest need not be looked at again."""
    told: list[tuple[GrantKey, int]] = []
    access.listeners.append(lambda key, it: told.append((key, it.rights if it else 0)))
    key = GrantKey("a", "queue://b")
    for number, rights in enumerate([3, 3, 1, 0, 0], 1):
        access.apply(GrantRecord(*key, rights), number)
    access.apply(UserRecord("ann", "{}", 1), 6)
    assert told == [(key, 3), (key, 1), (key, 0)]


def test_users_and_roles_of_one_name_are_two(access: LastingAccess) -> None:
    """A user is no role, whatever it is called."""
    access.apply(UserRecord("a", "{}", 1), 1)
    access.apply(GrantRecord("a", "a", 1), 2)
    access.apply(UserRecord("a", "", 2), 3)
    assert list(access.grants) == [("a", "a")]


def test_who_changed_what_changes_nothing_itself() -> None:
    """It is there to be read from the log."""
    one, other = BrokerState(BrokerSettings()), BrokerState(BrokerSettings())
    user = UserRecord("ann", "{}", 1)
    one.apply(1, [user, AuditRecord(1, "root", "::1", "put", "ann", "done")], 5)
    other.apply(1, [user], 5)
    assert digest_of(one) == digest_of(other)


def test_a_state_that_begins_anew_knows_nobody() -> None:
    """The log that said so was replaced."""
    state = BrokerState(BrokerSettings())
    state.apply(1, [UserRecord("ann", "{}", 1)], 5)
    state.begin_anew()
    assert state.access.records() == []
    state.apply(1, [UserRecord("ben", "{}", 1)], 5)
    assert list(state.access.users) == ["ben"]
