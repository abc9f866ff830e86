"""Changes of users and grants on the leader: records with who made them, in force once applied."""

from __future__ import annotations

import dataclasses

import pytest

from holdfast.broker import access_changes
from holdfast.broker.lasting.access import GrantKey
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.errors import AccessError, LevelNotReachedError, LimitReachedError
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.model.records import FormatRecord
from holdfast.security.grants import read_grant

READ = read_grant("sales", "read", "queue://A.>")
BOTH = read_grant("sales", "read,write", "queue://A.>")
KEY = GrantKey("sales", "queue://A.>")


def audit(at_ms: int = 1_000) -> AuditRecord:
    return AuditRecord(at_ms, "root", "::1", "change", "it", "done")


@pytest.fixture
def ready(desk):
    """A desk whose log may hold users and grants."""
    desk.broker.receipts.record(FormatRecord(ACCESS_LEVEL))
    desk.turn()
    return desk


def put(desk, name="ann", at_ms=1_000, **values):
    desk.broker.access_changes.put_user(name, values, audit(at_ms), desk.client, b"u")


def remove(desk, name="ann", at_ms=1_000):
    desk.broker.access_changes.remove_user(name, audit(at_ms), desk.client, b"r")


def grant(desk, what=READ):
    return desk.broker.access_changes.grant(what, audit(), desk.client, b"g")


def revoke(desk, what=READ):
    return desk.broker.access_changes.revoke(what, audit(), desk.client, b"v")


def test_below_the_level_nothing_is_written(desk) -> None:
    """A member of before would have to refuse the log: the sentence says what is needed."""
    for change in (put, remove, grant, revoke):
        with pytest.raises(LevelNotReachedError, match=r"grants need level 13 .* at level 1:"):
            change(desk)
    assert not desk.broker.receipts.has_batch()
    assert not desk.broker.access_changes.may_be_made


def test_a_change_is_told_when_it_is_stored_and_the_next_leader_knows_it(ready) -> None:
    """Not before: a leader that is deposed has nothing to undo."""
    put(ready, roles=["sales"])
    assert grant(ready) == READ.rights
    assert (ready.client.replies, ready.state.access.users) == ([], {})
    ready.turn()
    assert ready.client.replies == [b"u", b"g"]
    ready.fail_over()
    assert ready.state.access.users["ann"].values == '{"life":1000,"roles":["sales"]}'
    assert ready.state.access.grants[KEY].rights == 1
    assert digest_of(ready.replayed()) == digest_of(ready.state)


def test_who_made_a_change_stands_right_behind_it(ready) -> None:
    """In the same entry: neither is ever there without the other (S15)."""
    put(ready)
    grant(ready)
    records = ready.broker.receipts.batch.records
    kinds = [type(it) for it in records]
    assert kinds == [UserRecord, AuditRecord, GrantRecord, AuditRecord]
    ready.turn()
    with pytest.raises(AccessError):
        remove(ready, "nobody")
    assert not ready.broker.receipts.has_batch()


def test_two_changes_at_once_lose_nothing_of_either(ready) -> None:
    """What is on its way to the log counts as said."""
    assert grant(ready, READ) == READ.rights
    assert grant(ready, read_grant("sales", "write", "queue://A.>")) == BOTH.rights
    assert revoke(ready, READ) == BOTH.rights - READ.rights
    put(ready, roles=["a"])
    assert ready.broker.access_changes.user("ann") == {"life": 1000, "roles": ["a"]}
    remove(ready)
    assert ready.broker.access_changes.user("ann") is None
    ready.turn()
    assert ready.state.access.grants[KEY].rights == 2
    assert ready.state.access.users == {}


def test_what_is_revoked_whole_is_gone(ready) -> None:
    """And what was not granted so cannot be revoked: another pattern may give it."""
    grant(ready, BOTH)
    assert revoke(ready, BOTH) == frozenset()
    ready.turn()
    assert ready.state.access.grants == {}
    with pytest.raises(AccessError, match=r"'sales' was not granted read of queue://A\.>;"):
        revoke(ready)
    grant(ready)
    with pytest.raises(AccessError, match="not granted write of"):
        revoke(ready, BOTH)


def test_a_user_who_was_removed_has_a_higher_revision_when_he_is_there_again(ready) -> None:
    """Also by a clock that went back while it was on its way: nothing of before is his."""
    put(ready, at_ms=5_000)
    remove(ready, at_ms=4_000)
    put(ready, at_ms=3_000)
    revisions = [it.revision for it in ready.broker.receipts.batch.access]
    assert revisions == [5_000, 5_001, 5_002]
    ready.turn()
    put(ready, at_ms=1)
    ready.turn()
    assert ready.state.access.users["ann"].revision == 5_003


def test_what_cannot_be_a_user_is_refused(ready, monkeypatch) -> None:
    """By a name that no login can say, or with more than one record is to hold."""
    with pytest.raises(AccessError, match="name of a user"):
        put(ready, "a b")
    monkeypatch.setattr(access_changes, "VALUES_BYTES_MAX", 20)
    with pytest.raises(AccessError, match="'ann' would have 41 bytes of roles and credentials"):
        put(ready, roles=["long enough", "x"])
    with pytest.raises(AccessError, match="there is no user 'ben'"):
        remove(ready, "ben")
    assert not ready.broker.receipts.has_batch()


def test_there_is_a_limit_to_users_and_to_grants(ready) -> None:
    """What is known may be changed beyond it; what is removed makes room, also on its way."""
    ready.broker.access_changes._settings = dataclasses.replace(
        ready.broker.settings, user_count_max=1, grant_count_max=1
    )
    put(ready)
    with pytest.raises(LimitReachedError, match="there are 1 users"):
        put(ready, "ben")
    ready.turn()
    put(ready, roles=["more"])
    remove(ready)
    put(ready, "ben")
    grant(ready)
    with pytest.raises(LimitReachedError, match="there are 1 grants"):
        grant(ready, read_grant("sales", "read", "queue://B"))
    grant(ready, BOTH)
    ready.turn()
    assert list(ready.state.access.users) == ["ben"]
