"""
Every setting there is: its name, section, default, unit and range, read from the classes.

Nothing is written here twice: a field that is added to a settings class is a setting from then on,
is checked, shown, and asked for by the test of the documentation.

Invariants:
    No two settings have a spelling in common.
    Only settings with a name without a section have a flag and an environment variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from holdfast.config.node_settings import NodeSettings
from holdfast.config.sections import DEFAULTS, OTHER_SPELLINGS, SHORT_NAMES
from holdfast.model.allowed import NO_SETTING, Allowed

ENVIRONMENT_PREFIX: Final = "HOLDFAST_"
SECONDS_MAX: Final = 366 * 86_400
COUNT_MAX: Final = 1_000_000_000
BYTES_MAX: Final = 1 << 50

_ALLOWED_BY_UNIT: Final = {
    "bytes": Allowed(1, BYTES_MAX),
    "bytes/s": Allowed(1, BYTES_MAX),
    "s": Allowed(0.001, SECONDS_MAX),
    "times": Allowed(1, 1_000),
    "share": Allowed(0.01, 1),
    "count": Allowed(1, COUNT_MAX),
}
"""The range of a number beside which the class says no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting, wherever it is given."""

    section: str
    """Empty for the node's own."""

    field: str
    hint: Any
    """The type that its class declares, with what is said beside it."""

    default: Any
    short: str = ""

    @property
    def path(self) -> str:
        """Its section and field."""
        return f"{self.section}.{self.field}" if self.section else self.field

    @property
    def name(self) -> str:
        """What it is called: the short name, if it has one."""
        return self.short or self.path

    @property
    def is_flag(self) -> bool:
        """It can be given on the command line and in the environment."""
        return "." not in self.name

    @property
    def variable(self) -> str:
        """Its environment variable; empty if it has none."""
        return ENVIRONMENT_PREFIX + self.name.upper() if self.is_flag else ""

    @property
    def flag(self) -> str:
        """Its flag; empty if it has none. Each member is given by its own."""
        if not self.is_flag:
            return ""
        return "--member" if self.name == "members" else "--" + self.name.replace("_", "-")

    @property
    def type(self) -> Any:
        """Its type without what is said beside it."""
        return get_args(self.hint)[0] if get_origin(self.hint) is Annotated else self.hint

    @property
    def unit(self) -> str:
        """What a number counts; empty where it is no number."""
        if self.type not in (int, float):
            return ""
        words = self.field.split("_")
        if "bytes" in words:
            return "bytes/s" if "second" in words else "bytes"
        if "seconds" in words:
            return "s"
        if "factor" in words or "elections" in words:
            return "times"
        return "share" if {"fraction", "ratio"} & set(words) else "count"

    @property
    def allowed(self) -> Allowed | None:
        """Its range: as its class says, else by its unit; no number is without an upper end."""
        by_unit = _ALLOWED_BY_UNIT.get(self.unit)
        for mark in get_args(self.hint)[1:] if get_origin(self.hint) is Annotated else ():
            if isinstance(mark, Allowed):
                if mark.most is None and by_unit is not None:
                    return Allowed(mark.least, by_unit.most)
                return mark
        if self.unit == "s" and self.type is int:
            return Allowed(1, SECONDS_MAX)
        return by_unit


def _settings() -> Iterator[Setting]:
    hints = get_type_hints(NodeSettings, include_extras=True)
    for each in fields(NodeSettings):
        yield Setting(section="", field=each.name, hint=hints[each.name], default=each.default)
    for setting in _of_sections():
        if NO_SETTING not in get_args(setting.hint):
            yield setting


def _of_sections() -> Iterator[Setting]:
    shorts = {path: short for short, path in SHORT_NAMES.items()}
    for section in fields(DEFAULTS):
        values = getattr(DEFAULTS, section.name)
        hints = get_type_hints(type(values), include_extras=True)
        for each in fields(values):
            yield Setting(
                section=section.name,
                field=each.name,
                hint=hints[each.name],
                default=getattr(values, each.name),
                short=shorts.get(f"{section.name}.{each.name}", ""),
            )


CATALOGUE: Final = {setting.path: setting for setting in _settings()}
"""Every setting by its path, the node's own first."""

SECTIONS: Final = tuple(each.name for each in fields(DEFAULTS))

SPELLINGS: Final = (
    CATALOGUE
    | {short: CATALOGUE[path] for short, path in SHORT_NAMES.items()}
    | {other: CATALOGUE[path] for other, path in OTHER_SPELLINGS.items()}
)
"""Every way to write a setting in a file."""


def variable_names() -> frozenset[str]:
    """The environment variables that stand for settings of a node."""
    return frozenset(it.variable for it in CATALOGUE.values() if it.is_flag)
