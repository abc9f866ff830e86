"""
What operators are told of policies: values only, made of the broker's state by `server`.

The names of the fields are those of the answer over HTTP, on which programs rely: they stay.
Whose word something is has one of three names, here and on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

PolicySource = Literal["default", "file", "set"]
"""Whose word it is: nobody's, a configuration file's, an operator's at run time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatus:
    """What is said of the destinations that match a pattern."""

    pattern: str
    source: PolicySource
    values: Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesStatus:
    """All that is said."""

    revision: int
    """Of the file whose word counts; 0: there was none."""
    policies: Iterable[PolicyStatus]
    """In the order of their patterns, each made when it is looked at; to be gone through once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyValue:
    """What one key is for one destination."""

    key: str
    value: str | int | float
    source: PolicySource
    pattern: str = ""
    """Which one says so; empty for a default."""
    setting: str = ""
    """The setting that a default is from, if it is from one."""
