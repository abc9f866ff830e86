"""
What an archive says of itself: a manifest per committed range, and what they add up to.

A data file counts only if a manifest that counts names it. So publishing the manifest, which is one
atomic act, is what makes a range part of the archive; what a killed job left behind is no part of
it. A manifest carries the log's chain value before and after its range, so two ranges that do not
belong together, or a range that is missing, show without reading a row.

Invariants:
    Ranges that count do not overlap: every entry is in at most one of them.
    A manifest that covers the ranges of others (compaction) rules; the others are superseded.
    No two manifests have one name, so none is written over another: two archivers that do not know
    of each other, be it of two clusters, take nothing from what the other one has published.

Pure: bytes and values. Reading and writing them is the business of `archive/store.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Final

from holdfast.errors import ArchiveError, LaterArchiveError
from holdfast.spark.log.source import NO_CHAIN

FORMAT: Final = 2
_PLAIN_NAMES: Final = 1
"""Of this format a manifest's name is its range alone."""
_KNOWN_FORMATS: Final = frozenset((_PLAIN_NAMES, FORMAT))

Span = tuple[int, int]
"""The first and the last of some entries that follow each other."""

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{20})(?:-[0-9a-f]{12})?\.json")
_NAME_DIGITS: Final = 12
"""So much of its digest stands in a manifest's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """One Parquet file: an unbroken range of entries of one day, one row per record."""

    path: str
    """Relative to the archive."""
    day: str
    first_index: int
    last_index: int
    rows: int
    messages: int
    bytes: int
    digest: str
    """Of all its bytes; see `file_digest`."""
    chain_before: str
    chain_after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One committed range of the log. Times in microseconds of log time."""

    cluster_id: str
    first_index: int
    last_index: int
    chain_before: str
    chain_after: str
    last_term: int
    first_record: int
    next_record: int
    first_timestamp: int
    last_timestamp: int
    messages: int
    log_bytes: int
    files: tuple[ArchivedFile, ...]
    queues: dict[int, str] = field(default_factory=dict)
    """Names of the queues declared in this range, by number."""
    cleaned_through: int = 0
    """The highest index that a record of this range says is written again further on."""
    complete_from: int = 0
    """The first entry in this range after which `cleaned_through` reaches its value."""
    written_by: str = ""
    format: int = FORMAT

    @property
    def name(self) -> str:
        """The manifest's file name: whoever writes another one of this range has another name."""
        return _name(_fields(self))

    @property
    def entries(self) -> int:
        """How many entries of the log it covers."""
        return self.last_index - self.first_index + 1

    @property
    def bytes(self) -> int:
        """Bytes of its data files."""
        return sum(file.bytes for file in self.files)


def is_named_otherwise(name: str) -> bool:
    """Whether a file beside the manifests may be one that a later program has named its own way."""
    return name.endswith(".json") and _NAME.fullmatch(name) is None


def range_of_name(name: str) -> Span | None:
    """Give the range a file name speaks of; None if it is no manifest's name."""
    found = _NAME.fullmatch(name)
    return (int(found.group(1)), int(found.group(2))) if found else None


def encode_manifest(manifest: Manifest) -> bytes:
    """Give the manifest as JSON that carries its own digest."""
    fields = _fields(manifest)
    fields["digest"] = _digest(fields)
    return json.dumps(fields, indent=1, sort_keys=True, ensure_ascii=False).encode()


def decode_manifest(data: bytes, name: str) -> Manifest:
    """
    Read a manifest; `name` is what to call it in an error.

    Raises:
        LaterArchiveError: It is of a format that only a later program knows.
        ArchiveError: It is not as it was written.
    """
    try:
        fields: dict[str, Any] = json.loads(data)
        is_whole = fields.pop("digest") == _digest(fields)
        if fields["format"] not in _KNOWN_FORMATS:
            raise _of_unknown_format(fields["format"], name, is_whole=is_whole)
        expected = _name(fields)
        if not is_whole:
            raise ArchiveError(f"manifest {name} was changed after it was written")
        fields["queues"] = {int(number): text for number, text in fields["queues"].items()}
        fields["files"] = tuple(ArchivedFile(**file) for file in fields["files"])
        manifest = Manifest(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"manifest {name} cannot be read: {error}") from error
    if expected != name:
        raise ArchiveError(f"manifest {name} is not the one of that name: it is {expected}")
    return manifest


def _of_unknown_format(found: object, name: str, *, is_whole: bool) -> ArchiveError:
    """A bit that flipped makes another format, too; then the digest does not fit."""
    if is_whole and isinstance(found, int) and found > FORMAT:
        return LaterArchiveError(
            f"a later version of Holdfast writes this archive: manifest {name} has format {found},"
            f" this program reads formats up to {FORMAT}. Use that version here, too; until then"
            f" nothing is read or changed"
        )
    return ArchiveError(
        f"manifest {name} was changed after it was written: it says format {found}, which is"
        f" none, or one of a later version of Holdfast"
    )


def _fields(manifest: Manifest) -> dict[str, Any]:
    fields = asdict(manifest)
    fields["queues"] = {str(number): name for number, name in sorted(manifest.queues.items())}
    return fields


def _name(fields: dict[str, Any]) -> str:
    """The name of the manifest of these fields, its digest not among them."""
    span = f"{fields['first_index']:020d}-{fields['last_index']:020d}"
    if fields["format"] == _PLAIN_NAMES:
        return f"{span}.json"
    return f"{span}-{_digest(fields)[:_NAME_DIGITS]}.json"


def _digest(fields: dict[str, Any]) -> str:
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return blake2b(canonical, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Break:
    """A place where the archive does not hold together."""

    kind: str
    """gap | chain | cluster | manifest | overlap"""
    first_index: int
    last_index: int
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The ranges that count, in order; where they do not hold together; what is superseded."""

    ranges: tuple[Manifest, ...] = ()
    breaks: tuple[Break, ...] = ()
    superseded: tuple[Manifest, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is archived yet."""
        return not self.ranges

    @property
    def first_index(self) -> int:
        """The first entry archived; 1 if there is none."""
        return self.ranges[0].first_index if self.ranges else 1

    @property
    def last_index(self) -> int:
        """The last entry archived; 0 if there is none."""
        return self.ranges[-1].last_index if self.ranges else 0

    @property
    def last(self) -> Manifest | None:
        """The newest range."""
        return self.ranges[-1] if self.ranges else None

    @property
    def cluster_id(self) -> str:
        """The cluster whose log this is; empty if nothing is archived."""
        return self.ranges[-1].cluster_id if self.ranges else ""

    @property
    def queues(self) -> dict[int, str]:
        """The names of all queues that were ever declared, by number."""
        names: dict[int, str] = {}
        for manifest in self.ranges:
            names |= manifest.queues
        return names

    @property
    def complete_from(self) -> int:
        """
        The first entry after which the state is known in full; 0 if it never is.

        A log that begins at entry 1 is complete from there. One that was cleaned before is
        complete once it says that everything older was written again.
        """
        if not self.ranges or self.first_index == 1:
            return self.first_index - 1 if self.ranges else 0
        for manifest in self.ranges:
            if manifest.cleaned_through >= self.first_index - 1:
                return manifest.complete_from
        return 0

    @property
    def damaged(self) -> tuple[Break, ...]:
        """What only manifests have that cannot be read: entries that no range has which counts."""
        return tuple(
            Break(each.kind, first, last, each.reason)
            for each in self.breaks
            if each.kind == "manifest"
            for first, last in self._lacking(each.first_index, each.last_index)
        )

    def _lacking(self, first_index: int, last_index: int) -> Iterator[Span]:
        """Of these entries those that no range has."""
        expected = first_index
        for each in self.ranges:
            if each.last_index >= expected and each.first_index <= last_index:
                if each.first_index > expected:
                    yield expected, each.first_index - 1
                expected = each.last_index + 1
        if expected <= last_index:
            yield expected, last_index

    def files(self, first_index: int = 0, last_index: int | None = None) -> list[ArchivedFile]:
        """Give the data files that hold entries of a range, in order."""
        return [
            file
            for manifest in self.ranges
            for file in manifest.files
            if file.last_index >= first_index
            and (last_index is None or file.first_index <= last_index)
        ]


def joined_spans(spans: Iterable[Span]) -> list[Span]:
    """Give the same entries in as few spans as there can be, in order."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def resolve(manifests: Iterable[Manifest], unreadable: Iterable[Break] = ()) -> Catalogue:
    """
    Find the ranges that count: of all ways through the manifests the one that reaches furthest.

    Of two ways that reach as far the one with fewer ranges rules: it is the compacted one. Of two
    of one range, which two archivers wrote, whoever looks chooses the same: by the name.
    `unreadable` are the manifests that could not be read, with the ranges of their names.
    """
    by_first: dict[int, list[Manifest]] = {}
    for manifest in manifests:
        by_first.setdefault(manifest.first_index, []).append(manifest)
    best = _best_ways(by_first)
    breaks = list(unreadable)
    ranges: list[Manifest] = []
    place = min(by_first, default=0)
    while place:
        chosen = best.get(place)
        if chosen is None:
            following = min((first for first in by_first if first > place), default=0)
            if following:
                reason = f"entries {place:,} to {following - 1:,} are missing from the archive"
                breaks.append(Break("gap", place, following - 1, reason))
            place = following
            continue
        if ranges and ranges[-1].last_index + 1 == chosen.first_index:
            breaks.extend(_seam(ranges[-1], chosen))
        ranges.append(chosen)
        place = chosen.last_index + 1
    kept = set(map(id, ranges))
    spare = [it for group in by_first.values() for it in group if id(it) not in kept]
    for each in spare:
        breaks.extend(_not_replaced(each, ranges))
    return Catalogue(tuple(ranges), tuple(breaks), tuple(spare))


def _best_ways(by_first: dict[int, list[Manifest]]) -> dict[int, Manifest]:
    """For each first index the manifest with which one gets furthest in the fewest ranges."""
    best: dict[int, Manifest] = {}
    reach: dict[int, tuple[int, int]] = {}
    for first in sorted(by_first, reverse=True):
        options = []
        for manifest in by_first[first]:
            end, count = reach.get(manifest.last_index + 1, (manifest.last_index, 0))
            options.append((end, count - 1, manifest.last_index, manifest))
        end, count, last, _ = max(options, key=lambda option: option[:3])
        equals = [option[3] for option in options if option[:3] == (end, count, last)]
        best[first] = equals[0] if len(equals) == 1 else min(equals, key=lambda it: it.name)
        reach[first] = (end, count)
    return best


def _seam(before: Manifest, after: Manifest) -> list[Break]:
    """What does not fit between two neighbouring ranges."""
    first, last = before.last_index, after.first_index
    if before.cluster_id != after.cluster_id:
        reason = (
            f"the range from entry {last:,} on is of cluster {after.cluster_id[:8]},"
            f" the one before it of {before.cluster_id[:8]}"
        )
        return [Break("cluster", first, last, reason)]
    if before.chain_after != after.chain_before:
        reason = (
            f"the chain is broken between entries {first:,} and {last:,}:"
            f" {before.chain_after} ends {before.name}, {after.chain_before} begins {after.name}"
        )
        return [Break("chain", first, last, reason)]
    return []


def _not_replaced(spare: Manifest, ranges: list[Manifest]) -> list[Break]:
    """What a range that does not count has and the ranges that count have not, or otherwise."""
    place, last = spare.first_index, spare.last_index
    over = [it for it in ranges if it.first_index <= last and it.last_index >= place]
    chains: dict[int, str] = {}
    for manifest in over:
        if manifest.cluster_id != spare.cluster_id:
            reason = f"{spare.name} and {manifest.name} are of two clusters and overlap"
            return [Break("cluster", place, last, reason)]
        pieces: tuple[Manifest | ArchivedFile, ...] = (manifest, *manifest.files)
        for piece in pieces:
            chains[piece.first_index - 1] = piece.chain_before
            chains[piece.last_index] = piece.chain_after
    for index, chain in ((place - 1, spare.chain_before), (last, spare.chain_after)):
        known = chains.get(index, NO_CHAIN)
        if NO_CHAIN not in {known, chain} and known != chain:
            reason = f"{spare.name} has chain {chain} after entry {index:,}, others have {known}"
            return [Break("chain", index, index, reason)]
    for manifest in over:
        if manifest.first_index <= place:
            place = manifest.last_index + 1
    if place <= last:
        reason = f"entries {place:,} to {last:,} stand only in {spare.name}, which overlaps others"
        return [Break("overlap", place, last, reason)]
    return []
