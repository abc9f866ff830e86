"""
The directories of a node that has several: taken at start, and what an operator may ask of them.

A node with one directory that is of no set has none of this, and pays nothing for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import structlog

from holdfast.config.node import NodeConfig
from holdfast.environment.disk import Disk
from holdfast.environment.standing_disk import StandingDisk
from holdfast.errors import MirrorError
from holdfast.journal.rescue import rescued
from holdfast.mirrors.caretaker import Caretaker
from holdfast.mirrors.lanes import Lanes, ThreadLanes
from holdfast.mirrors.opening import MirrorOpening, is_of_a_set
from holdfast.mirrors.settings import MirrorSettings
from holdfast.server.mirrored_log import equalize

log = structlog.get_logger("holdfast.server")


def open_mirrors(config: NodeConfig, disk: Disk) -> Caretaker | None:
    """
    Take the directories of a node that has several, or one that is of a set; None for others.

    Raises:
        MirrorError: They are not of one set, too few of them are there, or their logs differ.
        StoreError: One is locked, or no log can be served.
    """
    directories = [it.absolute() for it in (config.data, *config.mirrors)]
    if len(directories) == 1 and not is_of_a_set(config.data, disk):
        return None
    caretaker = open_set(directories, disk, config.sections.mirrors)
    _warn_of_one_disk([it.directory for it in caretaker.disk.keeper.targets])
    return caretaker


def open_set(directories: Sequence[Path], disk: Disk, settings: MirrorSettings) -> Caretaker:
    """
    Take the directories of a set, or of a new one; see `MirrorOpening.open`.

    Raises:
        MirrorError: They are not of one set, too few of them are there, or their logs differ.
        StoreError: One is locked, or no log can be served.
    """
    lanes: Lanes = ThreadLanes(settings.timeout_seconds)
    opening = MirrorOpening(
        directories,
        lambda _directory: StandingDisk(disk),
        settings,
        equalize=equalize,
        rescued=rescued,
        lanes=lanes,
        new_id=lambda: secrets.token_hex(8),
    )
    return opening.open()


def change_mirror(caretaker: Caretaker | None, action: str, directory: str, by: str) -> None:
    """
    Disable, enable or replace one of a running node's directories; blocks.

    Raises:
        MirrorError: It is none, or may not be changed so.
    """
    if caretaker is None:
        raise MirrorError(
            f"this node has one directory; start it with --data for each of several, {directory}"
            f" among them"
        )
    if not Path(directory).is_absolute() or (action == "replace" and not Path(by).is_absolute()):
        given = directory if action != "replace" else f"{directory} and {by}"
        raise MirrorError(
            f"name directories by their whole path, and not as {given}: the node stands elsewhere"
        )
    try:
        if action == "disable":
            caretaker.disable(Path(directory))
        elif action == "enable":
            caretaker.enable(Path(directory))
        else:
            caretaker.replace(Path(directory), Path(by))
    except OSError as error:
        raise MirrorError(
            f"{directory}: {error.strerror or error}; 'holdfast mirror status' tells how each"
            f" mirror is now"
        ) from error


def _warn_of_one_disk(directories: Sequence[Path]) -> None:
    devices: dict[int, Path] = {}
    for directory in directories:
        try:
            device = directory.stat().st_dev
        except OSError:
            continue
        if device in devices:
            log.warning(
                "two mirrors are on one file system: a disk that fails takes both",
                first=str(devices[device]),
                second=str(directory),
            )
        devices.setdefault(device, directory)
