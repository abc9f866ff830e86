"""
Policies as the log says them: the same log gives the same ones, whatever was cleaned of it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.policies import Policies, PolicyKey
from holdfast.model.records import PolicyRecord

SEVEN = '{"queuePrefetch":7}'
EIGHT = '{"queuePrefetch":8}'


@pytest.fixture
def policies() -> Policies:
    return Policies()


def said(policies: Policies) -> dict[tuple[bool, str], str]:
    return {tuple(key): record.values for key, record in policies.by_key.items()}


def test_a_policy_is_replaced_as_a_whole_and_taken_back(policies: Policies) -> None:
    """
    The last word counts; no values are the end of it, also of one that is not there.
    """
    policies.apply(PolicyRecord("queue://a", '{"queuePrefetch":7,"queuePrefix":"x"}'), 1)
    policies.apply(PolicyRecord("queue://a", EIGHT), 2)
    assert said(policies) == {(False, "queue://a"): EIGHT}
    assert policies.homes == {PolicyKey(False, "queue://a"): 2}
    policies.apply(PolicyRecord("queue://a", ""), 3)
    policies.apply(PolicyRecord("queue://b", ""), 4)
    assert (said(policies), policies.homes, policies.size_bytes) == ({}, {}, 0)
    assert policies.change_count == 4


def test_a_newer_file_replaces_all_of_the_one_before(policies: Policies) -> None:
    """
    What an operator said at run time stays; a file may say nothing any more.
    """
    policies.apply(PolicyRecord("queue://a", SEVEN), 1)
    for number, pattern in enumerate(("", "queue://a", "queue://b"), 2):
        policies.apply(PolicyRecord(pattern, EIGHT if pattern else "", 3), number)
    assert said(policies) == {
        (False, "queue://a"): SEVEN,
        (True, ""): "",
        (True, "queue://a"): EIGHT,
        (True, "queue://b"): EIGHT,
    }
    policies.apply(PolicyRecord("", "", 4), 5)
    assert said(policies) == {(False, "queue://a"): SEVEN, (True, ""): ""}
    assert policies.revision == 4


def test_an_older_file_changes_nothing(policies: Policies) -> None:
    """
    Whether a leader has one, or the cleaner has carried on what was so before.
    """
    policies.apply(PolicyRecord("queue://a", EIGHT, 4), 1)
    before = said(policies), dict(policies.homes), policies.change_count
    for record in (PolicyRecord("queue://a", SEVEN, 3), PolicyRecord("", "", 3)):
        policies.apply(record, 9)
    assert (said(policies), policies.homes, policies.change_count) == before


def test_what_is_left_of_a_cleaned_log_gives_the_same(policies: Policies) -> None:
    """
    The cleaner writes each again as it is; whoever has but the rest of the log has no less.
    """
    log = [
        PolicyRecord("", "", 2),
        PolicyRecord("queue://old", SEVEN, 2),
        PolicyRecord("queue://a", SEVEN),
        PolicyRecord("", "", 3),
        PolicyRecord("queue://b", EIGHT, 3),
    ]
    for number, record in enumerate(log, 1):
        policies.apply(record, number)
    again = list(policies.by_key.values())
    fresh = Policies()
    for number, record in enumerate(again, 10):
        policies.apply(record, number)
        fresh.apply(record, number)
    assert said(fresh) == said(policies)
    assert fresh.homes == policies.homes
    assert (fresh.revision, fresh.size_bytes) == (3, policies.size_bytes)
