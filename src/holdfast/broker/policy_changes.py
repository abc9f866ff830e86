"""
What operators and files say of destinations by pattern: records of the log, so all leaders agree.

An operator's word is merged with what was said before at run time, here, on the leader: a record
holds all of it. A file's word comes as a whole, in one entry of the log.

Invariants:
    Nothing is written before every member can read it.
    What is on its way to the log counts as said: two changes at once lose nothing of either.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from holdfast.broker.lasting.policies import PolicyKey
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.outputs import Replier
from holdfast.broker.receipts import Receipts
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import LevelNotReachedError, LimitReachedError, PolicyError
from holdfast.model.format_level import POLICIES_LEVEL
from holdfast.model.policies import FilePolicies, Value, as_text
from holdfast.model.records import PolicyRecord
from holdfast.model.wildcards import Pattern


class PolicyChanges:
    """Changes of policies, on the leader."""

    __slots__ = ("_receipts", "_settings", "_state")

    def __init__(self, settings: BrokerSettings, state: BrokerState, receipts: Receipts) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts

    @property
    def may_be_made(self) -> bool:
        """Whether the log may hold policies."""
        return self._state.format_level >= POLICIES_LEVEL

    def say(
        self, pattern: Pattern, values: Mapping[str, Value], replier: Replier, receipt: bytes
    ) -> dict[str, Value]:
        """
        Say something more, or otherwise, of a pattern's destinations; gives all that is said.

        Raises:
            LevelNotReachedError: Not every member could read it.
            LimitReachedError: There are too many patterns.
        """
        self._require_level()
        key = PolicyKey(False, str(pattern))
        if not self._said(key):
            self._require_room()
        found = {**self._said(key), **values}
        self._write(key, found, replier, receipt)
        return found

    def take_back(
        self, pattern: Pattern, names: Collection[str], replier: Replier, receipt: bytes
    ) -> dict[str, Value]:
        """
        Take back some of what was said at run time, or all of it; gives what is left.

        Raises:
            LevelNotReachedError: Nothing can have been said.
            PolicyError: It was not said.
        """
        self._require_level()
        key = PolicyKey(False, str(pattern))
        found = self._said(key)
        missing = [name for name in names if name not in found]
        if missing or not found:
            what = ", ".join(missing) or "nothing"
            says = "is not set" if missing else "is set"
            raise PolicyError(
                f"{what} {says} for {pattern} at run time; see 'holdfast queues show'"
            )
        left = {name: value for name, value in found.items() if names and name not in names}
        self._write(key, left, replier, receipt)
        return left

    def _write(
        self, key: PolicyKey, values: dict[str, Value], replier: Replier, receipt: bytes
    ) -> None:
        if values or self._said(key):
            self._receipts.record(PolicyRecord(key.pattern, as_text(values)))
        self._receipts.reply_with_batch(replier, receipt)

    def adopt(self, file: FilePolicies) -> None:
        """
        Bring what a file says into the log, in place of what files said before, in one entry.

        Raises:
            LimitReachedError: There are too many patterns.
        """
        at_run_time = sum(not key.is_of_file for key in self._to_come())
        if at_run_time + len(file.values) > self._settings.policy_count_max:
            raise self._too_many()
        self._receipts.record(PolicyRecord("", "", file.revision))
        for pattern, values in file.values.items():
            self._receipts.record(PolicyRecord(pattern, as_text(values), file.revision))

    def _said(self, key: PolicyKey) -> dict[str, Value]:
        """Give what a pattern is said to have once all that is on its way is applied."""
        record = self._receipts.policies_under_way().get(key)
        if record is None:
            record = self._state.policies.by_key.get(key)
        said: dict[str, Value] = json.loads(record.values) if record and record.values else {}
        return said

    def _to_come(self) -> set[PolicyKey]:
        """Give the keys of which something is said once all that is on its way is applied."""
        records = self._state.policies.by_key | self._receipts.policies_under_way()
        return {key for key, record in records.items() if record.values}

    def _require_level(self) -> None:
        if not self.may_be_made:
            raise LevelNotReachedError.of("policies", POLICIES_LEVEL, self._state.format_level)

    def _require_room(self) -> None:
        if len(self._to_come()) >= self._settings.policy_count_max:
            raise self._too_many()

    def _too_many(self) -> LimitReachedError:
        return LimitReachedError(
            f"policies of more than {self._settings.policy_count_max:,} patterns"
            f" (broker.policy_count_max)"
        )
