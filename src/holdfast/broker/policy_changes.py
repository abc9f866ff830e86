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
from collections.abc import Collection, Iterator, Mapping

from holdfast.broker.forwarding_checks import Ways, records_of, require_readable
from holdfast.broker.lasting.policies import PolicyKey
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.outputs import Replier
from holdfast.broker.receipts import Receipts
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import LevelNotReachedError, LimitReachedError, PolicyError
from holdfast.model.format_level import POLICIES_LEVEL
from holdfast.model.policies import FilePolicies, as_text
from holdfast.model.policy_option import DIRECTING, Value
from holdfast.model.records import PolicyRecord
from holdfast.model.wildcards import Pattern


class PolicyChanges:
    """Changes of policies, on the leader."""

    __slots__ = ("_judged", "_receipts", "_settings", "_state")

    def __init__(self, settings: BrokerSettings, state: BrokerState, receipts: Receipts) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self._judged: dict[PolicyKey, str] = {}
        """What the policies would be, as they were last judged and found to hold."""

    @property
    def may_be_made(self) -> bool:
        """Whether the log may hold policies."""
        return self._state.format_level >= POLICIES_LEVEL

    def say(
        self, pattern: Pattern, values: Mapping[str, Value], replier: Replier, receipt: bytes
    ) -> dict[str, Value]:
        """
        Say something more, or otherwise, of a pattern's destinations; gives all that is said.

        Whoever has judged it before, in steps, does not wait for that here.

        Raises:
            LevelNotReachedError: Not every member could read it.
            LimitReachedError: There are too many patterns.
            PolicyError: Messages would go in a circle, or by a selector that cannot be read.
        """
        self._require_level()
        key = PolicyKey(False, str(pattern))
        if not self._said(key):
            self._require_room()
        found = {**self._said(key), **values}
        if DIRECTING & values.keys():
            self._require_judged(key, pattern, found)
        self._write(key, found, replier, receipt)
        return found

    def judge(self, pattern: Pattern, values: Mapping[str, Value]) -> Iterator[None]:
        """
        Look in steps whether something can be said of a pattern's destinations.

        Raises:
            PolicyError: Messages would go in a circle, or by a selector that cannot be read.
        """
        if DIRECTING & values.keys():
            key = PolicyKey(False, str(pattern))
            yield from self._judge(key, pattern, {**self._said(key), **values})

    def judge_back(self, pattern: Pattern, names: Collection[str]) -> Iterator[None]:
        """
        Look in steps whether something can be taken back, or all of it.

        Raises:
            PolicyError: Messages would go in a circle.
        """
        key = PolicyKey(False, str(pattern))
        found = self._said(key)
        left = _without(found, names)
        if DIRECTING & (found.keys() - left.keys()):
            yield from self._judge(key, pattern, left)

    def take_back(
        self, pattern: Pattern, names: Collection[str], replier: Replier, receipt: bytes
    ) -> dict[str, Value]:
        """
        Take back some of what was said at run time, or all of it; gives what is left.

        Raises:
            LevelNotReachedError: Nothing can have been said.
            PolicyError: It was not said, or messages would go in a circle without it.
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
        left = _without(found, names)
        if DIRECTING & (found.keys() - left.keys()):
            self._require_judged(key, pattern, left)
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
            PolicyError: With what operators said messages would go in a circle.
        """
        records = self._with_file(file)
        if _texts(records) != self._judged:
            for _ in self.judge_file(file):
                pass
        at_run_time = sum(not key.is_of_file for key in self._to_come())
        if at_run_time + len(file.values) > self._settings.policy_count_max:
            raise self._too_many()
        self._receipts.record(PolicyRecord("", "", file.revision))
        for pattern, values in file.values.items():
            self._receipts.record(PolicyRecord(pattern, as_text(values), file.revision))

    def judge_file(self, file: FilePolicies) -> Iterator[None]:
        """
        Look in steps whether what a file says can come into the log.

        Raises:
            PolicyError: With what operators said messages would go in a circle.
        """
        records = self._with_file(file)
        if any(DIRECTING & values.keys() for values in file.values.values()):
            yield from Ways(records).judge_all()
        self._judged = _texts(records)

    def _with_file(self, file: FilePolicies) -> dict[PolicyKey, PolicyRecord]:
        """Give all that is said once a file's word counts."""
        said = {key: it for key, it in self._all_said().items() if not key.is_of_file}
        return said | records_of(file.values, file.revision)

    def _said(self, key: PolicyKey) -> dict[str, Value]:
        """Give what a pattern is said to have once all that is on its way is applied."""
        record = self._receipts.policies_under_way().get(key)
        if record is None:
            record = self._state.policies.by_key.get(key)
        said: dict[str, Value] = json.loads(record.values) if record and record.values else {}
        return said

    def _require_judged(
        self, key: PolicyKey, pattern: Pattern, values: Mapping[str, Value]
    ) -> None:
        if _texts(self._with(key, values)) != self._judged:
            for _ in self._judge(key, pattern, values):
                pass

    def _judge(
        self, key: PolicyKey, pattern: Pattern, values: Mapping[str, Value]
    ) -> Iterator[None]:
        require_readable(values)
        yield
        records = self._with(key, values)
        yield from Ways(records).judge(pattern, values)
        self._judged = _texts(records)

    def _with(self, key: PolicyKey, values: Mapping[str, Value]) -> dict[PolicyKey, PolicyRecord]:
        """Give all that is said once this is said of a key."""
        return self._all_said() | {key: PolicyRecord(key.pattern, as_text(values))}

    def _all_said(self) -> dict[PolicyKey, PolicyRecord]:
        """Give the last word of each key, as it is once all is applied that is on its way."""
        return self._state.policies.by_key | self._receipts.policies_under_way()

    def _to_come(self) -> set[PolicyKey]:
        """Give the keys of which something is said once all that is on its way is applied."""
        return {key for key, record in self._all_said().items() if record.values}

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


def _without(found: dict[str, Value], names: Collection[str]) -> dict[str, Value]:
    """Give what is left of what was said without these; without all if there are none."""
    return {name: value for name, value in found.items() if names and name not in names}


def _texts(records: Mapping[PolicyKey, PolicyRecord]) -> dict[PolicyKey, str]:
    """Give what can be compared of these; the revision of a file says nothing of ways."""
    return {key: it.values for key, it in records.items() if it.values and key.pattern}
