"""
Whether a log is still the one that an archive is of.

A cluster that was promoted by force, or put back to an older copy, may have lost entries that are
in the archive already, and have others in their place. What comes after those must not be added. A
node that is only behind has the same entries, fewer of them: it is waited for.
"""

from __future__ import annotations

from holdfast.errors import ArchiveError
from holdfast.spark.archive.manifests import Catalogue
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.proof import chain_at
from holdfast.spark.log.source import LogPosition, LogSource
from holdfast.spark.source.continuity import chain_after


def check_same_log(
    source: LogSource, archive: Archive, catalogue: Catalogue, position: LogPosition
) -> None:
    """
    Compare the last entry that both have, whose chain value stands for all before it.

    Nothing is proven where they have none in common, nor by a log that cannot tell.

    Raises:
        ArchiveError: They have different entries there.
        LinkError: No node answers.
    """
    end = catalogue.last
    if end is None or position.last_index < position.first_index:
        return
    index = min(end.last_index, position.last_index)
    if index < catalogue.first_index:
        return
    found = chain_after(source, position, index)
    if not found:
        return
    archived = end.chain_after
    if index < end.last_index:
        archived = chain_at(ArchivedSource(archive, catalogue), index)
    if found != archived:
        generation = f", now in generation {position.generation}," if position.generation else ""
        raise ArchiveError(
            f"the log is not the one that is archived in {archive}: entry {index:,} is another one"
            f" there. The cluster{generation} was promoted by force or put back to an older copy,"
            f" and lost entries that the archive has (up to {end.last_index:,}); nothing was added."
            f" Keep that archive, and archive this log with another --to"
        )
