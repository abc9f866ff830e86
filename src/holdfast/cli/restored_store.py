"""
`holdfast restore --to-store`: what was restored to a directory is copied to a store.

The directory is a draft below TMPDIR, made and read back as any restore's, and goes at the end. The
copy is made as by `holdfast store copy`: into an empty place, read back and compared, and nothing
that a broker serves before all of it is there.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.copying.copy import Copied, copy
from holdfast.copying.directory_source import DirectorySource
from holdfast.copying.leased import LeasedTarget, require_empty
from holdfast.copying.places import LogPlace, parse_place
from holdfast.environment.disk import RealDisk
from holdfast.errors import ConfigError


def empty_store(text: str) -> LogPlace:
    """
    Give the store at an address, which has nothing yet.

    Raises:
        ConfigError: It is no address of a store; no sentence repeats what may be a password.
        StoreError: A log is there, or a part of one; or it cannot be reached.
    """
    place = parse_place(text)
    if place.databases:
        told = (
            "--to-store: several databases are filled by the brokers themselves: name one of them,"
            " and start the brokers with a --store for each, the others empty"
        )
        raise ConfigError([told])
    if place.open_medium is None:
        raise ConfigError(
            [f"--to-store: {text} is a directory of a node's own: name it with --to instead"]
        )
    require_empty(place.open_medium())
    return place


def copy_to_store(directory: Path, place: LogPlace) -> tuple[Copied, str]:
    """
    Copy a restored directory; give what was copied, and where to.

    Raises:
        StoreError: The store is not empty any more, full, or cannot be reached.
    """
    assert place.open_medium is not None, "it was looked at before"
    target = LeasedTarget(place.open_medium(), place.start)
    try:
        source = DirectorySource(directory, RealDisk())
        try:
            return copy(source, target), target.place
        finally:
            source.close()
    finally:
        target.close()
