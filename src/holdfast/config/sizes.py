"""
Numbers of bytes as people write them: `268435456`, `256MiB`, `64k`.

All units are powers of 1024, whatever the spelling: a limit that is 7 % smaller on one node than on
another because of a missing `i` would be found late.
"""

from __future__ import annotations

import re

from holdfast.model.limits import GiB, KiB, MiB

_SIZE = re.compile(r"(\d{1,20})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_SIZE_UNITS = {"": 1, "k": KiB, "m": MiB, "g": GiB, "t": 1024 * GiB}


def parse_size(text: str | int) -> int:
    """
    Read a number of bytes: `268435456`, `256MiB`, `256M`, `256mb`, `64k`, in powers of 1024.

    Raises:
        ValueError: It is none of these.
    """
    found = _SIZE.fullmatch(str(text).strip())
    if found is None or isinstance(text, bool):
        raise ValueError(f"{text!r} is not a size such as 268435456, 64k or 256MiB")
    return int(found[1]) * _SIZE_UNITS[found[2].lower()]


def read_size(value: object) -> object:
    """A size from its text; anything else is left as it is."""
    return parse_size(value) if isinstance(value, str) else value
