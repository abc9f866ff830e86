"""
Whether logins by SCRAM are offered: only if each user who has a password can show it so.

Clients take the strongest way that is offered and do not fall back, so a user whose password was
set without keys for SCRAM would be shut out by the offer.

Invariants:
    What is not known yet is not offered.
    A question looks into so many records at most, however many have changed.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.broker.lasting.access import LastingAccess
from holdfast.model.access_records import UserRecord
from holdfast.security.user_values import UserValues, read_values

RECORDS_PER_LOOK: Final = 200
"""So many are read at once, in two milliseconds or so."""


class ScramOffer:
    """Who could show his password by SCRAM, and whether all could."""

    __slots__ = (
        "_able",
        "_access",
        "_change_count",
        "_is_known",
        "_is_wanted",
        "_lacking",
        "_seen",
    )

    def __init__(self, access: Callable[[], LastingAccess], *, is_wanted: bool) -> None:
        """Look at all users once, before anybody is served, if it is wanted at all."""
        self._access = access
        self._is_wanted = is_wanted
        self._change_count = -1
        self._is_known = False
        self._seen: dict[str, UserRecord] = {}
        """By name the record that was read."""
        self._able: set[str] = set()
        self._lacking: set[str] = set()
        """Who has a password that SCRAM can show, and who has one that it cannot."""
        if is_wanted:
            self._look(len(access().users))

    @property
    def is_wanted(self) -> bool:
        """Whether keys for SCRAM are made of new passwords."""
        return self._is_wanted

    def look(self) -> bool:
        """Read some of what has changed; gives whether all is known by now."""
        if self._is_wanted:
            self._look(RECORDS_PER_LOOK)
        return self._is_known or not self._is_wanted

    def is_made(self) -> bool:
        """Whether it is offered just now."""
        return self._is_wanted and self.look() and bool(self._able) and not self._lacking

    def _look(self, count_max: int) -> None:
        access = self._access()
        if self._is_known and access.change_count == self._change_count:
            return
        self._change_count = access.change_count
        for name in [it for it in self._seen if it not in access.users]:
            del self._seen[name]
            self._able.discard(name)
            self._lacking.discard(name)
        left = count_max
        self._is_known = True
        for name, record in access.users.items():
            if self._seen.get(name) is record:
                continue
            if not left:
                self._is_known = False
                return
            left -= 1
            self._note(name, record, read_values(record.values))

    def _note(self, name: str, record: UserRecord, values: UserValues) -> None:
        self._seen[name] = record
        self._able.discard(name)
        self._lacking.discard(name)
        if values.password:
            (self._lacking if values.scram is None else self._able).add(name)
