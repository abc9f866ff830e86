"""
Files that hold one token, or the cluster's secret: how programs are given it, as neither a command
line nor an environment hides what stands there.

Invariants:
    No error tells anything of what stands in the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.environment.secret_files import TooLargeError, read_secret_file
from holdfast.errors import ConfigError
from holdfast.model.limits import KiB
from holdfast.security.tokens import PREFIX, TOKEN_BYTES_MAX, is_any_token

SECRET_BYTES_MAX: Final = 64 * KiB
"""What is larger is another file, or has no end."""


def read_secret(path: Path) -> bytes:
    """
    Read the file of the cluster's secret; blanks around it, as editors add them, are no part.

    Raises:
        ConfigError: It cannot be read, or is empty.
    """
    try:
        secret = read_secret_file(path, SECRET_BYTES_MAX).strip()
    except OSError as error:
        raise ConfigError([f"secret_file: {path} cannot be read: {error.strerror}"]) from error
    except TooLargeError:
        raise ConfigError(
            [f"secret_file: {path} has more than {SECRET_BYTES_MAX:,} bytes"]
        ) from None
    if not secret:
        raise ConfigError([f"secret_file: {path} is empty"])
    return secret


def read_token_file(path: Path) -> str:
    """
    Read the one token that stands in a file, of ours or of an issuer; blanks around it are no part.

    Raises:
        ConfigError: It cannot be read, or what stands there is no token.
    """
    try:
        content = read_secret_file(path, TOKEN_BYTES_MAX)
    except OSError as error:
        raise ConfigError([f"token_file: {path} cannot be read: {error.strerror}"]) from error
    except TooLargeError:
        raise ConfigError([f"token_file: {path} has more than {TOKEN_BYTES_MAX:,} bytes"]) from None
    token = content.decode("ascii", "replace").strip()
    if not (
        is_any_token(token) and token.isascii() and token.isprintable() and len(token.split()) == 1
    ):
        expected = f"one begins with {PREFIX}, or is a JSON Web Token of an issuer"
        raise ConfigError([f"token_file: {path} has no token; {expected}"])
    return token
