"""
What an operator may say of a log that is kept in several databases.

Nothing here trades safety for speed: what is confirmed is in every enabled database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.model.allowed import Allowed
from holdfast.model.limits import MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class RaidbSettings:
    """How long a database is waited for, and how one is filled."""

    member_timeout_seconds: Annotated[float, Allowed(0.1, 60)] = 2.0
    """A database that has failed for so long, while others answer, is left out."""

    copy_bytes: Annotated[int, Allowed(64 * 1024, 64 * MiB)] = MiB
    """So much is copied at once into a database that is filled; the last such piece is copied
    between two batches."""

    copy_bytes_per_second: Annotated[int, Allowed(64 * 1024)] = 16 * MiB
    """So fast a database is filled with what is old, at most."""
