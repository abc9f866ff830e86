"""
What an audit has compared and found, and the sentences that tell it to a person.

A good verdict stands for what was looked at, which is said; so is what nobody looked at, so that
nobody takes it for proven. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.spark.archive.manifests import Catalogue
from holdfast.spark.pipelines.accounting import Account
from holdfast.spark.pipelines.findings import Finding
from holdfast.spark.pipelines.replica_audit import ReplicaAudit
from holdfast.spark.pipelines.served_depths import ServedDepths


@dataclass(slots=True)
class AuditResult:
    """What was compared and what was found."""

    replicas: ReplicaAudit | None = None
    archive: Catalogue | None = None
    archive_entries: int = 0
    account: Account | None = None
    account_of: str = ""
    served: list[ServedDepths] = field(default_factory=list)
    """Nodes that were asked what they serve, whether that could be compared or not."""
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def verdict(self) -> str:
        """One sentence that a person understands."""
        if self.findings:
            places = sorted({finding.where for finding in self.findings})
            return (
                f"NOT the same: {len(self.findings):,} differences, in {', '.join(places)};"
                f" each is listed with its place"
            )
        parts = []
        if self.replicas is not None:
            count = len(self.replicas.positions)
            parts.append(f"{count} replicas hold the same log" if count > 1 else "the log is sound")
        if self.archive is not None:
            parts.append(
                "the archive gives it back byte for byte"
                if self.replicas is not None
                else "the archive is sound"
            )
        if self.account is not None:
            parts.append(f"all {self.account.messages:,} messages are accounted for")
        return f"{'; '.join(parts)}."

    @property
    def proven(self) -> list[str]:
        """What a good verdict stands for, one sentence each."""
        return _what_is_proven(self)

    @property
    def not_proven(self) -> list[str]:
        """What was not asked, or cannot be told, one sentence each."""
        return _what_is_not_proven(self)


def _what_is_proven(result: AuditResult) -> list[str]:
    """Say what was looked at and found right; nothing where something was found."""
    if result.findings:
        return []
    found = []
    if result.replicas is not None:
        first = min(it.first_index for it in result.replicas.positions.values())
        last = max(it.last_index for it in result.replicas.positions.values())
        found.append(
            f"entries {first:,} to {last:,}: each was read, from one copy at least, with both its"
            f" checksums and the chain hash of all before it; {result.replicas.segments_equal:,}"
            f" more files are the same by their hash"
        )
    if result.archive is not None and not result.archive.is_empty:
        found.append(
            f"archive: {result.archive_entries:,} entries were rebuilt from their rows, byte for"
            f" byte"
        )
    if result.account is not None:
        found.append(
            f"account: {result.account.messages:,} messages of {result.account.queues:,} queues"
            f" and topics have one fate each, and no queue's, no topic's and no producer's numbers"
            f" have a hole"
        )
    if result.account is not None and result.account.subscriptions:
        found.append(
            f"account: each of {len(result.account.subscriptions):,} durable subscriptions has one"
            f" fate for each message that it was to get, {result.account.deliveries:,} in all, and"
            f" was done with no other"
        )
    found += [
        f"{it.replica}: it serves what lived in the log after entry {it.index:,}"
        + (", and what is not persistent" if it.is_leader else "")
        for it in result.served
        if not it.not_told and result.account is not None
    ]
    return found


def _what_is_not_proven(result: AuditResult) -> list[str]:
    """Say what nobody looked at, so that nobody takes it for proven."""
    found = []
    positions = result.replicas.positions if result.replicas is not None else {}
    late = [f"{name} before entry {it.first_index:,}" for name, it in positions.items()]
    cleaned = [
        text for text, it in zip(late, positions.values(), strict=True) if it.first_index > 1
    ]
    if cleaned:
        found.append(f"what was cleaned away: {', '.join(cleaned)}")
    if result.archive is not None and not result.archive.is_empty:
        found += [
            f"that {name} goes on where the archive ends: they have no entry in common"
            for name, it in positions.items()
            if it.first_index > result.archive.last_index
        ]
    if len(positions) == 1:
        found.append("that other nodes hold the same: one copy was named")
    if result.account is None:
        found.append("what became of the messages: no account was taken")
    found += [f"what {it.replica} serves: {it.not_told}" for it in result.served if it.not_told]
    unasked = positions.keys() - {it.replica for it in result.served}
    if unasked:
        found.append(f"what is served from {', '.join(sorted(unasked))}: only the log was read")
    found.append("messages that no client was told of as stored, and what consumers made of theirs")
    return found
