"""
Ablations of what keeps policies from being lost, revived or turned back.

Cleaning carries on those whose home goes, but none that is being changed; and a file of an older
revision changes nothing, whoever comes to lead with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.broker import cleaning
from holdfast.broker.broker import Broker
from holdfast.broker.lasting.policies import Policies, PolicyKey, key_of
from holdfast.model.records import PolicyRecord, Record
from holdfast.server.policy_file import PolicyFile
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.policy_books import FILED, SAID

_TROUBLE = (SAID, FILED, "crash", "power cut", "transfer")


def _forget_when_cleaning() -> list[Patch]:
    return [(cleaning, "_homeless_policies", lambda *_arguments: iter(()))]


def _revive_what_changes() -> list[Patch]:
    def homeless(broker: Broker, through_record: int) -> Iterator[Record | None]:
        policies = broker.state.policies
        for key, record in list(policies.by_key.items()):
            yield record if policies.homes[key] <= through_record else None

    return [(cleaning, "_homeless_policies", homeless)]


def _believe_any_file() -> list[Patch]:
    def step(self: PolicyFile, *, is_leading: bool) -> None:
        changes = self._broker.policy_changes
        if is_leading and not self._is_done and changes.may_be_made:
            self._is_done = True
            changes.adopt(self._file)

    def apply(self: Policies, record: PolicyRecord, number: int) -> None:
        if record.revision and record.revision != self.revision:
            for key in [key for key in self.by_key if key.is_of_file]:
                del self.by_key[key], self.homes[key]
            self.revision = 0
            self.put(PolicyKey(True, ""), PolicyRecord("", "", record.revision), number)
        self.by_key.pop(key_of(record), None)
        self.homes.pop(key_of(record), None)
        if record.values or not record.pattern:
            self.put(key_of(record), record, number)
        self.change_count += 1

    return [(PolicyFile, "step", step), (Policies, "apply", apply)]


def _let_the_log_turn_over(plan: Plan) -> None:
    plan.segment_bytes = 8 * 1024
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)
    plan.kinds[SAID] = 6


def _let_words_be_long_on_their_way(plan: Plan) -> None:
    """Cleaning must meet one: disks are slow, and nothing but this is going on."""
    _let_the_log_turn_over(plan)
    plan.pause_seconds = (0.05, 0.3)
    plan.sync_seconds = (0.05, 0.15)


ABLATIONS = [
    Ablation(
        "forget policies when cleaning",
        _forget_when_cleaning,
        (*_TROUBLE, "wiped disk"),
        _let_the_log_turn_over,
    ),
    Ablation(
        "carry on a policy that is being changed",
        _revive_what_changes,
        (SAID,),
        _let_words_be_long_on_their_way,
    ),
    Ablation("believe a policy file of any revision", _believe_any_file, _TROUBLE),
]
