"""
Where the operator's words come from: flags, variables, a TOML file, and the file of the secret.

What cannot be read is one of the mistakes of the configuration, reported beside the others.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from holdfast.authorities.options import NO_AUTHORITIES, AuthorityOptions
from holdfast.authorities.token_files import SECRET_BYTES_MAX
from holdfast.config.authorities import JWT, LDAP, read_directories, read_issuers
from holdfast.config.catalogue import CATALOGUE, SECTIONS
from holdfast.config.lines import KeyPath, key_lines
from holdfast.config.named_tables import Mistakes
from holdfast.config.policies import TABLE as POLICIES
from holdfast.config.policies import read_policies
from holdfast.config.reading import shown_key, shown_path
from holdfast.config.regular_files import TooLargeError, read_regular
from holdfast.config.tls import TABLE as TLS
from holdfast.config.tls import read_tls
from holdfast.model.limits import MiB
from holdfast.model.policies import NO_POLICIES, FilePolicies
from holdfast.transport.tls import TlsOptions

SECRET_BYTES_MIN: Final = 16

DEPTH_MAX: Final = 4
"""So deep may a value be nested; Python itself ends at a thousand."""

FILE_BYTES_MAX: Final = MiB
"""A configuration has some kilobytes; what is larger is another file."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from, and where exactly."""

    kind: Literal["default", "file", "variable", "flag"] = "default"
    place: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """One value as it was given, under the name that was written."""

    spelling: str
    value: object
    origin: Origin


DEFAULT: Final = Origin()


def words_of_flags(flags: Mapping[str, Any]) -> Iterator[Word]:
    """What was given on the command line; None and an empty list were not."""
    names = {setting.name: setting.flag for setting in CATALOGUE.values() if setting.is_flag}
    for key, value in flags.items():
        if value is not None and value != []:
            yield Word(key, value, Origin("flag", names.get(key, key)))


def words_of_environment(environment: Mapping[str, str]) -> Iterator[Word]:
    """What was given by variables; an empty one counts as not set."""
    for setting in CATALOGUE.values():
        value = environment.get(setting.variable) if setting.is_flag else None
        if value:
            yield Word(setting.name, value, Origin("variable", setting.variable))


@dataclass(frozen=True, slots=True)
class FileWords:
    """What stands in a file: settings, and what it says of destinations, TLS and who vouches."""

    settings: tuple[Word, ...] = ()
    policies: FilePolicies = NO_POLICIES
    tls: Mapping[str, TlsOptions] = field(default_factory=dict)
    authorities: AuthorityOptions = NO_AUTHORITIES


def words_of_file(file: Path, problems: list[str]) -> FileWords:
    """Read a TOML file; what is wrong with the file itself is one problem."""
    try:
        text = _read_text(file)
        table = tomllib.loads(text)
    except OSError as error:
        problems.append(f"config: {file} cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        problems.append(f"config: {file} is not UTF-8 text: {error.reason} at byte {error.start:,}")
    except TooLargeError:
        problems.append(f"config: {file} has more than {FILE_BYTES_MAX:,} bytes; allowed: fewer")
    except RecursionError:
        problems.append(f"config: {file} is not TOML that can be read: it is nested too deeply")
    except ValueError as error:
        problems.append(f"config: {file} is not TOML: {error}")
    else:
        lines = key_lines(text) if table else {}
        policies, tls = table.pop(POLICIES, None), table.pop(TLS, {})
        issuers, directories = table.pop(JWT, {}), table.pop(LDAP, {})
        mistakes = Mistakes(lines, file.name, problems)
        return FileWords(
            tuple(_settings(file, table, lines, problems)),
            NO_POLICIES
            if policies is None
            else read_policies(policies, lines, file.name, problems),
            read_tls(tls, mistakes),
            AuthorityOptions(
                read_issuers(issuers, mistakes), read_directories(directories, mistakes)
            ),
        )
    return FileWords()


def _settings(
    file: Path, table: Mapping[str, Any], lines: Mapping[KeyPath, int], problems: list[str]
) -> Iterator[Word]:
    """Give the settings, each with where it stands."""
    for path, value in _flattened(table):
        spelling = ".".join(path)
        line = lines.get(path) or lines.get(path[:1])  # A table in braces stands on its line.
        place = file.name if line is None else f"{file.name} line {line}"
        if _is_deep(value):
            problems.append(f"{shown_key(spelling)}: is nested too deeply ({place})")
            continue
        yield Word(spelling, value, Origin("file", place))


def _read_text(file: Path) -> str:
    content = read_regular(file, FILE_BYTES_MAX)
    return content.decode().removeprefix("\ufeff")  # Some editors of Windows begin a file so.


def _flattened(table: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Each key of the file; those of a section with its name before them."""
    for key, value in table.items():
        if key in SECTIONS and isinstance(value, dict):
            for field, inner in value.items():
                yield (key, field), inner
        else:
            yield (key,), value


def _is_deep(value: object) -> bool:
    """Whether it is more than any setting is: members are tables in a list."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [inner for outer in level for inner in _within(outer)]
    return bool(level)


def _within(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def read_secret(file: Path | None, problems: list[str]) -> bytes:
    """The secret without the newline that editors add."""
    if file is None:
        return b""
    try:
        secret = read_regular(file, SECRET_BYTES_MAX).strip()
    except OSError as error:
        problems.append(f"secret_file: {shown_path(file)} cannot be read: {error.strerror}")
        return b"?"
    except TooLargeError:
        problems.append(
            f"secret_file: {shown_path(file)} holds more than {SECRET_BYTES_MAX:,} bytes;"
            " allowed: fewer"
        )
        return b"?"
    if len(secret) < SECRET_BYTES_MIN:
        problems.append(
            f"secret_file: {shown_path(file)} holds {len(secret)} bytes;"
            f" allowed: {SECRET_BYTES_MIN} or more"
        )
    return secret
