"""Users, grants and who changed them as rows."""

from __future__ import annotations

import json

from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.store.access_rows import access_row


def test_of_credentials_only_their_kinds_are_shown() -> None:
    """Also of such as this version does not know: nothing is shown but what is named (S14)."""
    values = {"roles": ["sales"], "password": "$argon2id$hash", "later": {"key": "hash"}}
    kind, fields = access_row(UserRecord("ann", json.dumps(values), 3))
    assert (kind, fields) == (
        "user",
        {"name": "ann", "revision": 3, "roles": ["sales"], "credentials": ["later", "password"]},
    )
    assert "hash" not in json.dumps(fields)


def test_what_is_gone_says_so() -> None:
    """A user who was removed, a grant of which nothing is left."""
    assert access_row(UserRecord("ann", "", 4))[1] == {
        "name": "ann",
        "revision": 4,
        "removed": True,
    }
    assert access_row(GrantRecord("a", "queue://b", 0))[1]["rights"] == []


def test_grants_and_audits_are_shown_whole() -> None:
    """Rights by their names."""
    grant = access_row(GrantRecord("a", "queue://b", 5))
    assert grant == ("grant", {"role": "a", "pattern": "queue://b", "rights": ["read", "admin"]})
    kind, fields = access_row(AuditRecord(7, "ann", "::1", "grant", "a", "done"))
    assert kind == "audit"
    assert list(fields.values()) == [7, "ann", "::1", "grant", "a", "done"]
