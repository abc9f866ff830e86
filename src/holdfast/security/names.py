"""
What users and roles may be called: what fits a login header, HTTP's Basic and a line of a shell.

Pure values.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import AccessError

NAME_BYTES_MAX: Final = 128
OTHERS_NAME_BYTES_MAX: Final = 256
_NOT_IN_NAMES: Final = frozenset(':,"')
"""A colon ends the name in Basic, a comma the role in a list, a quotation mark the text in JSON."""


def require_name(text: str, what: str) -> str:
    """
    Give a name as it is.

    Raises:
        AccessError: It cannot be one; `what` says in the sentence of what.
    """
    size = len(text.encode(errors="replace"))
    if not text or size > NAME_BYTES_MAX:
        raise AccessError(
            f"a {what} has a name of 1 to {NAME_BYTES_MAX} bytes, and this has {size:,}"
        )
    if not text.isprintable() or " " in text or _NOT_IN_NAMES & set(text):
        raise AccessError(
            f"{text[:80]!r} cannot be the name of a {what}: it has no spaces, colons, commas,"
            f" quotation marks or control characters"
        )
    if text.startswith("-"):
        raise AccessError(
            f"{text[:80]!r} cannot be the name of a {what}: it would be taken for an option"
        )
    return text


def is_name_of_others(text: str) -> bool:
    """Whether somebody may be called so whom others vouch for: with colons, and never two lines."""
    size = len(text.encode(errors="replace"))
    return 0 < size <= OTHERS_NAME_BYTES_MAX and text.isprintable() and " " not in text
