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
from dataclasses import dataclass
from pathlib import Path

from holdfast.environment.shared_disk import SharedDisk
from holdfast.errors import StoreError, UnreachableError
from holdfast.journal.entry import FIRST_CHAIN, Entry, parse_entry
from holdfast.leases.contract import Place
from holdfast.leases.copies import half_copy, no_log
from holdfast.shared.page import PAGE_BYTES, STORE, Fields
from holdfast.shared.places import Places

FORMAT = 1
FORMAT_OF_COPY = 2
"""Of a directory that began as a copy: its epochs do not begin with 1, nor its entries perhaps."""

FORMAT_COPYING = 3
"""Of a copy that is not whole."""

_KNOWN = (FORMAT, FORMAT_OF_COPY, FORMAT_COPYING)


@dataclass(frozen=True, slots=True)
class Origin:
    """Which log a directory is of, and where it begins there."""

    identity: str
    epoch_before: int = 0
    """Its epochs begin behind this one."""

    anchor: Entry | None = None
    """What stands for all entries before; None if there were none."""

    @property
    def place(self) -> Place:
        """Where the log ends before anything was stored here."""
        anchor = self.anchor
        return Place(0, FIRST_CHAIN) if anchor is None else Place(anchor.index, anchor.chain)

    @property
    def term(self) -> int:
        """The term of the entry before."""
        return 0 if self.anchor is None else self.anchor.term

    @property
    def first_index(self) -> int:
        """The first entry that is kept."""
        return 1 if self.anchor is None else self.anchor.index

    def fields(self) -> Fields:
        """Give what the page of an ordinary log says of it."""
        if self.anchor is None and not self.epoch_before:
            return {"format": FORMAT, "log": self.identity}
        return {
            "format": FORMAT_OF_COPY,
            "log": self.identity,
            "epoch_before": self.epoch_before,
            "anchor": "" if self.anchor is None else self.anchor.raw.hex(),
        }

    @classmethod
    def of(cls, fields: Fields) -> Origin:
        """Read it from a page."""
        raw = bytes.fromhex(fields.get("anchor", ""))
        return cls(
            str(fields["log"]),
            int(fields.get("epoch_before", 0)),
            parse_entry(raw) if raw else None,
        )


def find_or_lay_out(
    disk: SharedDisk, places: Places, draw: Callable[[int], bytes] | None
) -> Origin:
    """
    Return which log this is; choose an id if the directory is empty.

    Args:
        draw: Gives so many random bytes; None if no log may be begun.

    Raises:
        StoreError: It is something else, of another version or damaged, or a copy that is not
            whole, or empty where no log may be begun; nothing was changed.
        UnreachableError: What says so cannot be seen, and something is there.
        OSError: It cannot be reached.
    """
    try:
        return _served(disk, places)
    except FileNotFoundError:
        if draw is None:
            raise StoreError(
                f"{places.root} has no log, and this broker belongs to one: see whether it is"
                " mounted, or get it back from a copy; to begin a new one, give this broker an"
                " empty --data"
            ) from None
        identity = draw(16).hex()
        lay_out(disk, places, Origin(identity).fields(), identity)
        return _served(disk, places)


def find(disk: SharedDisk, places: Places) -> Origin:
    """
    Return which log this is.

    Raises:
        StoreError: There is none; or see `find_or_lay_out`.
        OSError: It cannot be reached.
    """
    try:
        return _served(disk, places)
    except FileNotFoundError:
        raise no_log(str(places.root)) from None


def read_identity(disk: SharedDisk, places: Places) -> str:
    """Return the id of the log that is there, whatever becomes of it; see `read_store`."""
    return str(read_store(disk, places)["log"])


def _served(disk: SharedDisk, places: Places) -> Origin:
    fields = read_store(disk, places)
    if fields["format"] == FORMAT_COPYING:
        raise half_copy(str(places.root))
    return Origin.of(fields)


def read_store(disk: SharedDisk, places: Places) -> Fields:
    """
    Read what the directory is.

    Raises:
        FileNotFoundError: Nothing was laid out yet.
        StoreError: The file is damaged, or of another version.
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
    if fields["format"] not in _KNOWN:
        raise StoreError(
            f"{places.root} has format {fields['format']}, and this program knows {FORMAT} to"
            f" {_KNOWN[-1]}: start it with the version that wrote it"
        )
    return fields


def lay_out(disk: SharedDisk, places: Places, fields: Fields, token: str) -> None:
    """Make all that a log needs in an empty directory, and then the file that says what it is."""
    _require_empty(disk, places)
    for directory in (places.root, places.lease, places.journal, places.brokers):
        disk.make_directory(directory)
    disk.open(places.current, create=True).close()
    mine = write_page(disk, places, fields, token)
    with suppress(FileExistsError):  # Another was first, or the answer to our own try was lost.
        disk.link(mine, places.store)
    disk.unlink(mine)
    disk.sync_directory(places.root)


def write_page(disk: SharedDisk, places: Places, fields: Fields, token: str) -> Path:
    """Write what is to be `store`, durably, under a name that nobody looks at."""
    mine = places.root / f".store-{token}"
    file = disk.open(mine, create=True)
    try:
        file.write(STORE.encode(fields), 0)
        file.sync()
    finally:
        file.close()
    disk.sync_directory(places.root)
    return mine


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
