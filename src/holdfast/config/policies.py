"""
What a file says of destinations: its table `[policies]`, read as a whole.

    [policies]
    revision = 3

    [policies."queue://ORDERS.>"]
    queuePrefetch = 10

The keys are those of `model.policies`. `revision` is to be raised with every change: a leader
brings what its file says into the log if that has a lower one.

Invariants:
    Of a file with a mistake nothing is taken; each mistake is told with its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.broker.forwarding_checks import faults_of
from holdfast.config.lines import KeyPath
from holdfast.config.reading import SHOWN_MAX, shown_key
from holdfast.errors import PolicyError
from holdfast.model.policies import NO_POLICIES, REVISION_MAX, FilePolicies, read_values
from holdfast.model.policy_option import Value
from holdfast.model.wildcards import parse_pattern

TABLE: Final = "policies"
REVISION: Final = "revision"

_PROBLEMS_MAX: Final = 50


def read_policies(
    table: object, lines: Mapping[KeyPath, int], file_name: str, problems: list[str]
) -> FilePolicies:
    """Read the table; what is wrong in it is told, each with its line, and then it says nothing."""
    reading = _Reading(lines, file_name)
    found = reading.read(table)
    problems += reading.faults[:_PROBLEMS_MAX]
    if len(reading.faults) > _PROBLEMS_MAX:
        problems.append(f"and {len(reading.faults) - _PROBLEMS_MAX:,} more in [{TABLE}]")
    return NO_POLICIES if reading.faults else found


class _Reading:
    """One look at a table."""

    def __init__(self, lines: Mapping[KeyPath, int], file_name: str) -> None:
        self._lines = lines
        self._file_name = file_name
        self.faults: list[str] = []

    def read(self, table: object) -> FilePolicies:
        if not isinstance(table, Mapping):
            self._report((TABLE,), "is a table: write [policies] and its keys below it")
            return NO_POLICIES
        values: dict[str, dict[str, Value]] = {}
        written: dict[str, str] = {}
        moot: list[str] = []
        for key, said in table.items():
            if key != REVISION:
                self._read_pattern(key, said, values, written, moot)
        self._check_forwarding(values, written)
        revision = self._read_revision(table.get(REVISION))
        places = {
            (pattern, name): self._place((TABLE, written[pattern], name))
            for pattern, of_pattern in values.items()
            for name in of_pattern
        }
        return FilePolicies(revision, values, tuple(moot), places)

    def _check_forwarding(
        self, values: Mapping[str, dict[str, Value]], written: Mapping[str, str]
    ) -> None:
        for pattern, key, why in faults_of(values):
            self._report((TABLE, written[pattern], key), why)

    def _read_revision(self, value: object) -> int:
        if value is None:
            self._report((TABLE,), "revision is missing: give a number, and raise it with a change")
        elif isinstance(value, bool) or not isinstance(value, int):
            self._report((TABLE, REVISION), f"{_shown(value)} is not a whole number")
        elif not 1 <= value <= REVISION_MAX:
            self._report((TABLE, REVISION), f"is out of range; allowed: 1 to {REVISION_MAX:,}")
        else:
            return value
        return 0

    def _read_pattern(
        self,
        key: str,
        said: Any,
        values: dict[str, dict[str, Value]],
        written: dict[str, str],
        moot: list[str],
    ) -> None:
        path = (TABLE, key)
        if not isinstance(said, Mapping):
            self._report(path, 'unknown key; write [policies."queue://NAME"] and its keys below it')
            return
        try:
            pattern = parse_pattern(key)
        except PolicyError as error:
            self._report(path, str(error))
            return
        name = str(pattern)
        if name in values:
            self._report(path, f"is the same pattern as {shown_key(written[name])}")
            return
        spoken = read_values(pattern.kind, said)
        for fault, why in spoken.faults:
            self._report((*path, fault), why)
        written[name] = key
        values[name] = spoken.values
        moot += spoken.moot

    def _report(self, path: KeyPath, sentence: str) -> None:
        spelling = ".".join(f'"{it}"' if "." in it or ":" in it else it for it in path)
        self.faults.append(f"{shown_key(spelling)}: {sentence} ({self._place(path)})")

    def _place(self, path: KeyPath) -> str:
        """Say where a key stands, or the table that it is in: that may be in braces."""
        for size in range(len(path), 0, -1):
            line = self._lines.get(path[:size])
            if line is not None:
                return f"{self._file_name} line {line}"
        return self._file_name


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no number with more than 4,300 digits.
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX // 2]}…"
