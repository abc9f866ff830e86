"""
Do replicas hold the same log? Segments by hash first, entries only where they differ.

A sealed segment is byte-identical on every node, so equal hashes settle it; then one copy is proven
entry by entry, for two equal copies can be wrong alike. Where hashes differ every copy is proven,
and proven copies that still differ are compared chain value by chain value.

Invariants:
    Every entry of the common range is proven by its chain on at least one replica, and on every
    replica whose bytes are not known to be equal to proven ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.admin.pages import Pages
from holdfast.errors import StoreError
from holdfast.journal.ballot import SLOT_BYTES, decode_ballot
from holdfast.journal.segment import segment_name
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.proof import chain_at
from holdfast.spark.log.source import LogPosition, LogSource
from holdfast.spark.log.store_log import StoreLog
from holdfast.spark.pipelines.findings import Finding
from holdfast.spark.pipelines.replica_proof import Part, Proof, Replica, prove
from holdfast.spark.source.partitions import split
from holdfast.spark.worker_memory import keep_loaded

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

TASKS_PER_CORE: Final = 8
NODES_AT_ONCE: Final = 16
HASH_SECONDS: Final = 5
"""A node is asked for as many digests as it has in this time; an answer may take four times it."""

Told = Callable[[str, int, int], None]
"""Told of a replica how many segments it has, and how many of them are hashed."""

_READ_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class ReplicaAudit:
    """What was compared."""

    findings: list[Finding]
    positions: dict[str, LogPosition]
    segments_equal: int = 0
    segments_proven: int = 0
    entries: int = 0
    bytes: int = 0


def audit_replicas(
    spark: SparkSession,
    replicas: list[Replica],
    kept_from: dict[str, int] | None = None,
    told: Told = lambda *_: None,
) -> ReplicaAudit:
    """
    Compare the logs of replicas over all that they hold.

    `kept_from` says, by replica, from where on the log is held: what is before that may go while it
    is looked at, and is left out. `told` hears how far the nodes are that hash their files.

    Raises:
        HoldfastError: A replica cannot be read at all.
    """
    found = {each.name: each.source.position() for each in replicas}
    positions = {
        name: replace(it, first_index=max(it.first_index, (kept_from or {}).get(name, 1)))
        for name, it in found.items()
    }
    audit = ReplicaAudit(_ends(replicas, positions), positions)
    audit.findings += _missing_segments(replicas, positions)
    digests = _digests(spark, replicas, positions, told)
    begins = {name: it.first_index for name, it in found.items()}
    parts = _parts(replicas, positions, begins, digests, audit)
    proofs = []
    if parts:
        proofs = spread(spark, parts).map(prove).collect()
    for proof in proofs:
        audit.findings += proof.findings
        audit.entries += proof.entries
        audit.bytes += proof.bytes
    audit.segments_proven = len(proofs)
    cleaned = max((proof.cleaned_through for proof in proofs), default=0)
    stores = {each.name for each in replicas if isinstance(each.source, StoreLog)}
    audit.findings += lost_beginnings(found, cleaned, stores)
    audit.findings += _diverged(replicas, proofs) or parted(
        replicas, positions, is_told=bool(audit.findings)
    )
    audit.findings = _without_echoes(audit.findings)
    return audit


def _ends(replicas: list[Replica], positions: dict[str, LogPosition]) -> list[Finding]:
    """What is wrong with how far the logs go, without reading them."""
    found = []
    clusters = {name: it.cluster_id for name, it in positions.items() if it.cluster_id}
    for name, cluster in clusters.items():
        first = next(iter(clusters.values()))
        if cluster != first:
            reason = f"it is of cluster {cluster[:8]}, the first one of {first[:8]}"
            found.append(Finding(where=name, kind="diverged", reason=reason))
    for each in replicas:
        if not isinstance(each.source, LogDirectory):
            continue
        floor, last = _durable_floor(Path(each.source.path)), positions[each.name].last_index
        if floor > last:
            found.append(
                Finding(
                    where=each.name,
                    kind="missing",
                    reason=f"the node had stored entries up to {floor:,}; they are gone",
                    first_index=last + 1,
                    last_index=floor,
                )
            )
    return found


def _durable_floor(directory: Path) -> int:
    path = directory / "ballot"
    if not path.exists():
        return 0
    data = path.read_bytes()
    slots = (decode_ballot(data[place * SLOT_BYTES :][:SLOT_BYTES]) for place in (0, 1))
    claims = [slot.claim for slot in slots if slot is not None]
    # One below the first index says that the log was begun anew, and nothing of it stored yet.
    return max((it.floor for it in claims if it.floor >= it.first_index), default=0)


def _missing_segments(replicas: list[Replica], positions: dict[str, LogPosition]) -> list[Finding]:
    """Segments that others have, within what this replica should have."""
    # A store has none: what its rows lack is found where they are read.
    with_segments = [it for it in replicas if not isinstance(it.source, StoreLog)]
    known = sorted({base for it in with_segments for base in positions[it.name].bases})
    found = []
    for each in with_segments:
        position = positions[each.name]
        own = set(position.bases)
        for base in known:
            if base in own or not position.first_index < base <= position.last_index:
                continue
            # One that begins elsewhere is only laid out anew; one that is gone leaves a hole.
            following = min((it for it in own if it > base), default=position.last_index + 1)
            if _has_entry(each.source, base):
                continue
            found.append(
                Finding(
                    where=each.name,
                    kind="missing",
                    reason=f"the segment {segment_name(base)} is missing; other replicas have it",
                    place=segment_name(base),
                    first_index=base,
                    last_index=following - 1,
                )
            )
    return found


def _has_entry(source: LogSource, index: int) -> bool:
    try:
        chain_at(source, index)
    except StoreError:
        return False
    return True


def spread(spark: SparkSession, items: Sequence[object]) -> RDD[Any]:
    """Hand items to the workers: several to a task where there are many, for tasks cost too."""
    context = spark.sparkContext
    return context.parallelize(items, min(len(items), TASKS_PER_CORE * context.defaultParallelism))


_Digests = dict[str, dict[int, str]]
"""By replica and first index of a segment; sealed segments only."""


def _digests(
    spark: SparkSession, replicas: list[Replica], positions: dict[str, LogPosition], told: Told
) -> _Digests:
    found: _Digests = {each.name: {} for each in replicas}
    files: list[tuple[str, int, str]] = []
    remote = {it.name: it.source for it in replicas if isinstance(it.source, RemoteLog)}
    # Each node reads its own disk: side by side they take as long as one.
    with ThreadPoolExecutor(NODES_AT_ONCE) as threads:
        asked = {
            name: threads.submit(
                remote_digests, source, partial(told, name, len(positions[name].bases))
            )
            for name, source in remote.items()
        }
        for name, answer in asked.items():
            found[name] = answer.result()
    for each in replicas:
        source = each.source
        if isinstance(source, LogDirectory):
            files += [
                (each.name, base, str(source.journal / segment_name(base)))
                for base in positions[each.name].bases[:-1]
            ]
    if files:
        hashed = spread(spark, files).map(_hash_file).collect()
        for name, base, digest in hashed:
            if digest:
                found[name][base] = digest
    return found


def remote_digests(source: RemoteLog, told: Callable[[int], None]) -> dict[int, str]:
    """
    Ask a node for the digests of its sealed segments, by first index.

    It reads every file for that, which may take hours: it is asked for what it has after a few
    seconds, again and again, and `told` how many those are together.

    Raises:
        LinkError: The node does not answer, or its answers have no end.
    """
    found: dict[int, str] = {}
    pages = Pages(", ".join(source.addresses), seconds_max=inf)
    seen = 0
    after: str | int | None = 0
    while after is not None:
        path = f"/segments?after={after}&seconds={HASH_SECONDS}"
        answer = source.ask("GET", path, told={"segments": list})
        seen += len(answer["segments"])
        for segment in answer["segments"]:
            if segment["sealed"]:
                found[int(segment["base_index"])] = str(segment["digest"])
        told(seen)
        after = pages.next_behind(answer)  # nodes of before give all at once
    return found


def _hash_file(wanted: tuple[str, int, str]) -> tuple[str, int, str]:
    keep_loaded()
    name, base, path = wanted
    digest = blake2b(digest_size=32)
    try:
        with Path(path).open("rb", buffering=0) as file:
            while chunk := file.read(_READ_BYTES):
                digest.update(chunk)
    except OSError:
        return name, base, ""
    return name, base, digest.hexdigest()


def _parts(
    replicas: list[Replica],
    positions: dict[str, LogPosition],
    begins: dict[str, int],
    digests: _Digests,
    audit: ReplicaAudit,
) -> list[Part]:
    """Everything that must be proven: of copies known to be equal only the first."""
    parts: list[Part] = []
    proven: dict[tuple[int, int], set[str]] = {}
    for each in replicas:
        position = positions[each.name]
        own = digests[each.name]
        bases = [it for it in position.bases if it <= position.first_index]
        # Only the first part may begin within a segment: the others begin where one does.
        first_base = {position.first_index: bases[-1]} if bases else {}
        for first, last in split(position.first_index, position.last_index, position.bases):
            digest = own.get(first, "")
            known = proven.setdefault((first, last), set())
            if digest and digest in known:
                audit.segments_equal += 1
                continue
            if digest:
                known.add(digest)
            parts.append(Part(each, first, last, begins[each.name], first_base.get(first, first)))
    return parts


def lost_beginnings(
    positions: dict[str, LogPosition], cleaned_through: int, stores: Collection[str] = ()
) -> list[Finding]:
    """Logs that begin later than any record says they were cleaned: what is older is gone."""
    files = {name: segment_name(it.first_index) for name, it in positions.items()}
    files |= dict.fromkeys(stores, "")
    return [
        Finding(
            where=name,
            kind="missing",
            reason=f"{f'the segments before {files[name]}' if files[name] else 'older entries'} are"
            f" missing, and no record says that what lived in them was written again",
            place=files[name],
            first_index=cleaned_through + 1,
            last_index=it.first_index - 1,
        )
        for name, it in positions.items()
        if it.first_index - 1 > cleaned_through
    ]


def _diverged(replicas: list[Replica], proofs: list[Proof]) -> list[Finding]:
    """Parts that are sound in themselves and end differently: find where they part."""
    by_name = {each.name: each for each in replicas}
    ends: dict[int, list[Proof]] = {}
    for proof in proofs:
        if proof.chain_after and not proof.findings:
            ends.setdefault(proof.last_index, []).append(proof)
    for index in sorted(ends):
        first, *others = ends[index]
        for other in others:
            if other.chain_after == first.chain_after:
                continue
            low = max(first.first_index, other.first_index)
            pair = by_name[first.replica], by_name[other.replica]
            at = first_difference(*pair, low, index)
            return [
                Finding(
                    where=other.replica,
                    kind="diverged",
                    reason=f"it differs from {first.replica} from this entry on, and both are"
                    f" sound in themselves: two histories",
                    first_index=at,
                    last_index=index,
                )
            ]
    return []


def parted(
    replicas: list[Replica], positions: dict[str, LogPosition], *, is_told: bool = False
) -> list[Finding]:
    """
    Compare copies of different length where the shorter one ends; one finding for each that parts.

    The chain value there stands for all before it, so parts that end nowhere together need not.
    `is_told`: something was found already, be it why an entry cannot be read.

    Raises:
        StoreError: An entry cannot be read, of which no finding tells.
    """
    lasting = [each for each in replicas if _holds_entries(positions[each.name])]
    if not lasting:
        return []
    longest = max(lasting, key=lambda each: positions[each.name].last_index)
    found: list[Finding] = []
    for each in lasting:
        if each is not longest:
            told = is_told or bool(found)
            found += _parted_from(longest, each, positions, is_told=told)
    return found


def _holds_entries(position: LogPosition) -> bool:
    return position.first_index <= position.last_index


def _parted_from(
    longest: Replica, other: Replica, positions: dict[str, LogPosition], *, is_told: bool
) -> list[Finding]:
    known, position = positions[longest.name], positions[other.name]
    low = max(known.first_index, position.first_index)
    high = min(known.last_index, position.last_index)
    if low > high:
        reason = (
            f"it has no entry in common with {longest.name}, which begins with entry"
            f" {known.first_index:,}: that they are of one log cannot be told"
        )
        at = position.last_index
        return [
            Finding(where=other.name, kind="diverged", reason=reason, first_index=at, last_index=at)
        ]
    ends = {base - 1 for base in (*known.bases, *position.bases) if low < base <= high}
    for end in sorted({high, *ends}, reverse=True):
        try:
            if chain_at(longest.source, end) == chain_at(other.source, end):
                return []
            at = first_difference(longest, other, low, end)
        except StoreError:
            if not is_told:
                raise
            continue  # damaged there: a finding already
        return [
            Finding(
                where=other.name,
                kind="diverged",
                reason=f"it differs from {longest.name} from this entry on, and both are sound in"
                f" themselves: two histories",
                first_index=at,
                last_index=high,
            )
        ]
    return []


def first_difference(one: Replica, other: Replica, low: int, high: int) -> int:
    """Find the first entry whose chain value differs; it differs at `high`."""
    while low < high:
        middle = (low + high) // 2
        if chain_at(one.source, middle) == chain_at(other.source, middle):
            low = middle + 1
        else:
            high = middle
    return low


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    """Leave out what only repeats, entry by entry, that a whole segment is missing."""
    holes = [
        (it.where, it.first_index, it.last_index)
        for it in findings
        if it.kind == "missing" and it.reason.startswith("the segment")
    ]
    return [
        it
        for it in findings
        if it.reason.startswith("the segment")
        or it.kind != "missing"
        or not any(
            it.where == where and first <= it.first_index and it.last_index <= last
            for where, first, last in holes
        )
    ]
