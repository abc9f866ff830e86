"""
What a directory is: a shared log, of which version, and which one.

Several brokers may start at once on an empty directory. Each writes what it would lay out to a file
of its own and links it to one name: the first link wins, and all read what it says.

Invariants:
    Whoever can read `store` finds everything else laid out.
    A directory that has anything else in it is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from holdfast.environment.shared_disk import SharedDisk
from holdfast.errors import StoreError, UnreachableError
from holdfast.shared.page import PAGE_BYTES, STORE
from holdfast.shared.places import Places

FORMAT = 1


def find_or_lay_out(disk: SharedDisk, places: Places, draw: Callable[[int], bytes] | None) -> str:
    """
    Return the log's id; choose one if the directory is empty.

    Args:
        draw: Gives so many random bytes; None if no log may be begun.

    Raises:
        StoreError: It is something else, of another version or damaged, or empty where no log may
            be begun; nothing was changed.
        UnreachableError: What says so cannot be seen, and something is there.
        OSError: It cannot be reached.
    """
    try:
        return read_identity(disk, places)
    except FileNotFoundError:
        if draw is None:
            raise StoreError(
                f"{places.root} has no log, and this broker belongs to one: see whether it is"
                " mounted, or get it back from a copy; to begin a new one, give this broker an"
                " empty --data"
            ) from None
        _lay_out(disk, places, draw(16).hex())
    return read_identity(disk, places)


def read_identity(disk: SharedDisk, places: Places) -> str:
    """
    Return the id of the log that is there.

    Raises:
        StoreError: It is something else, of another version or damaged.
        OSError: It cannot be read; `FileNotFoundError` if there is none.
    """
    file = disk.open(places.store, writable=False)
    try:
        page = file.read(PAGE_BYTES, 0)
    finally:
        file.close()
    try:
        fields = STORE.decode(page)
    except StoreError as error:
        raise StoreError(f"{places.store}: {error}") from error
    if fields is None:
        raise StoreError(
            f"{places.store} is damaged, or is not of Holdfast: get it back from a copy of the"
            " directory, or name an empty directory"
        )
    if fields["format"] != FORMAT:
        raise StoreError(
            f"{places.root} has format {fields['format']}, and this program knows {FORMAT}: start"
            " it with the version that wrote it"
        )
    return str(fields["log"])


def _lay_out(disk: SharedDisk, places: Places, identity: str) -> None:
    _require_empty(disk, places)
    for directory in (places.root, places.lease, places.journal, places.brokers):
        disk.make_directory(directory)
    disk.open(places.current, create=True).close()
    mine = places.root / f".store-{identity}"
    file = disk.open(mine, create=True)
    try:
        file.write(STORE.encode({"format": FORMAT, "log": identity}), 0)
        file.sync()
    finally:
        file.close()
    disk.sync_directory(places.root)
    with suppress(FileExistsError):  # Another was first, or the answer to our own try was lost.
        disk.link(mine, places.store)
    disk.unlink(mine)
    disk.sync_directory(places.root)


def _require_empty(disk: SharedDisk, places: Places) -> None:
    """Raise unless nothing was ever kept here, as far as can be seen."""
    if not disk.exists(places.root):
        return
    foreign = [name for name in disk.list_directory(places.root) if not places.is_ours(name)]
    if foreign:
        raise StoreError(
            f"{places.root} is no shared log and is not empty ('{foreign[0]}' is in it): name an"
            " empty directory, or one that a broker with `--shared` has made"
        )
    kept = [
        f"{directory.name}/{name}"
        for directory in (places.lease, places.journal)
        if disk.exists(directory)
        for name in disk.list_directory(directory)
    ]
    if kept and not disk.exists(places.store):
        raise UnreachableError(
            f"{places.store} cannot be seen, and '{kept[0]}' is there: if another broker has just"
            " laid it out, it is seen within a minute; else get it back from a copy"
        )
