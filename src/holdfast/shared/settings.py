"""
Sizes and times of a log in a shared directory, with their units in their names.

What is part of the format is not a setting. Immutable; a directory may be written with other
sizes each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.model.allowed import Allowed
from holdfast.model.limits import KiB, MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSettings:
    """How a log in a shared directory behaves."""

    segment_bytes: Annotated[int, Allowed(64 * KiB, 1024 * MiB)] = 16 * MiB
    """Size of a full segment; making one fills it with zeros, and publishing waits for that."""

    first_segment_bytes: Annotated[int, Allowed(64 * KiB, 1024 * MiB)] = MiB
    """Size of the first one of an epoch, which a takeover waits for; each next one is twice as
    large, up to a full one."""

    beat_seconds: Annotated[float, Allowed(0.01)] = 1.0
    """How often a holder that appends also says what is confirmed by now."""

    takes_with_room: Annotated[int, Allowed(0, 64)] = 4
    """Room for so many takes of the lease, one after the other, is kept on the share: a broker that
    takes it on a file system that others have filled to its end uses it up."""

    allow_unsafe_share: bool = False
    """Use a directory on a file system that cannot keep the promises, and say so."""
