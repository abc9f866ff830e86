"""
What an operator may say of a log that is kept in several databases.

Nothing here trades safety for speed: what is confirmed is in every enabled database, or in most of
them, and then nobody goes on without one that has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from holdfast.model.allowed import Allowed
from holdfast.model.limits import MiB

Confirm = Literal["all", "majority"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaidbSettings:
    """How long a database is waited for, and how one is filled."""

    confirm: Confirm = "all"
    """Which of the enabled databases must have a message before it is confirmed: `all`, or most of
    them (`majority`, with three or more)."""

    behind_bytes_max: Annotated[int, Allowed(MiB)] = 32 * MiB
    """With `confirm = "majority"` a database that lacks more than that is waited for, or more than
    it stores in half a lease."""

    member_timeout_seconds: Annotated[float, Allowed(0.1, 60)] = 2.0
    """A database that has failed for so long, while others answer, is left out."""

    copy_bytes: Annotated[int, Allowed(64 * 1024, 64 * MiB)] = MiB
    """So much is copied at once into a database that is filled; the last such piece is copied
    between two batches."""

    scrub_bytes_per_second: Annotated[int, Allowed(64 * 1024)] = 4 * MiB
    """So fast what the databases hold is read over, one after the other, to find what rotted."""

    scrub_round_seconds: Annotated[float, Allowed(0, 366 * 86_400)] = 3600.0
    """After all was read over it is left alone for so long."""

    copy_bytes_per_second: Annotated[int, Allowed(64 * 1024)] = 16 * MiB
    """So fast a database is filled with what is old, at most."""
