"""
Changes of users and grants, on the leader: records of the log, so that all leaders judge alike.

Who changed what stands in the same entry: what is changed without that cannot be.

Invariants:
    Nothing is written before every member can read it.
    What is on its way to the log counts as said: two changes at once lose nothing of either.
    A user's revision is higher with each change, also of one who was removed and is there again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.broker.lasting.access import AccessKey, GrantKey, KeptRecord, UserKey, is_kept
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.outputs import Replier
from holdfast.broker.receipts import Receipts
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import AccessError, LevelNotReachedError, LimitReachedError
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.model.limits import KiB
from holdfast.security.grants import Grant, Right, bits_of, named, rights_of
from holdfast.security.names import require_name

VALUES_BYTES_MAX: Final = 64 * KiB
"""So much may stand of one user: hundreds of roles and tokens."""


class AccessChanges:
    """Changes of users and grants."""

    __slots__ = ("_receipts", "_schedules_next", "_settings", "_state")

    def __init__(
        self,
        settings: BrokerSettings,
        state: BrokerState,
        receipts: Receipts,
        schedules_next: Callable[[], tuple[int, int] | None] = lambda: None,
    ) -> None:
        """
        Write changes into the gathering batch.

        Args:
            schedules_next: Gives the place of what is scheduled next; None: nothing ever was.
        """
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self._schedules_next = schedules_next

    @property
    def may_be_made(self) -> bool:
        """Whether the log may hold users and grants."""
        return self._state.format_level >= ACCESS_LEVEL

    def user(self, name: str) -> Mapping[str, Any] | None:
        """Give a user's values as they are once all is applied that is on its way; None: none."""
        record = self._to_come(UserKey(name))
        if record is None:
            return None
        assert isinstance(record, UserRecord), "its key says so"
        values: dict[str, Any] = json.loads(record.values)
        return values

    def put_user(
        self,
        name: str,
        values: Mapping[str, Any],
        audit: AuditRecord,
        replier: Replier,
        receipt: bytes,
    ) -> None:
        """
        Say all that is so of a user, new or not.

        Raises:
            AccessError: There cannot be such a one.
            LevelNotReachedError: Not every member could read it.
            LimitReachedError: There are too many.
        """
        self._require_level()
        require_name(name, "user")
        revision = self._next_revision(name, audit)
        is_new = self._to_come(UserKey(name)) is None
        if is_new:
            # What was scheduled by who had the name before stands before this.
            place = self._schedules_next()
            values = {**values, "life": revision} | ({"schedule": [*place]} if place else {})
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        if len(text.encode()) > VALUES_BYTES_MAX:
            raise AccessError(
                f"user {name!r} would have {len(text.encode()):,} bytes of roles and credentials;"
                f" at most {VALUES_BYTES_MAX:,}"
            )
        if is_new:
            self._require_room(UserKey, self._settings.user_count_max, "users")
        self._write(UserRecord(name, text, revision), audit)
        self._receipts.reply_with_batch(replier, receipt)

    def remove_user(self, name: str, audit: AuditRecord, replier: Replier, receipt: bytes) -> None:
        """
        Let there be no such user any more.

        Raises:
            AccessError: There is none.
            LevelNotReachedError: There can be none.
        """
        self._require_level()
        if self._to_come(UserKey(name)) is None:
            raise AccessError(f"there is no user {name[:80]!r}; see 'holdfast users list'")
        self._write(UserRecord(name, "", self._next_revision(name, audit)), audit)
        self._receipts.reply_with_batch(replier, receipt)

    def grant(
        self, grant: Grant, audit: AuditRecord, replier: Replier, receipt: bytes
    ) -> frozenset[Right]:
        """
        Let a role have these rights beside those that it has of the same pattern; gives all.

        Raises:
            LevelNotReachedError: Not every member could read it.
            LimitReachedError: There are too many.
        """
        self._require_level()
        key = GrantKey(grant.role, str(grant.pattern))
        if self._to_come(key) is None:
            self._require_room(GrantKey, self._settings.grant_count_max, "grants")
        rights = rights_of(self._bits(key)) | grant.rights
        self._write(GrantRecord(key.role, key.pattern, bits_of(rights)), audit)
        self._receipts.reply_with_batch(replier, receipt)
        return rights

    def revoke(
        self, grant: Grant, audit: AuditRecord, replier: Replier, receipt: bytes
    ) -> frozenset[Right]:
        """
        Take these rights from a role that it has of this pattern, as written; gives what is left.

        Raises:
            AccessError: It has one of them not of this pattern: another one may give it.
            LevelNotReachedError: Nothing can have been granted.
        """
        self._require_level()
        key = GrantKey(grant.role, str(grant.pattern))
        has = rights_of(self._bits(key))
        if not grant.rights <= has:
            raise AccessError(
                f"role {key.role!r} was not granted {named(grant.rights - has)} of {key.pattern};"
                f" what another pattern grants is taken back by that pattern"
            )
        left = has - grant.rights
        self._write(GrantRecord(key.role, key.pattern, bits_of(left)), audit)
        self._receipts.reply_with_batch(replier, receipt)
        return left

    def _write(self, record: KeptRecord, audit: AuditRecord) -> None:
        self._receipts.add_records([record, audit])

    def _next_revision(self, name: str, audit: AuditRecord) -> int:
        key = UserKey(name)
        known = self._receipts.access_under_way().get(key) or self._state.access.get(key)
        before = known.revision if isinstance(known, UserRecord) else 0
        return max(audit.at_ms, before + 1)

    def _bits(self, key: GrantKey) -> int:
        record = self._to_come(key)
        return record.rights if isinstance(record, GrantRecord) else 0

    def _to_come(self, key: AccessKey) -> KeptRecord | None:
        """Give what a key has once all is applied that is on its way."""
        record = self._receipts.access_under_way().get(key)
        if record is None:
            return self._state.access.get(key)
        return record if is_kept(record) else None

    def _require_level(self) -> None:
        if not self.may_be_made:
            raise LevelNotReachedError.of(
                "users and grants", ACCESS_LEVEL, self._state.format_level
            )

    def _require_room(self, kind: type[AccessKey], count_max: int, what: str) -> None:
        access = self._state.access
        count = len(access.users if kind is UserKey else access.grants)
        for key, record in self._receipts.access_under_way().items():
            if type(key) is kind:
                count += is_kept(record) - (access.get(key) is not None)
        if count >= count_max:
            raise LimitReachedError(f"there are {count:,} {what}: no more may be")
