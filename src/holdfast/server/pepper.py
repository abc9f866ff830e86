"""
The pepper: what passwords are hashed with that does not stand in the log.

The members of a cluster, and brokers over one store, work it out of the secret they share. A node
without such a secret makes a key of its own when the first password is set, and keeps it in a file
of its data directory, beside the ballot, for its own user only. Whoever has a log or an archive of
it has no key, and nothing to try passwords on. Whoever loses the key can set passwords anew, and
that is all that is lost.

A node that was alone and is given a secret goes on to know by its key the passwords that were set
before; the nodes that join it cannot. It says so when it starts.

Invariants:
    A key that was made is kept on disk before anything is hashed with it.
    A key is never replaced: a file that cannot be used ends the start.

Safe to use from any thread.
"""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

import structlog

from holdfast.environment.secret_files import others_of
from holdfast.errors import AccessError, ConfigError
from holdfast.security.passwords import PEPPER_BYTES

log = structlog.get_logger("holdfast.server")

FILE_NAME: Final = "password-key"
_FIRST_LINE: Final = "holdfast password key, version 1"
_BYTES_MAX: Final = 1024
_LABEL: Final = b"holdfast password pepper 1"


class Pepper:
    """One node's pepper, if it has one."""

    __slots__ = ("_directories", "_earlier", "_is_shared", "_key", "_lock")

    def __init__(self, secret: bytes, directories: Sequence[Path], *, is_shared: bool) -> None:
        """
        Work it out of a secret, or read it from the node's own file, if that is there: or both.

        Args:
            secret: What all nodes of the cluster know; empty: there is none.
            directories: The node's own, which hold the same; the key is kept in each of them.
            is_shared: Whether other nodes look at the same passwords.

        Raises:
            ConfigError: The file is there, and cannot be used.
        """
        self._directories = directories
        self._is_shared = is_shared
        self._lock = Lock()
        self._key: bytes | None = None
        self._earlier: bytes | None = None
        found = _found(directories) if secret or not is_shared else None
        if secret:
            self._key = hmac.digest(secret, _LABEL, "sha256")
            self._earlier = found
        else:
            self._key = found
        if self._earlier is not None:
            log.warning(
                "passwords that were set before this node had a secret are right on this node only:"
                " set them anew (holdfast users password NAME), then remove the file",
                file=str(directories[0] / FILE_NAME),
            )

    @property
    def key(self) -> bytes | None:
        """What new passwords are hashed with; None: there is nothing yet."""
        return self._key

    @property
    def keys(self) -> tuple[bytes, ...]:
        """What passwords are looked at with; none: none was ever set with a key that is here."""
        return tuple(it for it in (self._key, self._earlier) if it is not None)

    def need(self) -> bytes:
        """
        Give what a new password is hashed with; makes it, on disk first, where there is none.

        Raises:
            AccessError: The nodes have nothing in common that it could be made of, or it cannot be
                kept.
        """
        with self._lock:
            if self._key is None:
                if self._is_shared:
                    raise AccessError(
                        "passwords need what all nodes know: give each of them the same secret"
                        " (--secret-file); tokens work without it"
                    )
                self._key = self._made()
            return self._key

    def _made(self) -> bytes:
        key = secrets.token_bytes(PEPPER_BYTES)
        kept_count = 0
        why: OSError | None = None
        for directory in self._directories:
            try:
                _write(directory, key)
                kept_count += 1
            except OSError as error:
                why = error
                _say_not_kept(directory, error)
        if not kept_count:
            assert why is not None, "a node has a directory"
            raise AccessError(
                f"no password can be set: its key cannot be kept in"
                f" {self._directories[0] / FILE_NAME}: {why.strerror}"
            )
        return key


def _found(directories: Sequence[Path]) -> bytes | None:
    """Give the key that the directories have, and let each have it; None: none has."""
    keys: dict[Path, bytes | None] = {}
    for directory in directories:
        path = directory / FILE_NAME
        try:
            keys[path] = _read(path)
        except FileNotFoundError:
            keys[path] = None
        except OSError as error:
            if len(directories) == 1:
                raise _unusable(f"{path} cannot be read: {error.strerror}") from error
            _say_not_kept(directory, error)  # One of several may be on a disk that failed.
    known = {key: path for path, key in keys.items() if key is not None}
    if len(known) > 1:
        raise _unusable(
            f"{' and '.join(map(str, known.values()))} hold different keys: move the one away that"
            f" is of another node"
        )
    for key in known:
        for path in (path for path, other in keys.items() if other is None):
            try:
                _write(path.parent, key)
            except OSError as error:
                _say_not_kept(path.parent, error)
    return next(iter(known), None)


def _say_not_kept(directory: Path, error: OSError) -> None:
    log.warning("a directory has no password key", directory=str(directory), reason=error.strerror)


def _read(path: Path) -> bytes:
    """
    Read a key.

    Raises:
        OSError: It cannot be read.
        ConfigError: Others may read it, or it is no key.
    """
    # A pipe is opened without waiting for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(f"{path} is no regular file")
        if found.st_uid != os.geteuid():
            raise _unusable(f"{path} belongs to another user than the node runs as: chown it")
        if others := others_of(found, is_own=True):
            mode = stat.S_IMODE(found.st_mode)
            raise _unusable(
                f"{path} can be read or changed by {others} (mode {mode:04o}): chmod 600 it, and"
                f" set all passwords anew if somebody has read it"
            )
        lines = os.read(descriptor, _BYTES_MAX).decode("ascii", "replace").split("\n")
    finally:
        os.close(descriptor)
    if len(lines) == 3 and lines[0] == _FIRST_LINE and len(lines[1]) == 2 * PEPPER_BYTES:
        try:
            return bytes.fromhex(lines[1])
        except ValueError:
            pass
    raise _unusable(
        f"{path} is no password key: bring it back from a backup, or move it away and set all"
        f" passwords anew"
    )


def _unusable(problem: str) -> ConfigError:
    return ConfigError([problem])


def _write(directory: Path, key: bytes) -> None:
    """
    Put a key into its file, for the own user only, durably; one that is there stays.

    Raises:
        OSError: It cannot be written, or there is one.
    """
    path = directory / FILE_NAME
    draft = path.with_suffix(".tmp")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{_FIRST_LINE}\n{key.hex()}\n")
            file.flush()
            os.fsync(descriptor)
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
