"""
Users, grants and who changed them as rows: for `store dump` and Spark's view of events.

Invariants:
    Of a user's credentials a row says of which kinds they are, and nothing they are compared with.
"""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.model.access_records import AccessRecord, GrantRecord, UserRecord

_SHOWN: Final = frozenset({"roles"})
"""What of a user's values is shown as it is."""
_RIGHTS: Final = {1: "read", 2: "write", 4: "admin"}


def access_row(record: AccessRecord) -> tuple[str, dict[str, Any]]:
    """Give the kind of a record and its fields."""
    if isinstance(record, UserRecord):
        return "user", {"name": record.name, "revision": record.revision, **_user(record)}
    if isinstance(record, GrantRecord):
        rights = [right for bit, right in _RIGHTS.items() if record.rights & bit]
        return "grant", {"role": record.role, "pattern": record.pattern, "rights": rights}
    return "audit", {
        "at_ms": record.at_ms,
        "who": record.who,
        "source": record.source,
        "action": record.action,
        "object": record.object,
        "outcome": record.outcome,
    }


def _user(record: UserRecord) -> dict[str, Any]:
    if not record.values:
        return {"removed": True}
    values = json.loads(record.values)
    shown = {key: values[key] for key in values if key in _SHOWN}
    return {**shown, "credentials": sorted(key for key in values if key not in _SHOWN)}
