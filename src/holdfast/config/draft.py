"""
What the operator wrote, put together and read, before it is known to fit together.

A setting comes from a flag, else from an environment variable, else from the TOML file, else it has
its default. A wrong value is reported and replaced by the default, so that what depends on others
can be checked as well: all mistakes are told at once.

Invariants:
    `wrong` holds the names of all settings whose values are not the operator's.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from holdfast.authorities.options import NO_AUTHORITIES, AuthorityOptions
from holdfast.config.catalogue import CATALOGUE, SECTIONS, SPELLINGS, Setting
from holdfast.config.node_settings import NodeSettings
from holdfast.config.reading import SHOWN_MAX, read_value, shown_key, shown_path
from holdfast.config.sources import (
    DEFAULT,
    FileWords,
    Origin,
    Word,
    words_of_environment,
    words_of_file,
    words_of_flags,
)
from holdfast.environment.bounded_disk import glance
from holdfast.model.policies import NO_POLICIES, FilePolicies
from holdfast.transport.tls import TlsOptions

PROBLEMS_MAX: Final = 50
"""Of one source so many unknown and doubled keys are told; then how many more there are."""


DIRECTORY_COUNT_MAX: Final = 8
"""So many directories may hold the same."""


@dataclass(slots=True)
class Draft:
    """Every setting's value, where it is from, and what is wrong."""

    values: dict[str, Any]
    """By path."""

    origins: dict[str, Origin] = field(default_factory=dict)
    """By path; what is not in it has its default."""

    wrong: set[str] = field(default_factory=set)
    unfit: set[str] = field(default_factory=set)
    """Names of settings that are right by themselves and do not fit others."""

    problems: list[str] = field(default_factory=list)

    policies: FilePolicies = NO_POLICIES
    """What the file says of destinations."""

    tls: Mapping[str, TlsOptions] = field(default_factory=dict)
    """What it says of TLS, by name."""

    authorities: AuthorityOptions = NO_AUTHORITIES
    """Who vouches for people beside the log."""

    mirrors: tuple[Path, ...] = ()
    """The directories beside the first one that hold the same."""

    def value(self, path: str) -> Any:
        """What a setting is set to."""
        return self.values[path]

    def origin(self, path: str) -> Origin:
        """Where its value is from."""
        return self.origins.get(path, DEFAULT)

    def node_settings(self) -> NodeSettings:
        """The node's own settings, as they were read."""
        return NodeSettings(**self.section(""))

    def section(self, name: str) -> dict[str, Any]:
        """The values of one section, by field."""
        return {
            setting.field: self.values[setting.path]
            for setting in CATALOGUE.values()
            if setting.section == name
        }

    def is_told_of(self, section: str) -> bool:
        """Whether something in it was found not to fit: its class would tell it again."""
        return any(
            setting.name in self.unfit
            for setting in CATALOGUE.values()
            if setting.section == section
        )

    def report(self, setting: Setting, spelling: str, sentence: str, origin: Origin) -> None:
        """Note a mistake in one setting, with where it stands."""
        self.wrong.add(setting.name)
        self.problems.append(f"{spelling}: {sentence}{placed(origin)}")

    def require(self, holds: bool, keys: str, sentence: str) -> None:
        """Report the sentence unless it holds, or one of the keys is wrong anyway."""
        if holds or not self.wrong.isdisjoint(keys.split()):
            return
        self.unfit.update(keys.split())
        setting = SPELLINGS.get(sentence.partition(":")[0])
        where = placed(self.origin(setting.path)) if setting is not None else ""
        self.problems.append(sentence + where)


def placed(origin: Origin) -> str:
    """Where a mistake stands, to be added to its sentence; a flag stands before one's eyes."""
    return f" ({origin.place})" if origin.kind in {"file", "variable"} else ""


def draft(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None) -> Draft:
    """Read all that is given; mistakes in single values are reported in the draft."""
    made = Draft({setting.path: setting.default for setting in CATALOGUE.values()})
    given: dict[str, Word] = {}
    of_file = words_of_file(file, made.problems) if file is not None else FileWords()
    made.policies, made.tls = of_file.policies, of_file.tls
    made.authorities = of_file.authorities
    for words in (of_file.settings, words_of_environment(environment), words_of_flags(flags)):
        given |= _known(words, made)
    for path, word in given.items():
        made.origins[path] = word.origin
        try:
            if path == "data":
                made.values[path], *others = read_directories(word)
                made.mirrors = tuple(others)
            else:
                made.values[path] = read_value(CATALOGUE[path], word.value)
        except ValueError as error:
            made.report(CATALOGUE[path], word.spelling, str(error), word.origin)
    return made


def read_directories(word: Word) -> list[Path]:
    """
    Read one directory, or several that are to hold the same.

    Flags and the file give a list of them, a variable has colons between them, as PATH has.

    Raises:
        ValueError: One of them is no path, there are too many, or one is given twice.
    """
    value = word.value
    if isinstance(value, str) and word.origin.kind == "variable":
        value = value.split(os.pathsep)
    given = value if isinstance(value, list | tuple) else [value]
    if not 1 <= len(given) <= DIRECTORY_COUNT_MAX:
        raise ValueError(f"{len(given)} directories; allowed: 1 to {DIRECTORY_COUNT_MAX}")
    found: list[Path] = [read_value(CATALOGUE["data"], it) for it in given]
    places = [glance(partial(os.path.realpath, it), str(it.absolute())) for it in found]
    for place, path in zip(places, found, strict=True):
        if places.count(place) > 1:
            raise ValueError(f"{shown_path(path)} is given twice; each mirror has its own")
    return found


def require_data(made: Draft) -> None:
    """There is no default that could hide messages in a surprising place."""
    data = CATALOGUE["data"]
    if data.path not in made.origins:
        made.wrong.add(data.name)
        made.problems.append(
            f"data: missing; give {data.flag}, {data.variable} or '{data.name} = …'"
        )


def _known(words: Iterable[Word], made: Draft) -> dict[str, Word]:
    """The words of one source by setting; what nobody knows or is said twice is reported."""
    found: dict[str, Word] = {}
    faults: list[str] = []
    for word in words:
        setting = SPELLINGS.get(word.spelling)
        if setting is None:
            key = shown_key(word.spelling)
            faults.append(f"{key}: {_unknown(word, len(faults))}{placed(word.origin)}")
        elif setting.path in found:
            earlier = found[setting.path]
            same = f"is the same setting as {earlier.spelling}{placed(earlier.origin)}"
            faults.append(f"{word.spelling}: {same}; give one of them{placed(word.origin)}")
        else:
            found[setting.path] = word
    made.problems += faults[:PROBLEMS_MAX]
    if len(faults) > PROBLEMS_MAX:
        made.problems.append(f"and {len(faults) - PROBLEMS_MAX:,} more keys like these")
    return found


def _unknown(word: Word, told: int) -> str:
    """Say what may have been meant; of thousands nobody reads it, and it takes its time."""
    if word.spelling in SECTIONS:
        return f"is a section: write [{word.spelling}] and its keys below it"
    what = "section" if isinstance(word.value, dict) else "setting"
    is_near = told < PROBLEMS_MAX and len(word.spelling) <= 2 * SHOWN_MAX
    near = _near(word.spelling) if is_near else ""
    return f"unknown {what}" + (f"; did you mean {near}?" if near else "")


def _near(spelling: str) -> str:
    known = [*SPELLINGS, *SECTIONS]
    found = difflib.get_close_matches(spelling, known, n=1)
    if not found and "." not in spelling:
        # A field without its section: the section is what is missing.
        by_field = {path.partition(".")[2]: path for path in CATALOGUE if "." in path}
        near = difflib.get_close_matches(spelling, by_field, n=1)
        found = [by_field[it] for it in near]
    return found[0] if found else ""
