"""
The token that proves to a node that its own user asks, and the file it lies in.

A node makes a new one at each start and puts it in its data directory, where only the node's user
may read it. A command on the same machine is told the file's place when it is refused, reads it,
and asks again: nobody types anything, and whoever cannot read the node's files cannot act for it.

The file also names the address of the port that it is for, and what certificate is shown there. A
program that pretends to be a node can therefore not be sent the token of another: it would have to
listen where that one does, and where TLS is spoken, to have its key.

Invariants:
    A token of a port that speaks TLS is given away by TLS only.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.admin.node_user import why_not_taken
from holdfast.errors import AuthenticationError
from holdfast.model.networks import one_spelling

FILE_NAME: Final = "admin-token"

_FIRST_LINE: Final = "holdfast admin token, version 1"
_FIRST_LINE_TLS: Final = "holdfast admin token, version 2"
"""Which versions before TLS take for no file of theirs, and so never send in clear."""

_FINGERPRINT: Final = re.compile(r"certificate sha256 ([0-9a-f]{64})")
_BYTES_MAX: Final = 1024
_TOKEN_BYTES: Final = 32


class LocalProof(NamedTuple):
    """What a node's file tells who may read it."""

    token: str
    fingerprint: str
    """The SHA-256 of the certificate of the port; empty: it speaks in clear."""


NO_PROOF: Final = LocalProof("", "")


def new_token() -> str:
    """Make a token nobody can guess."""
    return secrets.token_hex(_TOKEN_BYTES)


def write_token(directory: Path, host: str, port: int, token: str, fingerprint: str = "") -> Path:
    """
    Put the token of the port at this address into its file, for the own user only.

    Args:
        fingerprint: Of the certificate that is shown there; empty: it speaks in clear.

    Raises:
        OSError: It cannot be written.
    """
    path = directory / FILE_NAME
    draft = path.with_suffix(".tmp")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    if fingerprint:
        text = f"{_FIRST_LINE_TLS}\n{host} {port}\ncertificate sha256 {fingerprint}\n{token}\n"
    else:
        text = f"{_FIRST_LINE}\n{host} {port}\n{token}\n"
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def read_proof(path: Path, host: str, port: int) -> LocalProof:
    """
    Read the token for the port at this address; `NO_PROOF` if the file is none of its.

    Nothing is read but a small regular file of that name, and nothing of it is given away that is
    not a token for exactly this address. Whose the file is, the caller has to know; see
    `read_told`.

    Raises:
        OSError: It cannot be read.
    """
    return _read(path, (host, port), lambda _found, _folder: None)


def read_told(path: Path, host: str, port: int) -> LocalProof:
    """
    Read the same where whoever answers at that address has told the path.

    Raises:
        OSError: It cannot be read.
        AuthenticationError: It may be somebody else's than the node's, see `node_user`.
    """

    def judge(found: os.stat_result, folder: os.stat_result) -> None:
        why = why_not_taken(found, folder, (host, port))
        if why:
            raise AuthenticationError(
                f"who answers at {host} port {port} says that {str(path)!r} is the node's file, and"
                f" it is not taken for that: {why}"
            )

    return _read(path, (host, port), judge)


def _read(
    path: Path,
    place: tuple[str, int],
    judge: Callable[[os.stat_result, os.stat_result], None],
) -> LocalProof:
    if path.name != FILE_NAME or not path.is_absolute():
        return NO_PROOF
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = os.open(path.name, flags, dir_fd=folder)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return NO_PROOF
            proof = _parsed(os.read(descriptor, _BYTES_MAX), *place)
        finally:
            os.close(descriptor)
        if proof.token:
            judge(found, os.fstat(folder))
    finally:
        os.close(folder)
    return proof


def _parsed(content: bytes, host: str, port: int) -> LocalProof:
    lines = content.decode("ascii", "replace").split("\n")
    fingerprint = ""
    if len(lines) == 5 and lines[0] == _FIRST_LINE_TLS:
        found = _FINGERPRINT.fullmatch(lines.pop(2))
        fingerprint = found[1] if found else ""
    if len(lines) != 4 or lines[0] != (_FIRST_LINE_TLS if fingerprint else _FIRST_LINE):
        return NO_PROOF
    bound, _, bound_port = lines[1].partition(" ")
    is_it = bound_port == str(port) and _is_at(bound, host)
    return LocalProof(lines[2], fingerprint) if is_it else NO_PROOF


def _is_at(bound: str, host: str) -> bool:
    """
    Whether a port bound to `bound` is what answers at `host`, both addresses.

    An address of IPv4 that is written as one of IPv6 leads to who listens by IPv4.
    """
    try:
        listens, asked = (ip_address(one_spelling(it)) for it in (bound, host))
    except ValueError:
        return False
    if listens.is_unspecified:  # Of the other family anybody may listen at the same port.
        return listens.version == asked.version
    return listens == asked
