"""
What an operator may set a setting to, said beside the setting.

A settings class writes `segment_bytes: Annotated[int, Allowed(64 * KiB, 4 * GiB)] = 64 * MiB`. The
class itself takes whatever its own checks let pass: tests build small ones. The configuration
checks what an operator wrote, and tells the same range in its sentence and in the documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_SETTING: Final = "no setting"
"""Said beside a field that no operator sets: whoever puts the node together does."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """From `least` to `most`, both included; of a text, its length in UTF-8 bytes."""

    least: float
    most: float | None = None

    def __str__(self) -> str:
        least = f"{self.least:,}"
        return f"{least} or more" if self.most is None else f"{least} to {self.most:,}"
