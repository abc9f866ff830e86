"""
A power cut after the fact: what the disk would hold, made from what the kernel holds.

The interposed layer (`durable_image.c`) keeps beside a data folder what IS durable of it: an image
of every changed file, and a tree of names. Whatever differs from these when the process is dead
was not synced, and any part of it may have reached the platter: each 512-byte sector for itself,
and each change of names. This module draws which, and makes the folder so.

Invariants:
    What was durable stays, and a sector or a name is either the durable one or the last one.
    A rename happened or did not: names that changed together are kept or undone together.
    The same seed and the same two states give the same folder.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from random import Random

SECTOR_BYTES: Final = 512

_CHUNK_BYTES: Final = 1 << 20
_MARKS_SUFFIX: Final = ".marks"
# How often all, or nothing, of the unsynced is lost: what most power cuts do, and the two extremes.
_ALL_LOST: Final = 0.3
_ALL_KEPT: Final = 0.15

Names = dict[str, int]
"""Inodes by path from the folder's root."""


@dataclass(slots=True)
class PowerCut:
    """What a power cut did. Sectors are of 512 bytes; paths are relative to the data folder."""

    sectors_lost: int = 0
    """Written, not synced, and gone."""

    sectors_kept: int = 0
    """Written, not synced, and there all the same."""

    files_changed: list[str] = field(default_factory=list)
    """Files that lost sectors or have another size now."""

    names_undone: list[str] = field(default_factory=list)
    """Creations, removals and renames that did not happen."""

    names_kept: list[str] = field(default_factory=list)
    """Those that happened although their directory was not synced."""

    @property
    def is_harmless(self) -> bool:
        """Whether the folder is just as the process left it."""
        return not (self.files_changed or self.names_undone)

    def __str__(self) -> str:
        text = f"{self.sectors_lost:,} sectors lost and {self.sectors_kept:,} kept of what was"
        names = f", undone: {', '.join(self.names_undone)}" if self.names_undone else ""
        return f"{text} not synced{names}"

    def to_json(self) -> dict[str, Any]:
        """Give all of it as plain values."""
        return asdict(self)


def link_names(data: Path, tree: Path) -> None:
    """Make `tree` show the names in `data` as they are: directories, and hard links to files."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    if data.is_dir():
        _link_directory(data, tree)


def cut_power(data: Path, tree: Path, images: Path, randomness: Random) -> PowerCut:
    """
    Make `data` what a disk would hold, given its durable names and images; nothing runs in it.

    Neither `tree` nor `images` says anything about the folder any more afterwards.
    """
    cut = PowerCut()
    if not data.is_dir():
        return cut
    loss = _draw_loss(randomness)
    _restore_names(data, tree, loss, randomness, cut)
    seen: set[int] = set()
    for path in _files(data):
        status = path.lstat()
        if status.st_ino not in seen and stat.S_ISREG(status.st_mode):
            seen.add(status.st_ino)
            name = str(path.relative_to(data))
            is_new = not (images / f"{status.st_ino}{_MARKS_SUFFIX}").exists()
            if is_new and status.st_nlink > 1:
                continue  # never changed
            image = None if is_new else images / str(status.st_ino)
            _restore_file(path, name, image, _draw_loss(randomness, loss), randomness, cut)
    return cut


def _draw_loss(randomness: Random, general: float | None = None) -> float:
    """Draw the share of the unsynced that is lost; a file may differ from the rest."""
    if general is not None and (general in (0.0, 1.0) or randomness.random() < 0.5):
        return general
    kind = randomness.random()
    if kind < _ALL_LOST:
        return 1.0
    if kind < _ALL_LOST + _ALL_KEPT:
        return 0.0
    return randomness.uniform(0.05, 0.95)


# Names ----------------------------------------------------------------------------------------


def _link_directory(source: Path, target: Path) -> None:
    for entry in os.scandir(source):
        if entry.is_dir(follow_symlinks=False):
            (target / entry.name).mkdir()
            _link_directory(Path(entry.path), target / entry.name)
        else:
            os.link(entry.path, target / entry.name, follow_symlinks=False)


def _files(folder: Path) -> Iterator[Path]:
    for directory, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield Path(directory) / name


def _directories(folder: Path) -> set[str]:
    found = (Path(directory) for directory, _, _ in os.walk(folder))
    return {str(directory.relative_to(folder)) for directory in found} - {"."}


def _names(folder: Path) -> Names:
    return {str(path.relative_to(folder)): path.lstat().st_ino for path in _files(folder)}


def _restore_names(data: Path, tree: Path, loss: float, randomness: Random, cut: PowerCut) -> None:
    undone, gone = _restore_directories(data, tree, loss, randomness, cut)
    durable, live = _names(tree), _names(data)
    # An unsynced directory that stays: names in it may have been synced before its own.
    changed = sorted(name for name in durable.keys() | live.keys() if _differs(name, durable, live))
    changed = [name for name in changed if not _is_below(name, gone)]
    for group in _groups(changed, durable, live):
        is_forced = any(_is_below(name, undone) for name in group)
        if not is_forced and (
            _was_half_removed(group, durable, live) or randomness.random() > loss
        ):
            cut.names_kept += group
            continue
        cut.names_undone += group
        for name in group:
            _restore_name(data / name, tree / name if name in durable else None)
    for name in sorted(undone, reverse=True):
        (data / name).rmdir()


def _differs(name: str, durable: Names, live: Names) -> bool:
    return durable.get(name) != live.get(name)


def _is_below(name: str, directories: Iterable[str]) -> bool:
    return any(name.startswith(f"{directory}/") for directory in directories)


def _restore_directories(
    data: Path, tree: Path, loss: float, randomness: Random, cut: PowerCut
) -> tuple[set[str], set[str]]:
    """Decide on unsynced directories: (those whose creation is undone, those gone for good)."""
    durable, live = _directories(tree), _directories(data)
    undone: set[str] = set()
    gone: set[str] = set()
    for name in sorted(live - durable):
        if _is_below(name, undone) or randomness.random() < loss:
            undone.add(name)
            cut.names_undone.append(name)
        else:
            cut.names_kept.append(name)
            early = tree.parent / "early" / str((data / name).lstat().st_ino)
            if early.is_dir() and (tree / name).parent.is_dir():
                early.rename(tree / name)
    for name in sorted(durable - live):
        if _is_below(name, gone) or randomness.random() >= loss:
            gone.add(name)
            cut.names_kept.append(name)
        else:
            (data / name).mkdir(exist_ok=True)
            cut.names_undone.append(name)
    return undone, gone


def _groups(changed: list[str], durable: Names, live: Names) -> list[list[str]]:
    """
    Put names together that one rename changed: they share a file, before or after.

    `a` renamed over `b` changes both names, and leaves out the old file of `b`.
    """
    names_of: dict[int, list[str]] = {}
    for name in changed:
        for state in (durable, live):
            if name in state:
                names_of.setdefault(state[name], []).append(name)
    groups: list[list[str]] = []
    left = dict.fromkeys(changed)
    while left:
        group: list[str] = []
        waiting = [next(iter(left))]
        while waiting:
            name = waiting.pop()
            if name in left:
                del left[name]
                group.append(name)
                inodes = [state[name] for state in (durable, live) if name in state]
                waiting += [other for inode in inodes for other in names_of[inode]]
        groups.append(sorted(group))
    return groups


def _was_half_removed(group: list[str], durable: Names, live: Names) -> bool:
    """
    Tell whether a sync of the directory was killed between the two halves of a rename.

    The new name was noted as durable, the old one not yet removed. No journaling file system
    shows a file under both.
    """
    kept = {inode for name, inode in live.items() if durable.get(name) == inode}
    return any(name in durable and durable[name] in kept for name in group)


def _restore_name(path: Path, durable: Path | None) -> None:
    path.unlink(missing_ok=True)
    if durable is not None:
        os.link(durable, path, follow_symlinks=False)


# Contents -------------------------------------------------------------------------------------


def _restore_file(
    path: Path, name: str, image: Path | None, loss: float, randomness: Random, cut: PowerCut
) -> None:
    """Give back each sector that was lost; the size is that of some moment in between."""
    with path.open("r+b", buffering=0) as live:
        durable = image.open("rb", buffering=0) if image else None
        try:
            live_size = os.fstat(live.fileno()).st_size
            durable_size = os.fstat(durable.fileno()).st_size if durable else 0
            size = _draw_size(durable_size, live_size, loss, randomness)
            before = cut.sectors_lost
            for offset in range(0, max(live_size, durable_size), _CHUNK_BYTES):
                then = os.pread(durable.fileno(), _CHUNK_BYTES, offset) if durable else b""
                _restore_chunk(live.fileno(), then, offset, loss, randomness, cut)
        finally:
            if durable:
                durable.close()
        os.ftruncate(live.fileno(), size)
        if cut.sectors_lost > before or size != live_size:
            cut.files_changed.append(name)


def _draw_size(durable: int, live: int, loss: float, randomness: Random) -> int:
    if durable == live or loss == 0.0:
        return live
    if loss == 1.0:
        return durable
    low, high = sorted((durable, live))
    between = randomness.randrange(low, high + 1) // SECTOR_BYTES * SECTOR_BYTES
    return randomness.choice((durable, live, max(low, between)))


def _restore_chunk(
    descriptor: int, durable: bytes, offset: int, loss: float, randomness: Random, cut: PowerCut
) -> None:
    now = os.pread(descriptor, _CHUNK_BYTES, offset)
    if now == durable:
        return
    length = max(len(now), len(durable))
    now, durable = now.ljust(length, b"\0"), durable.ljust(length, b"\0")
    for start in range(0, length, SECTOR_BYTES):
        then = durable[start : start + SECTOR_BYTES]
        if then == now[start : start + SECTOR_BYTES]:
            continue
        if randomness.random() < loss:
            cut.sectors_lost += 1
            os.pwrite(descriptor, then, offset + start)
        else:
            cut.sectors_kept += 1
