"""
What cannot work is said before Spark starts, which takes seconds and tells it in pages.

Only what a look tells: that a place exists, that a folder can be written to, that a name is known.
What is in an object store is not looked at: its settings may be Spark's own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.spark.log.source import LogPosition

CODECS = ("snappy", "zstd", "lz4", "gzip", "brotli", "none")


def check_archive_to(path: str, compression: str) -> None:
    """
    Make sure that an archive can be written there.

    Raises:
        ConfigError: It cannot.
    """
    problems = []
    if compression not in CODECS:
        known = ", ".join(CODECS)
        problems.append(f"--compression: {compression!r} is not known; there are {known}")
    folder = _local(path, "--to")
    if folder is not None:
        above = next(each for each in (folder, *folder.parents) if each.exists())
        if not above.is_dir():
            problems.append(f"--to: {above} is a file, not a folder")
        elif not os.access(above, os.W_OK | os.X_OK):
            problems.append(f"--to: {above} cannot be written to")
    if problems:
        raise ConfigError(problems)


def check_archive_from(path: str, option: str = "--archive") -> None:
    """
    Make sure that there is an archive.

    Raises:
        ConfigError: There is none.
    """
    from holdfast.spark.archive.manifest_reader import MANIFESTS

    folder = _local(path, option)
    if folder is not None and not (folder / MANIFESTS).is_dir():
        raise ConfigError([f"{option}: there is no archive in {folder}"])


def check_file_to(path: Path | None, option: str) -> None:
    """
    Make sure that a file can be written there at the end.

    Raises:
        ConfigError: Its folder is not there, or it is a folder itself.
    """
    if path is None:
        return
    if path.is_dir():
        raise ConfigError([f"{option}: {path} is a folder; name a file"])
    if not path.absolute().parent.is_dir():
        raise ConfigError([f"{option}: the folder {path.parent} is not there"])


def check_new_directory(path: Path | None) -> None:
    """
    Make sure that a data directory can be made there.

    Raises:
        ConfigError: There is something already.
        StoreLockedError: Another process is restoring to it.
    """
    from holdfast.journal.draft import check_not_restored_now

    if path is None:
        return
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError([f"--to: {path} is there already; name a directory that is not"])
    check_not_restored_now(path)


def check_source(options: dict[str, str]) -> LogPosition | None:
    """
    Make sure that a log can be read where these options say; None for an object store.

    Raises:
        ConfigError: An option is wrong.
        StoreError: There is no log.
        LinkError: No node answers.
    """
    from holdfast.spark.source.open_source import open_source
    from holdfast.spark.source.options import read_options

    read = read_options(options)
    if read.path and _local(read.path, "path") is None:
        return None
    return open_source(read).position()


def _local(path: str, option: str) -> Path | None:
    """Give a folder of this machine; None for another file system's."""
    from holdfast.spark.archive.places import Place

    try:
        return Place(path).local_folder
    except ConfigError as error:
        raise ConfigError([f"{option}: {problem}" for problem in error.problems]) from None
