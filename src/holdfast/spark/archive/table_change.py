"""
What makes a table name what the manifests name: files to add, files to remove.

A table lists data files a second time, for engines that know nothing of manifests. It is never
asked what is archived: it is brought from whatever it names to what the manifests name.

Invariants:
    No entry leaves the table unless files that stay or come hold it: a manifest that is lost or
    cannot be read takes no rows from whoever queries the table.
    What the table says of a file is what its manifest says, or is said again.

Pure: values only. Committing the change is the business of `archive/table.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.errors import ArchiveError
from holdfast.spark.archive.manifests import ArchivedFile, Catalogue, Span, joined_spans

_PLAIN: Final = re.compile(r"[A-Za-z0-9/=._-]+")
"""What a path may have that Delta writes as it is; the rest it writes in percent signs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """
    What a table says of a file; nothing has a checksum there.

    Engines skip a file by this, or count its rows, without a look at it.
    """

    day: str
    bytes: int
    rows: int | None
    span: Span | None
    """What entries it holds; None where the table does not say: the file is not ours."""
    has_all: bool = True
    """Whether each of its rows is of an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """One commit of a table."""

    added: tuple[ArchivedFile, ...]
    removed: tuple[str, ...]
    """Paths."""
    rewritten: frozenset[str]
    """Paths of both whose entries the table has before and after: no change for who follows it."""
    corrected: int = 0
    """So many of the added are named already, but with what is not true of them."""

    @property
    def is_empty(self) -> bool:
        """Whether the table names what it should."""
        return not self.added and not self.removed


def change_of(catalogue: Catalogue, named: Mapping[str, NamedFile]) -> TableChange:
    """
    Compare the manifests with the files that a table names.

    Raises:
        ArchiveError: The manifests do not hold together, or lack what the table names; or it names
            what cannot be taken out of it.
    """
    for each in catalogue.breaks:
        if each.kind != "gap":
            raise ArchiveError(
                f"the archive is not whole, so its table stays as it is: {each};"
                f" run 'holdfast audit' to see everything that is wrong"
            )
    wanted = {file.path: file for file in catalogue.files()}
    added = tuple(file for path, file in wanted.items() if named.get(path) != _named(file))
    removed = tuple(path for path in named if path not in wanted)
    _check_removable(removed)
    spans = [named[path].span for path in removed]
    gone = joined_spans(span for span in spans if span is not None)
    _check_still_archived(gone, catalogue)
    again = [file for file in added if any(_overlap(_span(file), span) for span in gone)]
    rewritten = {file.path for file in added if file.path in named}
    corrected = len(rewritten)
    if None not in spans and joined_spans(map(_span, again)) == gone:
        rewritten |= {*removed, *(file.path for file in again)}
    return TableChange(
        added=added, removed=removed, rewritten=frozenset(rewritten), corrected=corrected
    )


def _check_removable(paths: Iterable[str]) -> None:
    for path in paths:
        if not _PLAIN.fullmatch(path):
            raise ArchiveError(
                f"the table names {path!r}, which is no file of the archive and cannot be taken"
                f" out of it. Remove the table's folder _delta_log to have it made anew"
            )


def _named(file: ArchivedFile) -> NamedFile:
    return NamedFile(day=file.day, bytes=file.bytes, rows=file.rows, span=_span(file))


def _check_still_archived(gone: list[Span], catalogue: Catalogue) -> None:
    archived = joined_spans((it.first_index, it.last_index) for it in catalogue.ranges)
    for first, last in gone:
        if not any(start <= first and last <= end for start, end in archived):
            raise ArchiveError(
                f"the table has entries {first:,} to {last:,}, which the manifests do not name any"
                f" more, so it stays as it is: bring back the manifests, or remove the table's"
                f" folder _delta_log to have it made anew"
            )


def _span(file: ArchivedFile) -> Span:
    return (file.first_index, file.last_index)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
