"""
A copy of a log in the making, in a shared directory: what `store` says until it is whole.

The name is linked once, by a broker that lays out a log or by who copies to here. A copy's page has
a format that no broker serves, and the mark of what is copied; it becomes whole by a rename.

Invariants:
    A page of an ordinary log is never replaced, but by the very same page.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.environment.shared_disk import SharedDisk
from holdfast.leases.copies import CopyPlan, another_copy, another_log
from holdfast.shared.places import Places
from holdfast.shared.store_file import (
    FORMAT_COPYING,
    Origin,
    lay_out,
    read_store,
    write_page,
)


def begin(
    disk: SharedDisk, places: Places, plan: CopyPlan, draw: Callable[[int], bytes]
) -> tuple[Origin, bool]:
    """
    Lay out a directory for a copy, unless it is; give where it begins, and if it is to be finished.

    Raises:
        StoreError: Another log is there, or a part of another copy, or something else.
        UnreachableError: What says so cannot be seen, and something is there.
        OSError: It cannot be reached.
    """
    try:
        fields = read_store(disk, places)
    except FileNotFoundError:
        origin = Origin(plan.identity, plan.epoch_before, plan.anchor)
        begun = {**origin.fields(), "format": FORMAT_COPYING, "mark": plan.mark}
        lay_out(disk, places, begun, draw(16).hex())
        fields = read_store(disk, places)
    found = Origin.of(fields)
    if found.identity != plan.identity:
        raise another_log(str(places.root), found.identity, plan.identity)
    is_half = fields["format"] == FORMAT_COPYING
    if is_half and fields["mark"] != plan.mark:
        raise another_copy(str(places.root))
    return found, is_half


def finish(disk: SharedDisk, places: Places, origin: Origin, draw: Callable[[int], bytes]) -> None:
    """
    Let the directory be a log from now on; fine if it is already.

    Raises:
        OSError: It is not known whether it is done.
    """
    whole = write_page(disk, places, origin.fields(), draw(16).hex())
    disk.rename(whole, places.store)
    disk.sync_directory(places.root)
