"""
What an operator may say of mirrors.

Nothing here trades safety for speed: what is confirmed is on every active mirror, always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.model.allowed import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """How long a mirror is waited for, and how fast one is filled."""

    timeout_seconds: Annotated[float, Allowed(0.1)] = 10.0
    """A mirror that takes so much longer than another one is given up."""

    copy_bytes_per_second: Annotated[int, Allowed(64 * 1024)] = 64 * 1024 * 1024
    """So fast a mirror is filled with what is old, at most."""
