"""
What makes a table name what the manifests name: files to add, files to remove.

A table lists data files a second time, for engines that know nothing of manifests. It is never
asked what is archived: it is brought from whatever it names to what the manifests name.

Invariants:
    No entry leaves the table unless files that stay or come hold it: a manifest that is lost or
    cannot be read takes no rows from whoever queries the table.

Pure: values only. Committing the change is the business of `archive_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.errors import ArchiveError
from holdfast.spark.manifests import ArchivedFile, Catalogue, Span, joined_spans


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """One commit of a table."""

    added: tuple[ArchivedFile, ...]
    removed: tuple[str, ...]
    """Paths."""
    rewritten: frozenset[str]
    """Paths of both whose entries the table has before and after: no change for who follows it."""

    @property
    def is_empty(self) -> bool:
        """Whether the table names what it should."""
        return not self.added and not self.removed


def change_of(catalogue: Catalogue, named: Mapping[str, Span | None]) -> TableChange:
    """
    Compare the manifests with the files that a table names.

    Args:
        named: What entries each file holds; None where the table does not say: it is not ours.

    Raises:
        ArchiveError: The manifests do not hold together, or lack what the table names.
    """
    for each in catalogue.breaks:
        if each.kind != "gap":
            raise ArchiveError(
                f"the archive is not whole, so its table stays as it is: {each};"
                f" run 'holdfast audit' to see everything that is wrong"
            )
    wanted = {file.path: file for file in catalogue.files()}
    added = tuple(file for path, file in wanted.items() if path not in named)
    removed = tuple(path for path in named if path not in wanted)
    spans = [named[path] for path in removed]
    gone = joined_spans(span for span in spans if span is not None)
    _check_still_archived(gone, catalogue)
    again = [file for file in added if any(_overlap(_span(file), span) for span in gone)]
    if None in spans or joined_spans(map(_span, again)) != gone:
        return TableChange(added=added, removed=removed, rewritten=frozenset())
    rewritten = frozenset([*removed, *(file.path for file in again)])
    return TableChange(added=added, removed=removed, rewritten=rewritten)


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
