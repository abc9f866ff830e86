"""
What goes from an archive: ranges that a merged one replaced, and files that no manifest names.

Both are judged by the manifests, so a manifest that is damaged or lost makes good data look as if
nobody needed it. Therefore nothing goes at once: it is moved to

    _set_aside/<when>/<path it had>

from where it can be moved back, and removed after a week.

Invariants:
    While the manifests do not hold together nothing is set aside and nothing is removed.
    A range is replaced only by files that were read and are what was archived.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.spark.archive_store import DATA, MANIFESTS, Archive
from holdfast.spark.manifests import Catalogue, Manifest

logger = logging.getLogger("holdfast.spark")

SET_ASIDE: Final = "_set_aside"
SET_ASIDE_DAYS: Final = 7
UNNAMED_SECONDS: Final = 24 * 3600
"""A file that no manifest names is what somebody is writing now, unless it is older. A commit takes
minutes; the rest is for clocks that differ."""

_WHEN: Final = "%Y%m%dT%H%M%SZ"


def sweep(archive: Archive, *, now_microseconds: int) -> int:
    """
    Set aside what killed jobs and finished compactions left; gives how many data files.

    What was set aside a week ago is removed. An archive that is not whole stays as it is.

    Raises:
        CorruptArchiveError: A file that replaces others is not what was archived.
    """
    catalogue = archive.catalogue()
    if not _may_go(archive, catalogue):
        return 0
    count = _retire(archive, catalogue, now_microseconds)
    named = {file.path for file in catalogue.files()}
    before = now_microseconds - UNNAMED_SECONDS * 1_000_000
    for found in list(archive.place.files(DATA)):
        if found.path not in named and found.modified_at < before:
            _set_aside(archive, found.path, now_microseconds)
            count += 1
    _remove_old(archive, now_microseconds)
    return count


def retire(archive: Archive, *, now_microseconds: int) -> int:
    """
    Set aside the ranges that merged ones replaced; gives how many data files.

    Raises:
        CorruptArchiveError: A file that replaces others is not what was archived.
    """
    catalogue = archive.catalogue()
    return _retire(archive, catalogue, now_microseconds) if _may_go(archive, catalogue) else 0


def _may_go(archive: Archive, catalogue: Catalogue) -> bool:
    if catalogue.breaks:
        logger.warning(
            "nothing is removed from the archive %s, which is not whole: %s",
            archive,
            catalogue.breaks[0],
        )
    # Without any manifest all data looks unneeded: rather a lost folder than an empty archive.
    return not catalogue.breaks and not catalogue.is_empty


def _retire(archive: Archive, catalogue: Catalogue, now_microseconds: int) -> int:
    gone = catalogue.superseded
    for manifest in catalogue.ranges:
        if any(_overlap(manifest, each) for each in gone):
            for file in manifest.files:
                archive.check(file)
    needed = {file.path for file in catalogue.files()}
    for manifest in gone:
        _set_aside(archive, f"{MANIFESTS}/{manifest.name}", now_microseconds)
    paths = {file.path for manifest in gone for file in manifest.files} - needed
    for path in sorted(paths):
        _set_aside(archive, path, now_microseconds)
    return len(paths)


def _overlap(one: Manifest, other: Manifest) -> bool:
    return one.first_index <= other.last_index and other.first_index <= one.last_index


def _set_aside(archive: Archive, path: str, now_microseconds: int) -> None:
    when = f"{_moment(now_microseconds):{_WHEN}}"
    archive.place.move(path, f"{SET_ASIDE}/{when}/{path}")


def _remove_old(archive: Archive, now_microseconds: int) -> None:
    before = _moment(now_microseconds) - timedelta(days=SET_ASIDE_DAYS)
    for found in list(archive.place.files(SET_ASIDE)):
        when = found.path.split("/")[1]
        try:
            moment = datetime.strptime(when, _WHEN).replace(tzinfo=UTC)
        except ValueError:
            continue  # not ours
        if moment < before:
            archive.place.remove(found.path)


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC)
