"""
Proving data files several at a time: whole, by the digests in their manifests.

Whoever names a file to somebody who cannot tell whether it is what was archived proves it before.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.store import Archive

FILES_AT_ONCE: Final = 8
"""Most of the time is a store's answer."""


def check_files(archive: Archive, files: Iterable[ArchivedFile]) -> None:
    """
    Read these files and compare them with their manifests.

    Raises:
        CorruptArchiveError: One is missing or not what was archived: the first of these.
        UnreadableArchiveError: The store does not give it.
    """
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        for _ in threads.map(archive.check, files):
            pass
