"""
What goes from an archive: ranges that a merged one replaced, and files that no manifest names.

Both are judged by the manifests, so a manifest that is damaged or lost makes good data look as if
nobody needed it. Therefore nothing goes at once: it is moved to

    _set_aside/<when>/<path it had>

from where it can be moved back, and removed after a week. Data files that a merged range replaced
stay where they are for a day more: whoever has read the manifests before is still reading them.
When that was, and which files they are, is told by their manifests, which are set aside at once.

A lost manifest shows by a gap only in the middle. So data files of entries before the first one
that is archived, and behind the last one, stay: the former are an audit's finding, and of the
latter what a killed job left goes once the archive has gone on past it.

Invariants:
    While the manifests do not hold together nothing is set aside and nothing is removed.
    A range is replaced only by files that were read and are what was archived.
    It goes only if one other range has all of it. So whoever else lets something go at the same
    time, and knows of other ranges, what some range had some range has.
    No file goes that the newest version of the archive's table names, see `archive/table.py`.
"""

from __future__ import annotations

import logging
import posixpath
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.errors import ArchiveError
from holdfast.model.digits import NAME_DIGITS, read_digits
from holdfast.spark.archive.manifest_reader import MANIFESTS, Look, ManifestReader
from holdfast.spark.archive.manifests import Catalogue, Manifest, Span, joined_spans, range_of_name
from holdfast.spark.archive.places import DRAFT_MARK
from holdfast.spark.archive.range_writer import DATA
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.table import table_files

logger = logging.getLogger("holdfast.spark")

SET_ASIDE: Final = "_set_aside"
SET_ASIDE_DAYS: Final = 7
UNNAMED_SECONDS: Final = 24 * 3600
"""A file that no manifest names is what somebody is writing now, unless it is older. A commit takes
minutes; the rest is for clocks that differ."""

KEEP_SECONDS: Final = 24 * 3600
"""How long the data files of a range that was replaced stay for those who are reading them."""

_WHEN: Final = "%Y%m%dT%H%M%SZ"


def sweep(
    archive: Archive,
    *,
    now_microseconds: int,
    keep_seconds: float = KEEP_SECONDS,
    reader: ManifestReader | None = None,
) -> int:
    """
    Set aside what killed jobs and finished compactions left; gives how many data files.

    What was set aside a week ago is removed. An archive that is not whole stays as it is.

    Args:
        keep_seconds: How long files of a range that was replaced stay for who reads them.
        reader: What knows of the manifests afterwards what was found now.

    Raises:
        CorruptArchiveError: A file that replaces others is not what was archived.
    """
    look = (reader or archive.reader()).look(proving=True)
    catalogue = look.catalogue
    if not _may_go(archive, catalogue):
        return 0
    _check_replacements(archive, catalogue)
    now_microseconds = _not_set_back(look, now_microseconds)
    # Before anything is set aside: a full disk has no room for the folders that this takes.
    _remove_old(archive, now_microseconds, timedelta(seconds=keep_seconds))
    _set_superseded_aside(archive, catalogue, now_microseconds)
    _set_drafts_aside(archive, look, now_microseconds)
    return _set_unnamed_aside(archive, catalogue, now_microseconds, keep_seconds)


def _set_unnamed_aside(
    archive: Archive, catalogue: Catalogue, now_microseconds: int, keep_seconds: float
) -> int:
    """Set data files aside that neither manifests nor the table name; gives how many."""
    try:
        named = {file.path for file in catalogue.files()} | table_files(archive)
    except ArchiveError as error:
        logger.warning("no data file is removed from the archive %s: %s", archive, error)
        return 0
    kept = _still_read(archive, _moment(now_microseconds) - timedelta(seconds=keep_seconds))
    before = now_microseconds - UNNAMED_SECONDS * 1_000_000
    count = 0
    for found in list(archive.place.files(DATA)):
        is_old = found.modified_at < before and found.path not in named
        is_inside = starts_within(found.path, (catalogue.first_index, catalogue.last_index))
        if is_old and is_inside and not any(starts_within(found.path, each) for each in kept):
            _set_aside(archive, found.path, now_microseconds)
            count += 1
    return count


def _set_drafts_aside(archive: Archive, look: Look, now_microseconds: int) -> None:
    """Whoever was killed while it published left a file that is no manifest, nor a snapshot."""
    before = now_microseconds - UNNAMED_SECONDS * 1_000_000
    for found in look.files:
        is_draft = posixpath.basename(found.path).startswith(DRAFT_MARK)
        if is_draft and found.modified_at < before:
            _set_aside(archive, found.path, now_microseconds)


def retire(archive: Archive, *, now_microseconds: int, reader: ManifestReader | None = None) -> int:
    """
    Take the ranges that merged ones replaced out of the archive; gives how many.

    Their manifests are set aside, their data files are left to `sweep`.

    Raises:
        CorruptArchiveError: A file that replaces others, or its manifest, is not what it was.
    """
    look = (reader or archive.reader()).look()
    catalogue = look.catalogue
    if not _may_go(archive, catalogue):
        return 0
    _check_replacements(archive, catalogue)
    return _set_superseded_aside(archive, catalogue, _not_set_back(look, now_microseconds))


def _may_go(archive: Archive, catalogue: Catalogue) -> bool:
    if catalogue.breaks:
        logger.warning(
            "nothing is removed from the archive %s, which is not whole: %s",
            archive,
            catalogue.breaks[0],
        )
    # Without any manifest all data looks unneeded: rather a lost folder than an empty archive.
    return not catalogue.breaks and not catalogue.is_empty


def _not_set_back(look: Look, now_microseconds: int) -> int:
    """
    Give the time, by a clock that may have been set back: it is no earlier than any manifest's.

    What was set aside in a past that never was would go at once, under those who read it.
    """
    return max([now_microseconds, *(found.modified_at for found in look.files)])


def _check_replacements(archive: Archive, catalogue: Catalogue) -> None:
    """Read what replaces others, as it must be what was archived."""
    for manifest in catalogue.ranges:
        if any(_overlap(manifest, each) for each in catalogue.superseded):
            archive.check_manifest(manifest)
            for file in manifest.files:
                archive.check(file)


def _set_superseded_aside(archive: Archive, catalogue: Catalogue, now_microseconds: int) -> int:
    count = 0
    for manifest in catalogue.superseded:
        if any(_holds(each, manifest) for each in catalogue.ranges):
            count += 1
            _set_aside(archive, f"{MANIFESTS}/{manifest.name}", now_microseconds)
    return count


def _still_read(archive: Archive, since: datetime) -> list[Span]:
    """The ranges whose manifests were set aside after this moment, neighbours as one."""
    found: list[Span] = []
    for file in archive.place.files(SET_ASIDE):
        moment, span = _moment_of(file.path), range_of_name(posixpath.basename(file.path))
        if span is not None and moment is not None and moment > since:
            found.append(span)
    return joined_spans(found)


def starts_within(path: str, span: Span) -> bool:
    """Whether a data file begins in this range; its name tells where it begins, if it is ours."""
    start = read_digits(posixpath.basename(path).partition("-")[0], NAME_DIGITS)
    return start is not None and span[0] <= start <= span[1]


def unnamed_before(archive: Archive, catalogue: Catalogue) -> list[str]:
    """Give the data files of entries before the first one that a manifest tells of."""
    span = (1, catalogue.first_index - 1)
    return [found.path for found in archive.place.files(DATA) if starts_within(found.path, span)]


def _overlap(one: Manifest, other: Manifest) -> bool:
    return one.first_index <= other.last_index and other.first_index <= one.last_index


def _holds(one: Manifest, other: Manifest) -> bool:
    """Whether a range has all of another one."""
    return one.first_index <= other.first_index and other.last_index <= one.last_index


def _set_aside(archive: Archive, path: str, now_microseconds: int) -> None:
    when = f"{_moment(now_microseconds):{_WHEN}}"
    archive.place.move(path, f"{SET_ASIDE}/{when}/{path}")


def _remove_old(archive: Archive, now_microseconds: int, keep: timedelta) -> None:
    # Manifests that were set aside tell which files are still read.
    before = _moment(now_microseconds) - max(timedelta(days=SET_ASIDE_DAYS), keep)
    for found in list(archive.place.files(SET_ASIDE)):
        moment = _moment_of(found.path)
        if moment is not None and moment < before:
            archive.place.remove(found.path)


def _moment_of(path: str) -> datetime | None:
    """When a file was set aside; None if it is none of ours."""
    try:
        return datetime.strptime(path.split("/")[1], _WHEN).replace(tzinfo=UTC)
    except ValueError:
        return None


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC)
