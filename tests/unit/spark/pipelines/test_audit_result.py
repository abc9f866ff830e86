"""
The verdict of an audit, and what it says that it has proven.
"""

from __future__ import annotations

import pytest

from holdfast.spark.archive.manifests import Catalogue
from holdfast.spark.log.source import LogPosition
from holdfast.spark.pipelines.accounting import Account
from holdfast.spark.pipelines.audit_result import AuditResult
from holdfast.spark.pipelines.findings import Finding
from holdfast.spark.pipelines.replica_audit import ReplicaAudit
from holdfast.spark.pipelines.served_depths import ServedDepths
from holdfast.spark.pipelines.topic_accounting import SubscriptionAccount


def replicas(count: int) -> ReplicaAudit:
    position = LogPosition(first_index=1, last_index=2)
    return ReplicaAudit([], {str(number): position for number in range(count)})


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (AuditResult(replicas=replicas(3)), "3 replicas hold the same log."),
        (AuditResult(replicas=replicas(1)), "the log is sound."),
        (AuditResult(archive=Catalogue()), "the archive is sound."),
        (
            AuditResult(replicas=replicas(2), archive=Catalogue(), account=Account(messages=5)),
            (
                "2 replicas hold the same log; the archive gives it back byte for byte;"
                " all 5 messages are accounted for."
            ),
        ),
    ],
)
def test_a_good_verdict_says_what_was_compared(result: AuditResult, verdict: str) -> None:
    """
    One sentence that a person understands.
    """
    assert verdict == result.verdict
    assert result.is_sound


def test_a_bad_verdict_says_where() -> None:
    """
    How many differences, and in which copies.
    """
    found = [Finding(where="b", kind="damaged", reason="x")] * 2

    result = AuditResult(replicas=replicas(3), findings=found)

    assert not result.is_sound
    assert result.verdict.startswith("NOT the same: 2 differences, in b;")


def test_the_audit_says_what_it_proves_and_what_not() -> None:
    """So that nobody takes for proven what nobody looked at."""
    served = [
        ServedDepths(replica="0", index=2, is_leader=True),
        ServedDepths(replica="1", index=0, not_told="its log grew at every look"),
    ]
    account = Account(messages=5, queues=2, subscriptions=[SubscriptionAccount("s", messages=7)])
    result = AuditResult(replicas=replicas(3), account=account, served=served)
    proven, missing = "\n".join(result.proven), "\n".join(result.not_proven)
    assert "entries 1 to 2" in proven
    assert "5 messages of 2 queues and topics have one fate each" in proven
    assert "each of 1 durable subscriptions has one fate" in proven
    assert "7 in all" in proven
    assert "0: it serves what lived in the log after entry 2, and what is not persistent" in proven
    assert "what 1 serves: its log grew at every look" in missing
    assert "what is served from 2: only the log was read" in missing
    assert "what consumers made of theirs" in missing
    result.findings.append(Finding(where="b", kind="damaged", reason="x"))
    assert [] == result.proven


def test_a_short_audit_says_so() -> None:
    """One copy, cleaned, without an account."""
    position = LogPosition(first_index=7, last_index=9)
    result = AuditResult(replicas=ReplicaAudit([], {"a": position}))
    missing = "\n".join(result.not_proven)
    for sentence in ("a before entry 7", "one copy was named", "no account was taken"):
        assert sentence in missing
