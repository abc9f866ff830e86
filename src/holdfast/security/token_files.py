"""
Files that hold one token: how programs are given it, as neither a command line nor an environment
hides what stands there.

Invariants:
    No error tells anything of what stands in the file.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import ConfigError
from holdfast.security.tokens import PREFIX, TOKEN_BYTES_MAX, is_any_token


def read_token_file(path: Path) -> str:
    """
    Read the one token that stands in a file, of ours or of an issuer; blanks around it are no part.

    Raises:
        ConfigError: It cannot be read, or what stands there is no token.
    """
    try:
        with path.open("rb") as file:
            content = file.read(TOKEN_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError([f"token_file: {path} cannot be read: {error.strerror}"]) from error
    if len(content) > TOKEN_BYTES_MAX:
        raise ConfigError([f"token_file: {path} has more than {TOKEN_BYTES_MAX:,} bytes"])
    token = content.decode("ascii", "replace").strip()
    if not (
        is_any_token(token) and token.isascii() and token.isprintable() and len(token.split()) == 1
    ):
        expected = f"one begins with {PREFIX}, or is a JSON Web Token of an issuer"
        raise ConfigError([f"token_file: {path} has no token; {expected}"])
    return token
