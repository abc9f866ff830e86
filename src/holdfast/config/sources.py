"""
Where the operator's words come from: a TOML file, and the file of the secret.

What cannot be read is one of the mistakes of the configuration, reported beside the others.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

SECRET_BYTES_MIN = 16


def read_file(file: Path | None, problems: list[str]) -> dict[str, Any]:
    """The keys of a TOML file with their values, those of `[stomp]` by their plain names."""
    if file is None:
        return {}
    try:
        return _with_plain_keys(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        problems.append(f"config: {file} cannot be read: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"config: {file} is not TOML: {error}")
    return {}


def _with_plain_keys(table: dict[str, Any]) -> dict[str, Any]:
    """`[stomp]` with `address` and `strict` is another way to write `stomp` and `stomp_strict`."""
    section = table.get("stomp")
    if not isinstance(section, dict):
        return table
    rest = {key: value for key, value in table.items() if key != "stomp"}
    named = {f"stomp_{key}": value for key, value in section.items() if key != "address"}
    address = {"stomp": section["address"]} if "address" in section else {}
    return named | rest | address


def read_secret(file: Path | None, problems: list[str]) -> bytes:
    """The secret without the newline that editors add."""
    if file is None:
        return b""
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        problems.append(f"secret_file: {file} cannot be read: {error.strerror}")
        return b"?"
    if len(secret) < SECRET_BYTES_MIN:
        problems.append(
            f"secret_file: {file} holds {len(secret)} bytes; allowed: {SECRET_BYTES_MIN} or more"
        )
    return secret
