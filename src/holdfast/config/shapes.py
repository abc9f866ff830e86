"""
Every key that may be set, and the shape of its value.

pydantic checks each value by itself; its findings are told in our words, with the key and what is
allowed. How values fit together is a matter of `relations`.

Invariants:
    The range in a sentence is read from the field that was checked with it.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from holdfast.config.address import Address, read_address, read_host_names
from holdfast.config.members import MEMBERS_MAX, MemberConfig, check_name, read_members
from holdfast.config.sizes import read_size
from holdfast.model.limits import GiB, KiB, MiB

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["human", "json"]

ENVIRONMENT_PREFIX = "HOLDFAST_"

_AddressField = Annotated[Address, BeforeValidator(read_address)]
_MemberFields = Annotated[tuple[MemberConfig, ...], BeforeValidator(read_members)]
_NamesField = Annotated[tuple[str, ...], BeforeValidator(read_host_names)]
_NameField = Annotated[str, BeforeValidator(lambda value: check_name(str(value)))]
_SecondsField = Annotated[float, Field(ge=0.005, le=600)]


class Fields(BaseModel):
    """Every key that may be set, its shape, range and default; `None` is worked out from others."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True)

    data: Path
    name: _NameField = "holdfast"
    stomp: _AddressField = Address("127.0.0.1", 61613)
    admin: _AddressField = Address("127.0.0.1", 8161)
    admin_names: _NamesField = ()
    connections: Annotated[int, Field(ge=16, le=1_000_000)] = 10_000
    admin_connections: Annotated[int, Field(ge=8, le=10_000)] = 64
    peers: _AddressField | None = None
    members: _MemberFields = ()
    secret_file: Path | None = None
    site: _NameField | None = None
    copies: Annotated[int | None, Field(ge=1, le=MEMBERS_MAX)] = None
    sites: Annotated[int, Field(ge=1, le=MEMBERS_MAX)] = 1
    memory: Annotated[int, BeforeValidator(read_size), Field(ge=16 * MiB)] = 256 * MiB
    learner_hold: Annotated[int, BeforeValidator(read_size), Field(ge=64 * MiB)] = 16 * GiB
    reader_hold: Annotated[int, BeforeValidator(read_size), Field(ge=64 * MiB)] = 64 * GiB
    default_persistent: bool = False
    stomp_strict: bool = False
    segment: Annotated[int, BeforeValidator(read_size), Field(ge=64 * KiB, le=4 * GiB)] = 64 * MiB
    heartbeat_seconds: _SecondsField = 0.1
    election_seconds_min: _SecondsField = 1.0
    election_seconds_max: _SecondsField = 2.0
    log_level: LogLevel = "info"
    log_format: LogFormat = "human"


def variable_names() -> frozenset[str]:
    """The environment variables that stand for settings of a node."""
    return frozenset(ENVIRONMENT_PREFIX + key.upper() for key in Fields.model_fields)


def check_fields(merged: dict[str, Any], problems: list[str]) -> tuple[Fields, set[str]]:
    """
    Check each value by itself; wrong ones are reported and replaced by their default.

    Returns the fields and the keys that were wrong, so that the relations between the right ones
    can still be checked.
    """
    try:
        return Fields.model_validate(merged), set()
    except ValidationError as error:
        wrong = set()
        for detail in error.errors(include_url=False):
            key = str(detail["loc"][0])
            if key not in wrong:
                problems.append(_sentence(key, dict(detail)))
            wrong.add(key)
    kept = {key: value for key, value in merged.items() if key not in wrong}
    return Fields.model_validate({"data": Path(), **kept}), wrong


def _sentence(key: str, detail: dict[str, Any]) -> str:
    """One of pydantic's findings in our words: the key, what is wrong, what is allowed."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return f"{key}: missing; give --{key}, {ENVIRONMENT_PREFIX}{key.upper()} or '{key} = …'"
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(key, Fields.model_fields, n=1)
        return f"{key}: unknown setting" + (f"; did you mean {near[0]}?" if near else "")
    if kind in ("greater_than_equal", "less_than_equal"):
        return f"{key}: {detail['input']} is out of range; {_allowed(key)}"
    if kind == "value_error":
        return f"{key}: {context['error']}"
    return f"{key}: {detail['input']!r}: {str(detail['msg']).lower()}"


def _allowed(key: str) -> str:
    """The range of a number, read from the field itself so that it cannot differ from the check."""
    bounds = Fields.model_fields[key].metadata
    least = next(bound.ge for bound in bounds if isinstance(bound, Ge))
    most = next((bound.le for bound in bounds if isinstance(bound, Le)), None)
    return f"allowed: {least:,} or more" if most is None else f"allowed: {least:,} to {most:,}"
