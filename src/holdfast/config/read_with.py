"""
How a setting is read that is neither a number nor a word: by a function, named beside its type.

The function takes what an operator wrote, or what was read already, and gives a value of the type.
What it leaves as it is, is looked at by `reading`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadWith:
    """Stands beside the type of a setting: `Annotated[Address, ReadWith(read_address)]`."""

    read: Callable[[object], object]
    """Raises ValueError with what is wrong, without the setting's name."""
